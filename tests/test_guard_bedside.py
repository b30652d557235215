"""guard on the simulated bedside's room views as they ship in the desk configuration: real meshes, lamps and noise."""

from __future__ import annotations

import copy
import os
import secrets
from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pytest
from wardarm import config as configuration
from wardarm.guard import zones
from wardarm.guard.detector import Detector, Finding, ViewState, work_size
from wardarm.guard.silhouette import ArmPose, Silhouette
from wardarm.kinematics import Kinematics, TcpPose

os.environ.setdefault("MUJOCO_GL", "egl")
CONFIG = configuration.load("desk")
GUARD = CONFIG.guard
CARRY = [
    (0.30, 0.0, 0.42),
    (0.45, -0.30, 0.12),
    (0.45, -0.30, 0.34),
    (0.48, 0.50, 0.34),
    (0.48, 0.50, 0.20),
    (0.30, 0.0, 0.42),
]


class Bedside:
    """The rendered room and one detector a view."""

    def __init__(self) -> None:
        from wardarm.sim import robot, scenes
        from wardarm.sim.pictures import PictureReader
        from wardarm.sim.renderer import NoRenderer
        from wardarm.sim.views import Views

        prefix = f"tb{secrets.token_hex(4)}_"
        try:
            self.views = Views(prefix)
        except NoRenderer as e:
            pytest.skip(str(e))
        self.world = self.views.world
        self.world.load(scenes.demo_scene(7))
        self.stamp = 1
        self.views.draw_rooms(self.stamp)
        self.pictures = {c.name: PictureReader(prefix, f"room_{c.name}") for c in GUARD.cameras}
        self.home = np.array(robot.HOME_Q_RAD)
        self.silhouettes = {c.name: Silhouette(CONFIG.arm, GUARD, c, work_size(GUARD)) for c in GUARD.cameras}
        self.detectors = {c.name: Detector(GUARD, c) for c in GUARD.cameras}
        for _ in range(GUARD.warmup_frames):
            self.frame(self.home, self.home)
        self.learnt = copy.deepcopy(self.detectors)

    def clear(self) -> None:
        """As after start-up: the empty room is learnt, nothing else happened yet."""
        self.detectors = copy.deepcopy(self.learnt)

    def frame(self, q: np.ndarray, q_before: np.ndarray) -> dict[str, Finding]:
        self.world.set_arm(q)
        self.stamp += 1
        self.views.draw_rooms(self.stamp)
        found = {}
        for name, detector in self.detectors.items():
            picture = self.pictures[name].latest()
            assert picture is not None
            mask = self.silhouettes[name].mask([ArmPose(1, q_before, False), ArmPose(2, q, False)])
            found[name] = detector.update(picture.pixels.reshape(GUARD.height, GUARD.width), mask)
        return found


@pytest.fixture(scope="module")
def bedside() -> Iterator[Bedside]:
    bedside = Bedside()
    yield bedside
    bedside.views.close()


def test_every_shipped_zone_passes_its_check() -> None:
    for camera in GUARD.cameras:
        zones.check(camera.name, camera.keep_out, GUARD)


def test_the_arm_at_work_is_no_intruder_in_any_view(bedside: Bedside) -> None:
    solve, q = Kinematics(CONFIG.arm), bedside.home
    frame_m = CONFIG.limits.tcp_m_s / GUARD.fps  # how far the TCP gets between two frames at full speed
    for start, end in pairwise(CARRY):
        span = np.subtract(end, start)
        for part in np.linspace(0, 1, max(2, int(np.linalg.norm(span) / frame_m)))[1:]:
            q_before, q = q, solve.solve(TcpPose(start + part * span, np.zeros(3)), q)
            found = bedside.frame(q, q_before)
            assert {name: f.state for name, f in found.items()} == dict.fromkeys(found, ViewState.CLEAR)


@pytest.mark.parametrize("spot", ["table", "corner", "foot", "arm"])
def test_a_visitor_at_any_spot_is_seen_by_two_views_and_stays_seen(bedside: Bedside, spot: str) -> None:
    from wardarm.sim.visitor import SPOTS

    bedside.clear()
    bedside.world.visitor.put(*SPOTS[spot])
    bedside.world.show_visitor()
    try:
        runs = [bedside.frame(bedside.home, bedside.home) for _ in range(6)]
    finally:
        bedside.world.visitor.put(4.4, -1.45)
        bedside.world.show_visitor()
    for found in runs[1:]:
        seen = [name for name, f in found.items() if f.state is ViewState.INTRUDER]
        assert len(seen) >= 2, f"{spot}: only {seen}"


def test_a_lamp_that_is_switched_is_a_changed_view_in_the_rendered_room(bedside: Bedside) -> None:
    bedside.clear()
    bedside.world.set_light(1.35)
    try:
        runs = [bedside.frame(bedside.home, bedside.home) for _ in range(5)]
    finally:
        bedside.world.set_light(1.0)
    for found in runs:
        assert ViewState.CLEAR not in {f.state for f in found.values()}
