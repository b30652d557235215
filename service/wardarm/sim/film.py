"""Draw a recording as a film, afterwards: the simulation's own truth with shadows and a dressed room.

for picture in film_frames("out/demo/world.states", fps=20): ...
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from wardarm.sim import recording, renderer
from wardarm.sim.room_views import FILM_VIEW
from wardarm.sim.world import World, build


def film_frames(
    path: str | Path,
    fps: float = 20.0,
    width: int = 1280,
    height: int = 720,
    msaa: int = 0,
    camera: str = FILM_VIEW.name,
    ends_s: Sequence[float] | None = None,
) -> Iterator[NDArray[np.uint8]]:
    """RGB pictures, uint8 height x width x 3, `fps` a second of simulated time, each a copy.

    `ends_s` limits it to simulated times from, to. `camera` is "film" or a room view. A picture takes about 0.15 s
    on a CPU, with `msaa` (samples) 2 about twice that. Raises ValueError if the file is no recording.
    """
    states = recording.read(path)
    world = World(build(film=True, width=width, height=height, msaa=msaa))
    drawn = renderer.Renderer(world.model)
    view = renderer.View(
        drawn, camera, width, height, renderer.DRESSED_GROUPS, shadows=True, light=renderer.DRESSED_LIGHT
    )
    times = states["time_s"]
    first, last = (times[0], times[-1]) if ends_s is None else ends_s
    scene_id = -1
    try:
        for at_s in np.arange(first, last + 0.5 / fps, 1 / fps):
            state = states[min(int(np.searchsorted(times, at_s)), len(states) - 1)]
            world.show_state(state, repaint=int(state["scene_id"]) != scene_id)
            scene_id = int(state["scene_id"])
            yield view.draw(world.data).copy()
    finally:
        drawn.close()
