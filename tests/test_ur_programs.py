"""URScript as it is published: short programs after manuals, drivers and forums, each with where it comes from.

They are rewritten (other names, other numbers, the same constructs), so that no licence of a text matters.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from wardarm.sim.lockstep import Lockstep
from wardarm.sim.ur_controller.modes import Runtime

MANUAL = 'Universal Robots, "Script manual, e-Series"'
HOME = "[0, -1.57, 1.57, -1.57, -1.57, 0]"


@dataclass(frozen=True)
class Published:
    """`says`: its messages in order. `q`: where the arm is in the end, rad. `error`: how it ends, if that is its point."""

    source: str
    text: str
    says: tuple[str, ...] = ()
    q: tuple[float, ...] = ()
    error: str = ""
    outputs: int = 0


PROGRAMS = {
    "scope": Published(f"{MANUAL}, Scoping rules", """
def prog():
  a = 0
  def f():
    a = 1
  end
  f()
  textmsg(a)
end""", ("1",)),
    "local_scope": Published(f"{MANUAL}, Scoping rules", """
def prog():
  global a = 0
  def f():
    local a = 1
    def g():
      a = 2
    end
    g()
    textmsg(a)
  end
  f()
  textmsg(a)
end""", ("1", "2")),
    "threads_hanoi": Published(f"{MANUAL}, Threads: a thread with its own function and recursion", """
def prog():
  global moves = 0
  def carry(n, from, to, over):
    if n > 0:
      carry(n - 1, from, over, to)
      moves = moves + 1
      carry(n - 1, over, to, from)
    end
  end
  thread worker():
    carry(5, 1, 2, 3)
    return False
  end
  handle = run worker()
  join handle
  textmsg(moves)
end""", ("31",)),
    "thread_killed_with_its_program": Published(f"{MANUAL}, Threads", """
def prog():
  global n = 0
  thread count():
    while True:
      n = n + 1
      sync()
    end
  end
  t = run count()
  sleep(0.1)
  kill t
  m = n
  sleep(0.1)
  textmsg(n == m, n > 40)
end""", ("TrueTrue",)),
    "matrix": Published(f"{MANUAL}, Matrix and Array Expressions", """
def prog():
  m = [[1, 2], [3, 4], [5, 6]]
  textmsg(size(m), transpose(m)[0])
  textmsg(m * [10, 20])
  m[2, 1] = 9
  textmsg(m[2])
end""", ("[3, 2][1, 3, 5]", "[50, 110, 170]", "[5, 9]")),
    "named_arguments": Published(f"{MANUAL}, Function: optional parameters", """
def prog():
  def add(a = 0, b = 0):
    return a + b
  end
  textmsg(str_cat(add(1, 2), " "), str_cat(add(b = 7), str_cat(" ", add())))
end""", ("3 7 0",)),
    "struct": Published(f"{MANUAL}, Numbers, Variables, and Types: struct", """
def prog():
  part = struct(name = "cup", weight = 0.25, place = p[0.4, 0.1, 0.2, 0, 3.14, 0])
  part.weight = part.weight * 2
  part.place[2] = 0.3
  textmsg(part.name, str_cat(" ", str_cat(part.weight, str_cat(" ", part.place[2]))))
end""", ("cup 0.5 0.3",)),
    "strings": Published(f"{MANUAL}, str_cat, str_sub, str_find, str_len, to_num", """
def prog():
  line = str_cat("x=", 12.5)
  at = str_find(line, "=")
  textmsg(to_num(str_sub(line, at + 1)) * 2, str_cat(" ", str_len(line)))
end""", ("25 6",)),
    "interpolate": Published(f"{MANUAL}, interpolate_pose, pose_trans, pose_inv", """
def prog():
  a = p[0.2, 0, 0.4, 0, 0, 0]
  b = p[0.4, 0.2, 0.4, 0, 0, d2r(90)]
  textmsg(interpolate_pose(a, b, 0.5)[0])
  textmsg(pose_trans(p[1, 0, 0, 0, 0, d2r(90)], p[1, 0, 0, 0, 0, 0])[1])
  textmsg(pose_trans(pose_inv(b), b)[5])
end""", ("0.3", "1", "0")),
    "bits": Published(f"{MANUAL}, integer_to_binary_list, binary_list_to_integer", """
def prog():
  bits = integer_to_binary_list(37)
  textmsg(bits[0], bits[1])
  textmsg(bits[2], bits[5])
  textmsg(binary_list_to_integer([True, False, True]))
end""", ("TrueFalse", "TrueTrue", "5")),
    "square_of_waypoints": Published(f"{MANUAL}, movel, movep and blends", f"""
def prog():
  movej({HOME}, a=3, v=2)
  w = get_actual_tcp_pose()
  movel(pose_add(w, p[0, 0.1, 0, 0, 0, 0]), a=1.2, v=0.25, r=0.02)
  movel(pose_add(w, p[0, 0.1, -0.1, 0, 0, 0]), a=1.2, v=0.25, r=0.02)
  movel(pose_add(w, p[0, 0, -0.1, 0, 0, 0]), a=1.2, v=0.25, r=0.02)
  movel(w, a=1.2, v=0.25)
