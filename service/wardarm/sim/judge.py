"""The truth about a task, from the simulated world: what was lifted, where it stands, what was touched.

Only the world knows; nothing here is fed back to the arm. `wardarm demo`, `eval` and the tests ask for it.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

import mujoco
import numpy as np

from wardarm.sim.scenes import on_leaf
from wardarm.sim.world import World

LIFTED_M = 0.05
STANDING_TILT_RAD = np.radians(10)
STANDING_Z_M = 0.008
AT_REST_M_S = 0.02
FINGERS_OPEN = 0.5
LEAF_MARGIN_M = 0.03
"""A piece whose middle is this far over the leaf's edge towards the table still stands within reach."""


@dataclass(frozen=True)
class PieceVerdict:
    """One piece of tableware. `rise_m`: highest it was above where it stood; `moved_m`: from there to here, level."""

    name: str
    kind: str
    color: str
    pos_m: tuple[float, float, float]
    rise_m: float
    moved_m: float
    lifted: bool
    held: bool
    standing: bool
    on_leaf: bool
    fetched: bool


@dataclass
class Touches:
    """How often the arm (or what it holds) came to touch something, and the hardest, N."""

    table: int = 0
    bed: int = 0
    patient: int = 0
    peak_n: dict[str, float] = field(default_factory=dict)


_NONE, _ARM, _FINGER, _PIECE, _TABLE, _BED, _PATIENT = range(7)
_OF_BODY = {"patient": _PATIENT}
_OF_GEOM = {"table": _TABLE, "leaf": _TABLE, "pedestal": _TABLE, "bed": _BED}
_TOUCHED = {_TABLE: "table", _BED: "bed", _PATIENT: "patient"}


class Judge:
    """Watches a world. Call `observe` after every step and `reset` when a scene is loaded."""

    def __init__(self, world: World) -> None:
        self.world = world
        m = world.model
        self._bodies = [world.body_id(name) for name in world.pieces]
        self._class = np.zeros(m.ngeom, np.int8)
        self._piece = np.full(m.ngeom, -1, np.int16)
        base, fingers = m.body("base").id, m.body("g_base").id
        for i in range(m.ngeom):
            body = int(m.geom_bodyid[i])
            chain = _ancestors(m, body)
            name = m.body(body).name
            if fingers in chain:
                self._class[i] = _FINGER
            elif base in chain:
                self._class[i] = _ARM
            elif name in world.pieces:
                self._class[i], self._piece[i] = _PIECE, world.pieces.index(name)
            else:
                self._class[i] = _OF_BODY.get(name, _OF_GEOM.get(m.geom(i).name, _NONE))
        self.reset()

    def reset(self) -> None:
        self._start = {n: self.world.piece_pos(n) for n in self.world.pieces}
        self._rise = dict.fromkeys(self.world.pieces, 0.0)
        self._held: set[str] = set()
        self._touching: set[str] = set()
        self._contacts: bytes | None = None
        self.touches = Touches()

    def moved(self, name: str) -> None:
        """A piece was put somewhere by hand: it starts from there."""
        self._start[name] = self.world.piece_pos(name)
        self._rise[name] = 0.0

    def observe(self) -> None:
        """Take in the present contacts and heights."""
        d = self.world.data
        for name, z_m in zip(self.world.pieces, d.xpos[self._bodies, 2].tolist(), strict=True):
            rise = z_m - self._start[name][2]
            if rise > self._rise[name]:
                self._rise[name] = float(rise)
        geoms = d.contact.geom
        same, self._contacts = self._contacts, geoms.tobytes()
        if self._contacts == same and not self._touching:
            return  # what touches what is as it was; only of a touch the force matters again
        classes: list[list[int]] = self._class[geoms].tolist()  # a dozen contacts: plain Python is faster than arrays
        gripped: set[str] = set()
        on_table: set[str] = set()
        now: set[str] = set()
        for i, (a, b) in enumerate(classes):
            low, high = (a, b) if a < b else (b, a)
            if high < _PIECE or low == _NONE:
                continue
            if high == _PIECE and low == _FINGER:
                gripped.update(self.world.pieces[k] for k in self._piece[geoms[i]].tolist() if k >= 0)
            elif high >= _TABLE and low == _PIECE:
                on_table.update(self.world.pieces[k] for k in self._piece[geoms[i]].tolist() if k >= 0)
            if high >= (_BED if low == _PIECE else _TABLE) and low <= _PIECE:
                what = _TOUCHED[high]
                now.add(what)
                force = np.zeros(6)
                mujoco.mj_contactForce(self.world.model, d, i, force)
                self.touches.peak_n[what] = max(self.touches.peak_n.get(what, 0.0), float(force[0]))
        self._held = gripped - on_table
        for what in now - self._touching:
            setattr(self.touches, what, getattr(self.touches, what) + 1)
        self._touching = now

    def piece(self, name: str) -> PieceVerdict:
        w = self.world
        pos, start = w.piece_pos(name), self._start[name]
        lifted, held = self._rise[name] > LIFTED_M, name in self._held
        standing = (
            abs(float(pos[2])) < STANDING_Z_M
            and (name.startswith("spoon") or w.piece_tilt_rad(name) < STANDING_TILT_RAD)
            and w.piece_speed_m_s(name) < AT_REST_M_S
        )
        leaf = on_leaf(float(pos[0]), float(pos[1]), LEAF_MARGIN_M)
        return PieceVerdict(
            name=name,
            kind=name[:-1],
            color=w.piece_color_name(name),
            pos_m=(float(pos[0]), float(pos[1]), float(pos[2])),
            rise_m=self._rise[name],
            moved_m=float(np.hypot(*(pos - start)[:2])),
            lifted=lifted,
            held=held,
            standing=standing,
            on_leaf=leaf,
            fetched=lifted and standing and leaf and not held and w.opening() > FINGERS_OPEN,
        )

    def report(self) -> dict[str, Any]:
        """All pieces of the scene, the touches and the fingers, ready for JSON."""
        w = self.world
        tcp, _ = w.tcp()
        return {
            "pieces": [asdict(self.piece(n)) for n in w.pieces if w.present(n)],
            "touches": asdict(self.touches),
            "opening": w.opening(),
            "tcp_m": [float(v) for v in tcp],
            "fetched": [n for n in w.pieces if w.present(n) and self.piece(n).fetched],
        }


def _ancestors(model: mujoco.MjModel, body: int) -> set[int]:
    chain = {body}
    while body:
        body = int(model.body_parentid[body])
        chain.add(body)
    return chain - {0}
