"""The pictures of `wardarm guard preview` and the film of `wardarm guard test`: what a person has to be able to read."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from wardarm.config import Guard, RoomCamera, Zone
from wardarm.guard import picture
from wardarm.guard.picture import HEAD_PX, LEFT_PX, Sheet

GUARD = Guard(width=640, height=360)
PROGRAM = Path(__file__).with_name("guard_camera_program.py")
FLOOR = [(130.0, 190.0), (260.0, 140.0), (410.0, 220.0), (480.0, 225.0), (340.0, 359.0), (290.0, 359.0)]
ALL_KINDS = [
    Zone(kind="warn", name="aisle", polygon=[(20, 60), (300, 60), (340, 350), (10, 350)]),
    Zone(kind="authorised", name="bed_3", polygon=[(430, 120), (630, 120), (630, 230), (430, 230)]),
    Zone(kind="mask", name="window-east", polygon=[(5, 5), (120, 5), (120, 70), (5, 70)]),
    Zone(kind="keep_out", name="night", polygon=[(200, 200), (420, 200), (420, 340), (200, 340)], start="22:00", end="06:00"),
]  # fmt: skip
MANY = [
    Zone(kind="warn", name=f"zone-with-a-long-name{i}", polygon=[(9 * i, 9 * i), (500, 9 * i), (500, 350), (9 * i, 350)])
    for i in range(16)
]  # fmt: skip


def camera(zones: list[Zone]) -> RoomCamera:
    return RoomCamera(name="door", command="x", keep_out=FLOOR, zones=zones)


def apart(a: picture.Box, b: picture.Box) -> bool:
    return a[0] + a[2] <= b[0] or b[0] + b[2] <= a[0] or a[1] + a[3] <= b[1] or b[1] + b[3] <= a[1]


@pytest.mark.parametrize("zones", [[], ALL_KINDS, MANY], ids=["one", "all kinds", "sixteen alike"])
@pytest.mark.parametrize("size", [(640, 360), (1280, 720), (320, 180)])
def test_every_zone_has_its_name_and_no_name_hides_another(zones: list[Zone], size: tuple[int, int]) -> None:
    scale = size[0] / 640
    moved = [z.model_copy(update={"polygon": [(x * scale, y * scale) for x, y in z.polygon]}) for z in zones]
    shown = camera(moved).model_copy(update={"keep_out": [(x * scale, y * scale) for x, y in FLOOR]})
    sheet = Sheet(GUARD.model_copy(update={"width": size[0], "height": size[1]}), shown)
    assert len(sheet.labels) == len(zones) + 1
    assert all(zone.name in label.text for zone, label in zip(zones, sheet.labels[1:], strict=True))
    for label in sheet.labels:
        x, y, w, h = label.box
        assert x >= 0
        assert y >= 0
        assert x + w <= sheet.inner[0], label
        assert y + h <= sheet.inner[1], label
    for a, b in combinations(sheet.labels, 2):
        assert apart(a.box, b.box), (a, b)


def test_no_name_is_put_on_our_own_arm() -> None:
    arm = np.zeros((360, 640), np.uint8)
    arm[150:330, 250:380] = 255  # where the zone's name stood
    box = Sheet(GUARD, camera([]), arm).labels[0].box
    assert apart(box, (500, 300, 260, 360))


def test_a_name_says_what_the_zone_means_in_both_languages_and_when_it_holds() -> None:
    texts = [label.text for label in Sheet(GUARD, camera(ALL_KINDS)).labels]
    assert "keep out" in texts[4]
    assert texts[4].endswith("night  22:00–06:00")
    if picture._face()[1]:
        assert [t[:3] for t in texts] == ["禁入区", "缓行区", "许可区", "遮挡区", "禁入区"]


def test_nothing_of_the_picture_is_hidden_by_what_is_written_round_it() -> None:
    grey = np.full((360, 640), 137, np.uint8)
    sheet = Sheet(GUARD, RoomCamera(name="door", command="x", keep_out=[]))
    drawn = sheet.draw(grey, np.zeros((180, 320), np.uint8), (), None, "door", picture.GREEN)
    assert drawn.shape == (sheet.size[1], sheet.size[0], 3)
    assert drawn.shape[0] % 2 == drawn.shape[1] % 2 == 0, "H.264 takes even sizes only"
    inside = drawn[HEAD_PX : HEAD_PX + 720, LEFT_PX : LEFT_PX + 1280]
    assert (inside == 137).all()


def test_what_is_detected_and_our_own_arm_are_drawn_where_they_are() -> None:
    found, arm = np.zeros((180, 320), np.uint8), np.zeros((360, 640), np.uint8)
    found[100:120, 200:220] = 255
    arm[60:120, 60:120] = 255
    drawn = Sheet(GUARD, RoomCamera(name="door", command="x", keep_out=[])).draw(
        np.full((360, 640), 100, np.uint8), found, [(400, 200, 40, 40)], arm, "door", picture.RED
    )
    inside = drawn[HEAD_PX:, LEFT_PX:]
    assert inside[440, 840, 0] > inside[440, 840, 1] + 40, "red where something is detected"
    assert tuple(inside[120, 180]) == picture.BLUE, "the outline of our own arm"
    assert tuple(inside[180, 180]) == (100, 100, 100), "our own arm itself is not painted over"


def test_a_headline_that_is_too_long_ends_with_an_ellipsis() -> None:
    assert picture.shortened("bed: clear", 400) == "bed: clear"
    short = picture.shortened("bed: " + "its program ended " * 20, 400)
    assert short.endswith("…")
    assert 10 < len(short) < 60


def preview(folder: Path, zone: list[list[int]]) -> subprocess.CompletedProcess[str]:
    command = f"{{python}} {PROGRAM} --width {{width}} --height {{height}} --fps {{fps}} --control {folder / 'word'}"
    guard = {
        "width": 320, "height": 180, "fps": 15, "warmup_frames": 5,
        "cameras": [{"name": "new", "command": command, "keep_out": zone}],
    }  # fmt: skip
    file = folder / "site.json"
    file.write_text(json.dumps({"schema": 1, "shm": {"prefix": f"tp{os.getpid()}_"}, "guard": guard}))
    argv = [sys.executable, "-m", "wardarm.cli", "guard", "preview", "--config", str(file), "--out", str(folder)]
    return subprocess.run(argv, capture_output=True, text=True, timeout=120)


def test_a_new_camera_can_be_looked_at_before_it_has_a_zone(tmp_path: Path) -> None:
    done = preview(tmp_path, [])
    assert done.returncode == 0, done.stderr
    assert "no keep_out zone yet: draw one" in done.stdout
    with Image.open(tmp_path / "new.png") as image:
        assert image.size == (320 * 4 + picture.LEFT_PX + picture.RIGHT_PX, 180 * 4 + HEAD_PX + picture.FOOT_PX)


def test_a_zone_that_cannot_work_is_refused_by_the_preview_too(tmp_path: Path) -> None:
    done = preview(tmp_path, [[0, 0], [300, 170], [300, 0], [0, 170]])
    assert done.returncode == 2
    assert "guard.cameras[new].keep_out: the edge from point" in done.stderr
    assert not (tmp_path / "new.png").exists()
