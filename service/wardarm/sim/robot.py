"""The UR5e with its Robotiq 2F-85 as a MuJoCo specification, from DeepMind's Menagerie models.

The world frame is the arm's DH base frame. The model equals DH a = (0, -0.425, -0.392, 0, 0, 0) m,
d = (0.163, 0, 0, 0.134, 0.1, 0.1) m exactly: that is this simulated arm's "factory calibration"
(`configs/desk.toml`). The TCP is the site `TCP_SITE`: flange, 155.8 mm out, turned -90 degrees about z.
"""

from __future__ import annotations

import warnings
import zipfile
from importlib import resources

import mujoco

JOINTS = (
    "shoulder_pan_joint", "shoulder_lift_joint", "elbow_joint", "wrist_1_joint", "wrist_2_joint", "wrist_3_joint",
)  # fmt: skip
TCP_SITE = "g_pinch"
FINGERS = "g_fingers_actuator"
FINGER_JOINT = "g_right_driver_joint"
FINGER_CTRL_MAX = 255.0
FINGER_CLOSED_RAD = 0.8
HOME_Q_RAD = (2.678540, -2.057600, 1.700110, -1.213310, -1.570800, -2.033850)
"""TCP at (0.30, 0, 0.42) m, tool-down."""

SERVO_LAG_S = 0.036
"""A position servo follows its damping over its stiffness late, less one step here: 34 ms, as a UR e-Series arm does
after servoj with a short look-ahead."""
_STIFFNESS = {"size3": 20000.0, "size1": 5000.0}  # Nm/rad: a held piece sags the TCP by less than 0.1 mm
_TORQUE_NM = {"size3": 150.0, "size1": 28.0}  # UR5e data sheet, joint sizes 3 and 1
_FINGER_DAMPING = 4.0  # fingers follow their target 40 ms late; Menagerie's own 10 makes a stroke take a second


def _part(folder: str, xml: str, files: dict[str, bytes]) -> mujoco.MjSpec:
    text = resources.files("wardarm").joinpath("sim", "assets", folder, xml).read_text("utf-8")
    spec = mujoco.MjSpec.from_string(text)
    spec.meshdir = ""
    for mesh in spec.meshes:
        mesh.file = f"{folder}/{mesh.file}"
    spec.assets = {name: data for name, data in files.items() if name.startswith(folder)}
    return spec


def arm_spec() -> mujoco.MjSpec:
    """The arm with gripper at the world's origin, its servos stiff, its links weightless (the real controller
    compensates gravity). Robot bodies carry gravcomp 1; what is attached later does not."""
    with (
        resources.files("wardarm").joinpath("sim", "assets", "robot_meshes.zip").open("rb") as packed,
        zipfile.ZipFile(packed) as archive,
    ):
        files = {name: archive.read(name) for name in archive.namelist()}
    spec = _part("universal_robots_ur5e", "ur5e.xml", files)
    gripper = _part("robotiq_2f85", "2f85.xml", files)
    spec.option.cone = mujoco.mjtCone.mjCONE_ELLIPTIC
    spec.option.impratio = 10
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # both parts set contact options; the ones above are meant
        spec.site("attachment_site").attach_body(gripper.body("base_mount"), "g_", "")
    spec.assets = files
    for body in spec.bodies:
        if body.name != "world":
            body.gravcomp = 1
    for key in list(spec.keys):
        spec.delete(key)
    for light in list(spec.lights):
        spec.delete(light)
    for actuator in spec.actuators:
        if actuator.name == FINGERS:
            actuator.biasprm[2] = -_FINGER_DAMPING
            continue
        size = "size1" if actuator.name.startswith("wrist") else "size3"
        stiffness, torque = _STIFFNESS[size], _TORQUE_NM[size]
        actuator.gainprm[0] = stiffness
        actuator.biasprm[1], actuator.biasprm[2] = -stiffness, -stiffness * SERVO_LAG_S
        actuator.forcerange = [-torque, torque]
    return spec
