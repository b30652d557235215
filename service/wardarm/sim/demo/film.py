"""The film and the four pictures of a run, drawn afterwards from the recorded world states.

Left what the D455 saw, with the path that was predicted at that moment; right the room. Nothing here is a new
simulation: every frame is a recorded state, stamped with CLOCK_MONOTONIC, and every path one that was published.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import av
import numpy as np
from matplotlib import font_manager
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from wardarm.shm.layouts import PlanStatus, Source
from wardarm.sim import renderer  # before anything that imports mujoco
from wardarm.sim.demo.witness import Seen, SeenTrajectory
from wardarm.sim.recording import read
from wardarm.sim.room_views import FILM_VIEW
from wardarm.sim.world import World, build

FPS = 12
WIDTH, HEIGHT, BAR = 960, 540, 84
INK, PALE, TEAL, AMBER = (24, 38, 48), (240, 244, 246), (0, 200, 190), (255, 176, 46)
_PHASES = {
    "IDLE": "waiting", "LOOKING": "looking", "MOVING": "fetching", "SETTING_DOWN": "setting down within reach",
    "RETURNING": "returning", "DONE": "done", "REFUSED": "refused", "FAILED": "not achieved", "HELD": "held",
}  # fmt: skip

CLOSED_BELOW = 0.75
"""Of the opening, 0 to 1: the fingers are about something."""
Picture = NDArray[np.uint8]


@dataclass(frozen=True)
class Moment:
    """One state to draw: what the world was, which path was predicted, which phase the step was in."""

    state: Any
    path: SeenTrajectory | None
    phase: str
    t_s: float


def font(size: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    """A face with Chinese characters if the machine has one, else matplotlib's own."""
    for family in ("Noto Sans CJK SC", "Noto Sans CJK JP", "WenQuanYi Zen Hei"):
        try:
            return ImageFont.truetype(font_manager.findfont(family, fallback_to_default=False), size)
        except (ValueError, OSError):
            continue
    return ImageFont.truetype(font_manager.findfont("DejaVu Sans"), size)


class Stage:
    """Draws moments: two views of one world."""

    def __init__(self, width: int = WIDTH, height: int = HEIGHT, msaa: int = 0) -> None:
        """`msaa`: samples a pixel; smooth edges double the time of a picture."""
        self.world = World(build(film=True, width=width, height=height, msaa=msaa))
        self.gl = renderer.Renderer(self.world.model)
        self.eye = renderer.View(self.gl, "d455", width, height, renderer.D455_GROUPS)
        self.room = renderer.View(
            self.gl,
            FILM_VIEW.name,
            width,
            height,
            renderer.DRESSED_GROUPS,
            shadows=True,
            ambient=renderer.DRESSED_AMBIENT,
        )
        self.width, self.height = width, height
        self._scene_id = -1

    def close(self) -> None:
        self.gl.close()

    def _show(self, moment: Moment) -> None:
        scene_id = int(moment.state["scene_id"])
        self.world.show_state(moment.state, repaint=scene_id != self._scene_id)
        self._scene_id = scene_id

    def pair(self, moment: Moment) -> tuple[Picture, Picture]:
        """(D455 with the predicted path, room), uint8 height x width x 3."""
        self._show(moment)
        eye = self.eye.draw(self.world.data).copy()
        room = self.room.draw(self.world.data).copy()
        return self._with_path(eye, moment), room

    def _pixels(self, xyz_mm: NDArray[Any]) -> NDArray[np.float64]:
        """D455 pixels of points in base (N,3), mm."""
        camera = self.world.model.camera("d455").id
        d = self.world.data
        local = (np.asarray(xyz_mm, float) * 1e-3 - d.cam_xpos[camera]) @ d.cam_xmat[camera].reshape(3, 3)
        focal = 0.5 * self.height / np.tan(np.radians(self.world.model.cam_fovy[camera]) / 2)
        depth = np.maximum(-local[:, 2], 0.05)
        return np.stack(
            [self.width / 2 + focal * local[:, 0] / depth, self.height / 2 - focal * local[:, 1] / depth], 1
        )

    def _with_path(self, picture: Picture, moment: Moment) -> Picture:
        if moment.path is None:
            return picture
        image = Image.fromarray(picture)
        draw = ImageDraw.Draw(image, "RGBA")
        color = TEAL if moment.path.source == Source.MODEL else AMBER
        for x, y in self._pixels(moment.path.raw[::3, :3]):
            draw.ellipse([x - 2, y - 2, x + 2, y + 2], fill=(255, 255, 255, 150))
        points = [(float(x), float(y)) for x, y in self._pixels(moment.path.points[:, :3])]
        for k, (a, b) in enumerate(pairwise(points)):
            draw.line([a, b], fill=(*color, 255 - 3 * k), width=4)
        x, y = points[-1]
        draw.ellipse([x - 6, y - 6, x + 6, y + 6], outline=(*color, 255), width=3)
        return np.asarray(image)


