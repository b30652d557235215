"""Process `views`: draws what the D455 and the three room cameras see.

In: the world state that `sim` publishes. Out: `wardarm_sim_d455` (1280x720 RGB8, then Z16 depth in mm) at
`sim.d455_fps`, `wardarm_sim_room_<name>` (640x360 GRAY8) at `sim.room_fps`, stamped with the CLOCK_MONOTONIC time at
which the world was as drawn. It slows down rather than queue. When it dies the pictures stop: CAMERA_LOST and
ROOM_CAMERA_LOST.

    python -m wardarm.sim.views --config desk
"""

from __future__ import annotations

import argparse
import logging
import signal
import time
from types import FrameType
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from wardarm import config as configuration
from wardarm.sim import renderer
from wardarm.sim.pictures import PictureWriter
from wardarm.sim.room_views import ROOM_HEIGHT, ROOM_VIEWS, ROOM_WIDTH
from wardarm.sim.world import World, build
from wardarm.sim.world_state import WorldReader, wait_for

log = logging.getLogger("wardarm.views")
D455_WIDTH, D455_HEIGHT = 1280, 720
_COLOR_NOISE, _ROOM_NOISE = 1.5, 2.0
"""Standard deviation of the sensor noise, grey levels of 255."""
_DEPTH_STEP = 2
"""Depth is drawn at full size and handed on at every second pixel: a real D455's depth is no finer."""
_DEPTH_MAX_M = 20.0
"""Further than this a D455 gives 0: nothing known."""


class Noise:
    """Sensor noise that differs from picture to picture, cheaply: a window sliding over a larger field."""

    def __init__(self, shape: tuple[int, ...], sigma: float, seed: int) -> None:
        self._rng = np.random.default_rng(seed)
        self._size = int(np.prod(shape))
        field = np.clip(self._rng.normal(0, sigma, self._size + 4096), -20, 20)
        self._up = np.maximum(np.round(field), 0).astype(np.uint8)
        self._down = np.maximum(np.round(-field), 0).astype(np.uint8)

    def add(self, picture: NDArray[np.uint8], out: NDArray[np.uint8]) -> None:
        """`out` = picture + noise, saturated. Same shape, contiguous."""
        at = int(self._rng.integers(0, 4096))
        cv2.add(picture, self._up[at : at + self._size].reshape(picture.shape), dst=out)
        cv2.subtract(out, self._down[at : at + self._size].reshape(picture.shape), dst=out)


class Views:
    """Everything that draws. `draw_d455` and `draw_rooms` publish one picture each."""

    def __init__(self, prefix: str) -> None:
        self.world = World(build(width=D455_WIDTH, height=D455_HEIGHT))
        self._renderer = renderer.Renderer(self.world.model)
        self._d455 = renderer.View(self._renderer, "d455", D455_WIDTH, D455_HEIGHT, renderer.D455_GROUPS)
        self._rooms = [
            renderer.View(
                self._renderer,
                v.name,
                ROOM_WIDTH,
                ROOM_HEIGHT,
                renderer.DRESSED_GROUPS,
                ambient=renderer.DRESSED_AMBIENT,
            )
            for v in ROOM_VIEWS
        ]
        pixels = D455_WIDTH * D455_HEIGHT
        self.d455_block = PictureWriter(prefix, "d455", D455_WIDTH, D455_HEIGHT, pixels * 5)
        self.room_blocks = [
            PictureWriter(prefix, f"room_{v.name}", ROOM_WIDTH, ROOM_HEIGHT, ROOM_WIDTH * ROOM_HEIGHT)
            for v in ROOM_VIEWS
        ]
        self._color_noise = Noise((D455_HEIGHT, D455_WIDTH, 3), _COLOR_NOISE, 1)
        self._room_noise = Noise((ROOM_HEIGHT, ROOM_WIDTH), _ROOM_NOISE, 2)
        self._scene_id = -1

    def show(self, state: Any) -> None:
        """Bring the model to a published state (numpy.void of world_state.STATE)."""
        self.world.show_state(state, repaint=int(state["scene_id"]) != self._scene_id)
        self._scene_id = int(state["scene_id"])

    def draw_d455(self, stamp_ns: int) -> None:
        pixels = D455_WIDTH * D455_HEIGHT
        rgb = self._d455.draw(self.world.data, depth=True)
        slot = self.d455_block.slot()
        color = slot[: pixels * 3].reshape(D455_HEIGHT, D455_WIDTH, 3)
        self._color_noise.add(np.ascontiguousarray(rgb), color)
        depth_m = self._d455.depth_m(_DEPTH_STEP)
        depth_mm = np.where(depth_m < _DEPTH_MAX_M, depth_m * 1000 + 0.5, 0).astype(np.uint16)
        depth = slot[pixels * 3 :].view(np.uint16).reshape(D455_HEIGHT, D455_WIDTH)
        cv2.resize(depth_mm, (D455_WIDTH, D455_HEIGHT), dst=depth, interpolation=cv2.INTER_NEAREST)
        self.d455_block.publish(stamp_ns)

    def draw_rooms(self, stamp_ns: int, blackout: int = 0) -> None:
        """All three, unless their bit (1..3) of `blackout` is set."""
        for i in range(len(self._rooms)):
            self.draw_room(i, stamp_ns, blackout)

    def draw_room(self, index: int, stamp_ns: int, blackout: int = 0) -> None:
        """One of ROOM_VIEWS."""
        if blackout >> (index + 1) & 1:
            return
        view, block = self._rooms[index], self.room_blocks[index]
        gray = cv2.cvtColor(np.ascontiguousarray(view.draw(self.world.data)), cv2.COLOR_RGB2GRAY)
        self._room_noise.add(gray, block.slot().reshape(ROOM_HEIGHT, ROOM_WIDTH))
        block.publish(stamp_ns)

    def close(self) -> None:
        for block in (self.d455_block, *self.room_blocks):
            block.close()


