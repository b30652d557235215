"""A zone that cannot be meant is refused when the configuration is read; the text names what and where."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from wardarm import config as configuration
from wardarm.config import ConfigError, Guard
from wardarm.guard import zones
from wardarm.guard.main import check

GUARD = Guard()
FILE = Path("/etc/wardarm/wardarm.toml")


def camera(**changes: object) -> dict[str, object]:
    return {
        "name": "bed",
        "command": "gst-launch-1.0 -q fakesrc",
        "keep_out": [(10, 10), (600, 10), (600, 300)],
    } | changes


def refused(cameras: list[dict[str, object]]) -> str:
    config = configuration.parse({"schema": 1, "guard": {"cameras": cameras}}, "test")
    with pytest.raises(ConfigError) as e:
        check(config, FILE)
    return str(e.value)


def test_a_good_one_passes() -> None:
    check(configuration.parse({"schema": 1, "guard": {"cameras": [camera()]}}, "test"), FILE)


def test_crossing_edges_are_named() -> None:
    text = refused([camera(keep_out=[(0, 0), (400, 300), (400, 0), (0, 300)])])
    assert "guard.cameras[bed].keep_out: the edge from point 1 meets the edge from point 3" in text


def test_a_corner_that_touches_another_edge_is_a_crossing() -> None:
    assert zones.crossing([(0, 0), (100, 0), (100, 100), (50, 0), (0, 100)]) is not None
    assert zones.crossing([(0, 0), (100, 0), (100, 100), (50, 40), (0, 100)]) is None


def test_a_point_outside_the_frame_is_named() -> None:
    assert "point 2 = (700, 10) lies outside the 640 x 360 frame" in refused(
        [camera(keep_out=[(10, 10), (700, 10), (600, 300)])]
    )


def test_a_repeated_point_is_named() -> None:
    assert "points 1 and 2 are the same" in refused([camera(keep_out=[(10, 10), (10, 10), (600, 10), (600, 300)])])


def test_a_sliver_is_refused() -> None:
    assert "too small" in refused([camera(keep_out=[(10, 10), (600, 10), (600, 13)])])


def test_two_points_are_refused_by_the_configuration() -> None:
    with pytest.raises(ConfigError, match=r"guard.cameras.0.keep_out"):
        configuration.parse({"schema": 1, "guard": {"cameras": [camera(keep_out=[(1, 1), (9, 9)])]}}, "test")


def test_no_camera_is_refused() -> None:
    assert "guard.enabled = true needs at least one" in refused([])


def test_two_cameras_of_one_name_are_refused() -> None:
    assert "2 cameras are called 'bed'" in refused([camera(), camera()])


@pytest.mark.parametrize(
    ("command", "why"),
    [("", "is empty"), ("gst 'oops", "No closing quotation"), ("gst {wdith}", "{wdith} is not one of {python}")],
)
def test_a_command_that_cannot_run_is_refused(command: str, why: str) -> None:
    text = refused([camera(command=command)])
    assert "guard.cameras[bed].command" in text
    assert why in text


def test_the_mask_is_the_polygon_at_work_size() -> None:
    mask = zones.mask([(0, 0), (320, 0), (320, 360), (0, 360)], GUARD, (320, 180))
    assert mask[:, :160].all()
    assert not mask[:, 162:].any()
    assert np.count_nonzero(mask) == pytest.approx(zones.area_px([(0, 0), (160, 0), (160, 180), (0, 180)]), rel=0.02)
