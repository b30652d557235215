"""Moves the simulated UR5e with ur_rtde. In another terminal: wardarm sim ur --address 127.0.0.2"""

from rtde_control import RTDEControlInterface
from rtde_receive import RTDEReceiveInterface

control, receive = RTDEControlInterface("127.0.0.2"), RTDEReceiveInterface("127.0.0.2")
pose = receive.getActualTCPPose()
control.moveL([pose[0], pose[1], pose[2] + 0.05, *pose[3:]], 0.25, 1.2)  # 5 cm up, m/s and m/s2
print("the TCP is at", [round(v, 4) for v in receive.getActualTCPPose()[:3]], "m")
control.stopScript()
