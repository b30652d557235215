"""A running system while somebody works beside the arm: it becomes slow under way, goes on, and finishes its task."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from wardarm.guard import attended
from wardarm.guard.attended import GRACE_S, SPEED_OVER
from wardarm.sim.crossing import Crossing, Watch
from wardarm.v1 import task_pb2

pytestmark = pytest.mark.timeout(900)
FAR = {"poses.park": [0.45, -0.50, 0.30, 0, 0, 0], "poses.home": [0.45, 0.40, 0.40, 0, 0, 0], "sim.room_fps": 5.0,
       "guard.fps": 5.0}  # fmt: skip


@pytest.fixture(scope="module")
def bed() -> Iterator[Crossing]:
    bed = Crossing(Path("out/prove/gentle"), more=FAR)
    yield bed
    attended.end(bed.config)
    bed.close()


def speeds(watch: Watch) -> tuple[np.ndarray, np.ndarray]:
    """Times, s, and TCP speeds, m/s, over 0.15 s of the controller's clock."""
    t = np.array([float(s["controller_s"]) for s in watch.status])
    p = np.array([s["tcp_pose"][:3] for s in watch.status])
    back = np.maximum(np.searchsorted(t, t - 0.15), 0)
    moved = np.linalg.norm(p - p[back], axis=1)
    return t, moved / np.maximum(t - t[back], 0.05)


def test_an_arm_under_way_becomes_slow_and_arrives_without_a_hold(bed: Crossing) -> None:
    bed.world("visitor", to="away", at_once=True)
    bed.free()
    moved = threading.Thread(target=bed.move, args=(task_pb2.MOVEMENT_HOME,))
    moved.start()
    moved.join(120)
    watch = Watch(bed.config)
    states: list[int] = []
    task = threading.Thread(target=lambda: states.append(bed.move(task_pb2.MOVEMENT_PARK)))
    watch.start()
    task.start()
    end = threading.Event()
    while not watch.status or speeds(watch)[1][-1] < 0.15:
        assert task.is_alive(), "the arm never became fast"
        end.wait(0.05)
    asked = attended.start(bed.config, 5, "test", "a nurse comes")
    task.join(180)
    watch.ended.set()
    watch.join()
    stamps = np.array([int(s["stamp_ns"]) for s in watch.status])
    t, v = speeds(watch)
    at = t[int(np.searchsorted(stamps, asked.since_ns))]
    limit = SPEED_OVER * bed.config.profiles["patient"].tcp_m_s
    assert v[t <= at].max() > 0.15
    assert v[t > at + GRACE_S].max() <= limit, f"{v[t > at + GRACE_S].max():.3f} m/s"
    assert max(int(s["hold_count"]) for s in watch.status) == 0
    assert states == [task_pb2.TASK_STATE_DONE]


def test_from_rest_the_gentle_profile_is_in_force(bed: Crossing) -> None:
    """Attended still: a whole movement in the gentle profile, with somebody in the zone."""
    attended.start(bed.config, 5, "test", "a nurse works here")
    bed.world("visitor", x_m=0.70, y_m=-1.00, at_once=True)
    watch = Watch(bed.config)
    watch.start()
    try:
        state = bed.move(task_pb2.MOVEMENT_HOME)
    finally:
        watch.ended.set()
        watch.join()
        bed.world("visitor", to="away")
    t, v = speeds(watch)
    assert v.max() <= SPEED_OVER * bed.config.profiles["patient"].tcp_m_s
    assert v.max() > 0.05
    assert state == task_pb2.TASK_STATE_DONE
    assert t[-1] > t[0]
