"""A camera that goes on sending the same picture, and clocks that step."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import eye_camera
import numpy as np
import pytest
import wardarm
from eye_parts import configuration, remove_blocks
from test_eye_camera import SMALL, board_for, wait
from wardarm.config import Config
from wardarm.eye.realsense import RealSense

FOLDERS = ("arm", "gate", "guard", "eye", "shm")


@pytest.fixture
def config() -> Iterator[Config]:
    made = configuration(camera=SMALL)
    yield made
    remove_blocks(made)


def test_the_same_picture_with_new_stamps_is_none_and_says_so_and_the_camera_is_opened_again(config: Config) -> None:
    camera = RealSense(config, board_for(config))
    camera.start()
    try:
        wait(lambda: camera.pairs >= 3)
        opened = len(eye_camera.MADE)
        sent = eye_camera.MADE[-1]
        sent.picture = np.random.default_rng(0).integers(0, 255, (180, 320, 3), np.uint8)
        wait(lambda: camera.board.silent_s() > config.camera.lost_s)
        number = sent.number
        wait(lambda: sent.number > number or len(eye_camera.MADE) > opened)  # it does go on sending
        assert "the picture is frozen" in camera.error
        wait(lambda: len(eye_camera.MADE) > opened)
        wait(lambda: camera.board.silent_s() < 0.2 and camera.error == "")
    finally:
        camera.stop()


def test_one_repeated_picture_is_no_loss(config: Config) -> None:
    camera = RealSense(config, board_for(config))
    camera.start()
    try:
        wait(lambda: camera.pairs >= 3)
        for value in range(40, 60):
            pairs = camera.pairs
            eye_camera.MADE[-1].picture = np.full((180, 320, 3), value, np.uint8)
            wait(lambda p=pairs: camera.pairs > p)  # type: ignore[misc]
            assert "frozen" not in camera.error
    finally:
        camera.stop()


def test_nothing_that_decides_about_motion_reads_the_wall_clock() -> None:
    """A step of the wall clock (NTP, a person) can change nothing: these folders know CLOCK_MONOTONIC alone."""
    wall = {("time", "time"), ("time", "time_ns"), ("datetime", "now"), ("datetime", "utcnow"), ("datetime", "today")}
    root = Path(wardarm.__file__).parent
    files = [f for folder in FOLDERS for f in (root / folder).glob("*.py")]
    assert len(files) > 40
    found = [
        f"{f.relative_to(root)}:{node.lineno}"
        for f in files
        for node in ast.walk(ast.parse(f.read_text()))
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and (node.value.id, node.attr) in wall
    ]
    assert not found