end""", q=(0, -1.57, 1.57, -1.57, -1.57, 0)),
    "circle": Published(f"{MANUAL}, movec", f"""
def prog():
  movej({HOME}, a=3, v=2)
  w = get_actual_tcp_pose()
  movec(pose_add(w, p[0, 0.05, 0.05, 0, 0, 0]), pose_add(w, p[0, 0.1, 0, 0, 0, 0]), a=1.2, v=0.25, mode=1)
  textmsg(norm(get_target_tcp_pose()[1] - w[1] - 0.1) < 0.000001)
  movec(pose_add(w, p[0, 0.05, -0.05, 0, 0, 0]), w, a=1.2, v=0.25)
  textmsg(norm(get_target_tcp_pose()[1] - w[1]) < 0.000001)
end""", ("True", "True")),
    "servo_circle": Published(f"{MANUAL}, servoj; and ur_rtde, examples/servoj", f"""
def prog():
  movej({HOME}, a=3, v=2)
  n = 0
  while n < 250:
    q = {HOME}
    q[0] = 0.1 * sin(n * 0.002)
    servoj(q, t=0.002, lookahead_time=0.1, gain=300)
    n = n + 1
  end
  stopj(2)
end"""),
    "speed": Published(f"{MANUAL}, speedj and stopj; ur_rtde, examples/speedj", f"""
def prog():
  movej({HOME}, a=3, v=2)
  speedj([0.2, 0, 0, 0, 0, 0], 1.0, 0.5)
  stopj(1.0)
  textmsg(get_actual_joint_positions()[0] > 0.05)
end""", ("True",)),
    "palletize": Published("Zacobria, palletizing by script: rows and columns from a corner", f"""
def pallet():
  movej({HOME}, a=3, v=2)
  corner = get_actual_tcp_pose()
  row = 0
  while row < 2:
    column = 0
    while column < 3:
      above = pose_trans(corner, p[0.03 * column, 0.03 * row, 0, 0, 0, 0])
      movel(above, a=2, v=0.5, r=0.001)
      movel(pose_trans(above, p[0, 0, 0.02, 0, 0, 0]), a=2, v=0.5)
      set_standard_digital_out(0, not get_standard_digital_out(0))
      movel(above, a=2, v=0.5)
      column = column + 1
    end
    row = row + 1
  end
  textmsg("placed ", row * column)
end""", ("placed 6",)),
    "wait_for_input": Published("Zacobria and forum: wait with a time limit", """
def prog():
  passed = 0
  while (get_standard_digital_in(1) == False and passed < 0.2):
    sleep(0.01)
    passed = passed + 0.01
  end
  if (get_standard_digital_in(1)):
    textmsg("there")
  else:
    popup("nothing came", title="Input", warning=True, blocking=False)
  end
  set_digital_out(2, True)
  set_tool_digital_out(0, True)
  write_output_integer_register(5, floor(passed * 100 + 0.5))
  textmsg(read_output_integer_register(5))
end""", ("20",), outputs=1 << 2 | 1 << 16),
    "encoder": Published(f"{MANUAL}, encoder_unwind_delta_tick_count", """
def prog():
  encoder_enable_set_tick_count(0, 1)
  encoder_set_tick_count(0, 250)
  before = encoder_get_tick_count(0)
  encoder_set_tick_count(0, 4)
  textmsg(encoder_unwind_delta_tick_count(0, encoder_get_tick_count(0) - before))
end""", ("10",)),
    "driver_message": Published("ROS 2 driver, urscript_interface", """
def my_prog():
  set_digital_out(1, True)
  movej(p[0.3, -0.2, 0.4, 0, 3.14, 0], a=1.2, v=0.8, r=0)
  textmsg("motion finished")
end""", ("motion finished",), outputs=1 << 1),
    "sudden_target": Published("forum.universal-robots.com, \"What does C204A1 mean?\"", f"""
def prog():
  movej({HOME}, a=3, v=2)
  global FaceDown = p[0, 0, 0, d2r(180), 0, 0]
  local Angle = 3.14159 / 4
  local InFront = pose_trans(get_actual_tcp_pose(), p[0, 0, -0.05, 0, 0, Angle / 4])
  movej(InFront, a=1.2, v=1, r=0.01)
  movel(pose_trans(InFront, p[0, 0, 0.05, 0, 0, 0]), a=1, v=0.3)
  textmsg(norm(FaceDown[3] - 3.14159) < 0.001)
end""", ("True",)),
    "gripper_preamble": Published("python-urx, robotiq_two_finger_gripper: the pattern of Robotiq's own preamble", """
def rq():
  def rq_set_var(name, value, socket="1"):
    socket_set_var(name, value, socket)
    return socket_read_byte_list(3, socket, 1)
  end
  def is_ack(answer):
    if answer[0] != 3:
      return False
    elif answer[1] != 97:
      return False
    end
    return answer[2] == 99 or answer[2] == 107
  end
  if (not socket_open("10.0.0.7", 5000, "1")):
    halt
  end
  answer = rq_set_var("ACT", 1, "1")
  while is_ack(answer) == False and answer[0] > 0:
    answer = rq_set_var("ACT", 1, "1")
  end
  textmsg(is_ack(answer))
  textmsg(socket_get_var("POS", "1"))
  socket_close("1")
