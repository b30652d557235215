"""One sentence moves the arm: the whole system on its simulated devices, asked through gRPC, judged by the physics.

One system serves the claims of this file; each loads its own scene. Positions and stops are judged on the
simulation's and the controller's own records.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator

import numpy as np
import pytest
from bed import PATIENCE_S, UNHURRIED, Bed, causes_gone
from test_eye_place import Table
from wardarm.client import Refused
from wardarm.eye import calibrate
from wardarm.sim import scenes
from wardarm.sim.demo.staging import reference, stage
from wardarm.sim.recording import read
from wardarm.v1 import hold_pb2, state_pb2, task_pb2

pytestmark = pytest.mark.timeout(420)
CUP = reference("cup", "blue", "corner")
SENTENCE = "把桌角的蓝色水杯拿给我"


@pytest.fixture(scope="module")
def bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bed]:
    scene, _ = stage(CUP, 5)
    out = tmp_path_factory.mktemp("sentence")
    calibrate.calibrate(Table().seen(), None, print).save(out / "place")  # a look before each task, from now on
    bed = Bed(out, scene, {"camera.place": str(out / "place"), **UNHURRIED})
    yield bed
    bed.close()


@pytest.mark.parametrize(
    ("sentence", "says"),
    [("今天天气怎么样", "UNRELATED"), ("", "EMPTY"), ("bring me the telephone", "UNKNOWN_OBJECT")],
)
def test_what_is_no_task_moves_nothing_and_says_why(bed: Bed, sentence: str, says: str) -> None:
    before = bed.q_rad()
    with pytest.raises(Refused) as refused:
        bed.client.say(sentence)
    assert refused.value.reason == says
    assert refused.value.text
    assert np.allclose(bed.q_rad(), before, atol=1e-4)


def test_an_absent_object_is_refused_with_the_reason(bed: Bed) -> None:
    scene, _ = stage(CUP, 11, absent=True)
    bed.load(scene)
    before = bed.q_rad()
    task = bed.say(SENTENCE)
    assert task.state == task_pb2.TASK_STATE_REFUSED
    assert "name one thing that is seen" in task.text_en
    assert np.allclose(bed.q_rad(), before, atol=2e-3)


def test_a_camera_without_pictures_holds_the_task_and_moves_nothing(bed: Bed) -> None:
    scene, _ = stage(CUP, 5)
    bed.load(scene)
    bed.world("blackout", camera="d455", on=True)
    bed.wait("camera lost", lambda s: any(h.reason == hold_pb2.HOLD_REASON_CAMERA_LOST for h in s.holds))
    before = bed.q_rad()
    with bed.client.lease() as lease:
        with pytest.raises(Refused) as refused:
            bed.client.create_task(lease, instruction=SENTENCE)
        assert refused.value.reason == "HOLD_ACTIVE"
        bed.world("blackout", camera="d455", on=False)
        back = bed.wait("pictures again", causes_gone)
        assert hold_pb2.HOLD_REASON_CAMERA_LOST in [h.reason for h in back.holds]
        bed.client.resume([h.token for h in back.holds], lease)
        bed.wait("ready", lambda s: s.arm.state == state_pb2.ARM_STATE_READY)
    assert np.allclose(bed.q_rad(), before, atol=1e-4)


def test_a_camera_that_was_knocked_moves_nothing_until_it_is_back(bed: Bed) -> None:
    scene, _ = stage(CUP, 5)
    bed.load(scene)
    before = bed.q_rad()
    bed.world("knock_camera", shift_mm=[10, 0, 0], turn_deg=[0, 0, 1])
    bed.wait_pictures()
    with bed.client.lease() as lease:
        task = bed.client.create_task(lease, instruction=SENTENCE)
        held = bed.wait(
            "held", lambda s: any(h.reason == hold_pb2.HOLD_REASON_CAMERA_MOVED and h.latched for h in s.holds)
        )
        assert "mm off" in next(h.detail for h in held.holds if h.reason == hold_pb2.HOLD_REASON_CAMERA_MOVED)
        with pytest.raises(Refused) as refused:
            bed.client.resume([h.token for h in held.holds], lease)
        assert refused.value.reason == "HOLD_ACTIVE"
        bed.client.cancel(lease, task.task_id)
        assert np.allclose(bed.q_rad(), before, atol=1e-4)
        bed.world("knock_camera")
        back = bed.wait("back", causes_gone)
        bed.client.resume([h.token for h in back.holds], lease)
        bed.wait("ready", lambda s: s.arm.state == state_pb2.ARM_STATE_READY)
    assert np.allclose(bed.q_rad(), before, atol=1e-4)


def test_a_visitor_holds_the_arm_and_only_a_resume_that_names_the_hold_goes_on(bed: Bed) -> None:
    scene, cup = stage(CUP, 5)
    assert cup is not None
    bed.load(scene)
    with bed.client.lease() as lease:
        task = bed.client.create_task(lease, instruction=SENTENCE)
        with bed.attended(lease):
            bed.wait(
                "under way", lambda s: s.arm.state == state_pb2.ARM_STATE_RUNNING and s.task.steps[0].fraction > 0.05
            )
        bed.world("visitor", to="table")
        held = bed.wait(
            "held", lambda s: any(h.reason == hold_pb2.HOLD_REASON_INTRUDER for h in s.holds) and s.arm.at_rest
        )
        at = bed.q_rad()
        with pytest.raises(Refused) as wrong:
            bed.client.resume(["0"], lease)
        assert wrong.value.reason in ("HOLD_TOKENS", "HOLD_ACTIVE")
        with pytest.raises(Refused) as active:
            bed.client.resume([h.token for h in held.holds], lease)
        assert active.value.reason == "HOLD_ACTIVE"
        bed.world("visitor", to="away")
        cleared = bed.wait("clear again", causes_gone)
        assert cleared.holds, "the hold ended by itself"
        assert np.allclose(bed.q_rad(), at, atol=2e-3), "moved without a word"
        bed.client.resume([h.token for h in cleared.holds], lease)
        ended = bed.follow(task, lease)
    assert ended.state == task_pb2.TASK_STATE_DONE, ended.text_en
    assert bed.piece(cup.name)["fetched"]
    touches = bed.world()["touches"]
    assert touches["patient"] == 0
    assert touches["table"] == 0


def test_on_a_full_leaf_nothing_is_fetched_and_nothing_moves(bed: Bed) -> None:
    cup = scenes.SceneObject("cup", "blue", 0.34, -0.20, 0.0, 0.4, "cup0")
    full = (
        scenes.SceneObject("bowl", "white", 0.42, 0.53, 0.0, 0.0, "bowl0"),
        scenes.SceneObject("bowl", "red", 0.55, 0.53, 0.0, 0.0, "bowl1"),
    )
    bed.load(scenes.Scene((cup, *full), (0.5, -0.3)))
    bed.wait_pictures()
    before = bed.q_rad()
    task = bed.say("bring me the blue cup")
    assert task.state == task_pb2.TASK_STATE_REFUSED
    assert "clear the leaf" in task.text_en
    assert "\u684c\u677f" in task.text_zh or "\u6258\u677f" in task.text_zh
    assert np.allclose(bed.q_rad(), before, atol=1e-3)


def test_what_does_not_stand_where_it_was_let_go_is_not_called_done(bed: Bed) -> None:
    """Somebody takes the cup away, or it falls: the arm has done its part, the task is not done."""
    scene, cup = stage(CUP, 3)
    assert cup is not None
    bed.load(scene)
    with bed.client.lease() as lease:
        task = bed.client.create_task(lease, instruction=SENTENCE)
        with bed.attended(lease):
            bed.wait("set down", lambda _: bed.piece(cup.name)["fetched"])
        bed.world("remove", name=cup.name)
        ended = bed.follow(task, lease)
    assert ended.state == task_pb2.TASK_STATE_FAILED
    assert "please look" in ended.text_en


def test_with_two_cups_colours_swapped_the_other_cup_is_taken(bed: Bed) -> None:
    """It is the picture that decides: the same scene and sentence, only the paint differs."""
    blue = scenes.SceneObject("cup", "blue", 0.34, -0.20, 0.0, 0.4, "cup0")
    red = scenes.SceneObject("cup", "red", 0.42, 0.16, 0.0, -0.9, "cup1")
    bowl = scenes.SceneObject("bowl", "white", 0.60, 0.0, 0.0, 0.0, "bowl0")
    bed.load(scenes.Scene((blue, red, bowl), (0.5, -0.3)))
    bed.world("swap_colors", a="cup0", b="cup1")
    over, openings = threading.Event(), []

    def watch() -> None:
        while not over.wait(0.03):
            report = bed.world()
            openings.append((report["opening"], bool(report["fetched"])))

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    task = bed.say("bring me the blue cup")
    over.set()
    watcher.join()
    assert task.state == task_pb2.TASK_STATE_DONE, task.text_en
    assert bed.piece("cup1")["fetched"]
    assert not bed.piece("cup0")["lifted"]
    released = next(i for i, (opening, fetched) in enumerate(openings) if fetched and opening > 0.9)
    assert min(opening for opening, _ in openings[released:]) > 0.9, (
        "the fingers closed again on what they had set down"
    )


def test_stop_and_sigterm_leave_the_cup_in_the_fingers(bed: Bed) -> None:
    """Last in this file: it ends the system."""
    scene, cup = stage(CUP, 8)
    assert cup is not None
    bed.load(scene)
    with bed.client.lease() as lease:
        bed.client.create_task(lease, instruction=SENTENCE)
        end = time.monotonic() + PATIENCE_S
        with bed.attended(lease):
            while not (bed.piece(cup.name)["held"] and bed.piece(cup.name)["rise_m"] > 0.08):
                assert time.monotonic() < end, bed.client.state()
                time.sleep(0.1)
        bed.client.stop("test")
        bed.wait("at rest", lambda s: s.arm.at_rest)
        assert bed.piece(cup.name)["held"]
    bed.system.process.send_signal(signal.SIGTERM)
    assert bed.system.process.wait(PATIENCE_S) == 0
    last = read(bed.config.sim.record)[-1]
    pieces = scenes.KINDS.index("cup") * scenes.PER_KIND + int(cup.name[-1])
    height = last["qpos"][14 + 7 * pieces + 2]
    assert height > 0.05, f"the cup's foot is at {height:.3f} m"