class _Due:
    """A rate that does not catch up: after a late picture the next one is due a period later."""

    def __init__(self, fps: float, phase: float = 0.0) -> None:
        """`phase`: share of a period by which it is late, so that several take turns."""
        self.period_s = 1 / fps
        self.next_s = time.monotonic() + phase * self.period_s

    def take(self, now_s: float) -> bool:
        if now_s < self.next_s:
            return False
        self.next_s = max(self.next_s + self.period_s, now_s + self.period_s / 2)
        return True


def run(config: configuration.Config) -> None:
    """Draw until SIGTERM or SIGINT, across restarts of `sim`."""
    stop = False

    def end(_signal: int, _frame: FrameType | None) -> None:
        nonlocal stop
        stop = True

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, end)
    views = Views(config.shm.prefix)
    d455 = _Due(config.sim.d455_fps)
    # each room picture of its own moment: one that waits for two others to be drawn would be old when it comes
    rooms = [_Due(config.sim.room_fps, i / len(ROOM_VIEWS)) for i in range(len(ROOM_VIEWS))]
    reader: WorldReader | None = None
    log.info("drawing: D455 %g frames/s, rooms %g frames/s", config.sim.d455_fps, config.sim.room_fps)
    try:
        while not stop:
            if reader is None or reader.replaced():
                try:
                    reader = wait_for(config.shm.prefix, 0.5)
                except TimeoutError:
                    continue
            now = time.monotonic()
            state = reader.latest()
            # a stopped world gives no new pictures, as a dead camera would not
            if state is not None and now - int(state["t_ns"]) * 1e-9 < 0.5:
                for index, due in ((-1, d455), *enumerate(rooms)):
                    if not due.take(time.monotonic()):
                        continue
                    fresh = reader.latest()
                    if fresh is None:
                        continue
                    views.show(fresh)
                    if index >= 0:
                        views.draw_room(index, int(fresh["t_ns"]), int(fresh["blackout"]))
                    elif not int(fresh["blackout"]) & 1:
                        views.draw_d455(int(fresh["t_ns"]))
            time.sleep(max(0.002, min(d455.next_s, *(r.next_s for r in rooms), now + 0.05) - time.monotonic()))
    finally:
        views.close()


def main() -> None:
    parser = argparse.ArgumentParser(prog="wardarm.sim.views", description="draw the simulated cameras' pictures")
    parser.add_argument("--config", required=True)
    args = parser.parse_args()
    config = configuration.load(args.config)
    logging.basicConfig(level=config.log.level.upper())
    run(config)


if __name__ == "__main__":
    main()