end""", ("True", "128")),
    "camera": Published("Zacobria, \"PC as a server\": coordinates from another machine", """
def camera():
  opened = socket_open("10.0.0.7", 5000)
  while opened == False:
    opened = socket_open("10.0.0.7", 5000)
  end
  socket_send_line("GET 1")
  received = socket_read_ascii_float(3)
  while received[0] != 3:
    received = socket_read_ascii_float(3)
  end
  textmsg(received[1] + received[2] + received[3])
end""", ("6.5",)),
    "contact": Published(f"{MANUAL}, tool_contact and get_actual_joint_positions_history", f"""
def prog():
  movej({HOME}, a=3, v=2)
  steps = 0
  n = 0
  while steps == 0 and n < 100:
    speedl([0, 0, -0.05, 0, 0, 0], 0.5, t=get_steptime())
    steps = tool_contact(direction=get_actual_tcp_speed())
    n = n + 1
  end
  stopl(3)
  textmsg(n, str_cat(" ", steps))
end""", ("100 0",)),
    "name_pass": Published("Hirebotics/urscript-tools, test framework: `pass` as a name", """
def prog():
  local pass = str_cat("status", ":ok")
  if True:
    pass
  end
  textmsg(pass)
end""", ("status:ok",)),
    "number_as_condition": Published("Universal Robots' client library, external_control.urscript: `if has_qnear:`", """
def prog():
  has_near = 1000000 / 1000000
  if has_near:
    textmsg("near")
  end
  if not 0 and 2:
    textmsg("two")
  end
end""", ("near", "two")),
    "joined_texts": Published("UniversalRobots/URScript_Examples, ethernet-ip: texts joined by +", """
def prog():
  info = "door open"
  popup("Preconditions failed<br>" + info, blocking=False)
  textmsg("why: " + info)
end""", ("why: door open",)),
    "admittance": Published("UniversalRobots/URScript_Examples, admittance-control: filters over lists", """
def prog():
  global mass = [22.5, 22.5, 22.5, 1, 1, 1]
  global damping = [25, 25, 25, 2, 2, 2]
  def accelerate(wrench, speed):
    local acc = [0, 0, 0, 0, 0, 0]
    i = 0
    while i < 6:
      acc[i] = (wrench[i] - damping[i] * speed[i]) / mass[i]
      i = i + 1
    end
    return acc
  end
  v = [0, 0, 0, 0, 0, 0]
  n = 0
  while n < 500:
    v = v + accelerate([5, 0, 0, 0, 0, 0], v) * get_steptime()
    speedl(v * 0.1, 5, get_steptime())
    n = n + 1
  end
  stopl(5)
  textmsg(floor(v[0] * 1000))
end""", ("134",)),
    "fieldbus_is_refused": Published("UniversalRobots/URScript_Examples, ethernet-ip and modbus", """
def prog():
  modbus_add_signal("192.168.0.9", 255, 0, 0, "inputs", True, 24)
  sleep(0.1)
  textmsg(modbus_get_signal_status("inputs", False))
end""", error="modbus_get_signal_status is not simulated"),
    "errors": Published("forum and robocom examples: what is wrong is said with its line", """
def undefined_function():
  textmsg("log ", get_tcp_pose())
end""", error="line 3: unknown function 'get_tcp_pose'"),
}  # fmt: skip


class Peer:
    """Robotiq's gripper and a camera, on one port."""

    def opened(self, link: Any) -> None: ...

    def received(self, link: Any) -> None:
        for line in link.lines():
            answers = {"SET": b"ack", "GET POS": b"POS 128\n", "GET 1": b"(1, 2.5, 3)\n"}
            link.send(next(v for k, v in answers.items() if line.startswith(k)))

    def closed(self, link: Any) -> None: ...


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_published_program_does_what_it_is_published_for(name: str) -> None:
    program = PROGRAMS[name]
    with Lockstep() as sim:
        sim.network.peers["10.0.0.7", 5000] = Peer()
        sim.controller.submit(program.text)
        sim.step()
        for _ in range(40_000):
            if sim.controller.slot.runtime is Runtime.STOPPED:
                break
            sim.step()
        sim.step(500)  # it comes to rest
        said = [line.removeprefix("textmsg: ") for line in sim.log(1000) if line.startswith("textmsg: ")]
        assert program.error in sim.controller.slot.last_error
        assert bool(program.error) == bool(sim.controller.slot.last_error), sim.controller.slot.last_error
        assert said == list(program.says), sim.controller.safety.reason
        assert sim.controller.safety.may_move, sim.controller.safety.reason
        assert not any(sim.controller.servo.qd)
        assert sim.controller.digital_out & program.outputs == program.outputs
        if program.q:
            assert list(sim.controller.servo.q) == pytest.approx(program.q, abs=1e-6)
