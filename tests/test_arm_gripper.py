"""The gripper's port: what is held, and that nothing held is let go by an activation that nobody asked for."""

from __future__ import annotations

import selectors
import threading
import time
from collections.abc import Callable, Iterator

import pytest
from addresses import own_address
from patience import PATIENCE_S
from wardarm.arm.gripper import SLIPPED, Contact, GripperWatch, HoldingRule
from wardarm.shm.layouts import Holding
from wardarm.sim.gripper import FreeFingers, GripperPort
from wardarm.sim.ur_controller.connection import Acceptor


class Device(threading.Thread):
    """A gripper on its own: fingers and port, 500 steps a second."""

    def __init__(self, address: str) -> None:
        super().__init__(daemon=True)
        self.fingers = FreeFingers()
        self.port = GripperPort(self.fingers)
        self.selector = selectors.DefaultSelector()
        self.acceptor = Acceptor(address, self.port, self.selector, lambda: False)
        self.ending = threading.Event()

    def run(self) -> None:
        while not self.ending.is_set():
            for key, events in self.selector.select(0.002):
                key.data.ready(events)
            self.fingers.step(0.002)
            self.port.publish()
        self.acceptor.close()


ADDRESS = own_address()


@pytest.fixture
def device() -> Iterator[Device]:
    device = Device(ADDRESS)
    yield device
    device.ending.set()
    if device.is_alive():
        device.join()
    else:
        device.acceptor.close()


@pytest.fixture
def watch() -> Iterator[GripperWatch]:
    watch = GripperWatch(ADDRESS, 63352)
    yield watch
    watch.stop()


def until(done: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not done():
        assert time.monotonic() < end, "not there"
        time.sleep(0.005)


def holding(watch: GripperWatch) -> Holding | None:
    return watch.fingers.holding if watch.fingers is not None else None


def test_what_is_there_at_the_first_look_is_unknown_until_it_was_let_go() -> None:
    rule = HoldingRule()
    assert rule.see(Contact.WHILE_CLOSING, 0.4) is Holding.UNKNOWN
    assert rule.see(Contact.MOVING, 0.2) is Holding.UNKNOWN
    assert rule.see(Contact.NONE, 1.0) is Holding.NO
    assert rule.see(Contact.WHILE_CLOSING, 0.4) is Holding.YES


def test_fingers_that_close_further_have_lost_it_before_they_arrive() -> None:
    rule = HoldingRule()
    rule.see(Contact.NONE, 1.0)
    assert rule.see(Contact.WHILE_CLOSING, 0.4) is Holding.YES
    assert rule.see(Contact.MOVING, 0.4 - 0.9 * SLIPPED) is Holding.YES  # it gives way a little
    assert rule.see(Contact.WHILE_CLOSING, 0.4 - 0.9 * SLIPPED) is Holding.YES
    assert rule.see(Contact.MOVING, 0.4 - 1.1 * SLIPPED) is Holding.NO
    assert rule.see(Contact.WHILE_CLOSING, 0.2) is Holding.YES  # caught once more, by another end
    assert rule.see(Contact.MOVING, 0.8) is Holding.YES  # opening: let go only where they stop
    assert rule.see(Contact.NONE, 1.0) is Holding.NO


def test_after_a_silence_what_is_held_is_unknown_again() -> None:
    """A cup may have been taken out and a sleeve put in meanwhile."""
    address = own_address()
    first, watch = Device(address), GripperWatch(address, 63352)
    first.start()
    watch.start()
    until(lambda: holding(watch) is Holding.NO)
    first.fingers.object_opening = 0.4
    first.fingers.set_target(0.0, 255, 80)
    until(lambda: holding(watch) is Holding.YES)
    first.ending.set()
    first.join()
    for connection in [k.fileobj for k in first.selector.get_map().values()]:
        connection.close()  # type: ignore[union-attr]
    until(lambda: watch.fingers is not None and not watch.fingers.fresh(time.monotonic_ns()))
    again = Device(address)
    again.fingers = again.port.device = first.fingers
    again.start()
    try:
        until(lambda: watch.fingers is not None and watch.fingers.fresh(time.monotonic_ns()))
        assert holding(watch) is Holding.UNKNOWN
        again.fingers.set_target(1.0, 255, 80)
        until(lambda: holding(watch) is Holding.NO)
    finally:
        watch.stop()
        again.ending.set()
        again.join()


def test_a_grasp_is_held_and_a_release_is_not(device: Device, watch: GripperWatch) -> None:
    device.start()
    watch.start()
    until(lambda: holding(watch) is Holding.NO)
    device.fingers.object_opening = 0.4
    device.fingers.set_target(0.0, 255, 80)
    until(lambda: holding(watch) is Holding.YES)
    assert watch.fingers is not None
    assert watch.fingers.opening == pytest.approx(0.4, abs=0.01)
    device.fingers.set_target(1.0, 255, 80)
    until(lambda: holding(watch) is Holding.NO)


def test_a_gripper_that_may_hold_something_is_activated_by_a_person_only(device: Device, watch: GripperWatch) -> None:
    device.port.values["ACT"] = 0
    device.fingers.opening = device.fingers.target = 0.4
    device.start()
    watch.start()
    until(lambda: watch.fingers is not None and "PowerOn" in watch.trouble)
    time.sleep(0.3)  # several polls
    assert device.port.sets == []
    assert holding(watch) is Holding.UNKNOWN
    watch.activate()
    until(lambda: watch.fingers is not None and watch.fingers.activated)
    assert ("ACT", 1) in device.port.sets


def test_an_open_gripper_is_activated_at_once(device: Device, watch: GripperWatch) -> None:
    device.port.values["ACT"] = 0
    device.start()
    watch.start()
    until(lambda: watch.fingers is not None and watch.fingers.activated)


def test_a_gripper_that_is_not_there_has_words_and_is_found_later(device: Device, watch: GripperWatch) -> None:
    device.acceptor.close()
    watch.start()
    until(lambda: "URCap" in watch.trouble)
    device.acceptor = Acceptor(ADDRESS, device.port, device.selector, lambda: False)
    device.start()
    until(lambda: watch.trouble == "" and watch.fingers is not None)