def moments(recording: Path, seen: Seen, start_ns: int, end_ns: int, fps: float = FPS) -> list[Moment]:
    """Recorded states at `fps` between two times, each with what was predicted and going on then."""
    states = read(recording)
    stamps = states["t_ns"]
    paths = [t for t in seen.trajectories if t.status is PlanStatus.OK]
    path_ns, step_ns = [t.seen_ns for t in paths], [t for t, _, _ in seen.steps]
    out = []
    for t_ns in range(start_ns, end_ns, int(1e9 / fps)):
        at = int(np.searchsorted(stamps, t_ns))
        if at >= len(states):
            break
        k, s = bisect_right(path_ns, t_ns) - 1, bisect_right(step_ns, t_ns) - 1
        phase = seen.steps[s][2] if s >= 0 else "IDLE"
        path = paths[k] if k >= 0 and phase not in ("IDLE", "DONE", "LOOKING") else None
        out.append(Moment(states[at], path, phase, (t_ns - start_ns) * 1e-9))
    return out


def _bar(instruction: str, moment: Moment, width: int) -> Picture:
    image = Image.new("RGB", (width, BAR), INK)
    draw = ImageDraw.Draw(image)
    draw.text((28, BAR // 2), f"“{instruction}”", font=font(30), fill=PALE, anchor="lm")
    draw.text(
        (width - 28, BAR // 2 - 16), _PHASES.get(moment.phase, moment.phase), font=font(26), fill=TEAL, anchor="rm"
    )
    draw.text(
        (width - 28, BAR // 2 + 20),
        f"{moment.t_s:4.1f} s · simulated bedside",
        font=font(18),
        fill=(150, 165, 175),
        anchor="rm",
    )
    draw.text(
        (width // 2 + 20, BAR // 2),
        "line: path predicted by the policy (amber: scripted)",
        font=font(18),
        fill=(150, 165, 175),
        anchor="lm",
    )
    return np.asarray(image)


def film(
    out: Path, shown: Sequence[Moment], instruction: str, progress: Callable[[float], None] = lambda _f: None
) -> None:
    """Write `out` (H.264, yuv420p)."""
    stage = Stage()
    with av.open(str(out), "w") as container:
        stream: Any = container.add_stream("libx264", rate=FPS)
        stream.width, stream.height, stream.pix_fmt = 2 * WIDTH, HEIGHT + BAR, "yuv420p"
        stream.options = {"preset": "veryfast", "crf": "23"}
        for k, moment in enumerate(shown):
            eye, room = stage.pair(moment)
            frame = np.concatenate([np.concatenate([eye, room], 1), _bar(instruction, moment, 2 * WIDTH)], 0)
            for packet in stream.encode(av.VideoFrame.from_ndarray(np.ascontiguousarray(frame), "rgb24")):
                container.mux(packet)
            progress((k + 1) / len(shown))
        for packet in stream.encode():
            container.mux(packet)
    stage.close()


def four_moments(out: Path, shown: Sequence[Moment], instruction: str, verdict: str) -> None:
    """Write a picture of four moments: the first look, the grasp, the carry, the end."""
    stage = Stage(msaa=4)
    picked = _pick(stage.world, shown)
    width, height, gap, head = stage.width, stage.height, 16, 92
    sheet = Image.new("RGB", (2 * width + 3 * gap, 2 * height + 3 * gap + head), (255, 255, 255))
    draw = ImageDraw.Draw(sheet)
    draw.text((gap + 8, head // 2 + 6), f"“{instruction}”", font=font(38), fill=INK, anchor="lm")
    draw.text(
        (sheet.width - gap - 8, head // 2 + 6),
        f"{verdict} · simulated bedside",
        font=font(26),
        fill=(70, 90, 100),
        anchor="rm",
    )
    for k, (title, moment) in enumerate(picked):
        eye, room = stage.pair(moment)
        picture = Image.fromarray(eye if k == 0 else room)
        inset = Image.fromarray(room if k == 0 else eye).resize((width // 3, height // 3), Image.Resampling.LANCZOS)
        picture.paste(inset, (width - inset.width - 12, 12))
        ImageDraw.Draw(picture).rectangle(
            [width - inset.width - 13, 11, width - 12, 12 + inset.height], outline=(255, 255, 255), width=2
        )
        ImageDraw.Draw(picture).text(
            (18, height - 18),
            f"{title}  {moment.t_s:.1f} s",
            font=font(28),
            fill=PALE,
            anchor="ls",
            stroke_width=3,
            stroke_fill=INK,
        )
        sheet.paste(picture, (gap + k % 2 * (width + gap), head + gap + k // 2 * (height + gap)))
    sheet.save(out)
    stage.close()


def _pick(world: World, shown: Sequence[Moment]) -> list[tuple[str, Moment]]:
    """Four moments and what they show. Fingers that never closed have grasped nothing, and the words say so."""
    opening = []
    for moment in shown:
        world.data.qpos[:] = moment.state["qpos"]
        opening.append(world.opening())
    closed = [k for k, o in enumerate(opening) if o < CLOSED_BELOW]
    first_path = next((k for k, m in enumerate(shown) if m.path is not None), None)
    first = ("sees", shown[0]) if first_path is None else ("sees and predicts", shown[first_path])
    if not closed:
        thirds = [shown[k * (len(shown) - 1) // 3] for k in (1, 2, 3)]
        return [first, *[("nothing is grasped", m) for m in thirds]]
    last = closed[-1]
    grasp = closed[0] + min(8, len(closed) - 1)
    end = min(len(shown) - 1, last + 3 * FPS)
    return [
        first,
        ("grasps", shown[grasp]),
        ("carries", shown[(grasp + last) // 2]),
        ("still holds it" if opening[end] < CLOSED_BELOW else "has let go", shown[end]),
    ]
