"""Where the bedside camera was when it was calibrated, and the look, before each task, whether it still is.

The folder of `wardarm calibrate camera` holds `place.json` (pose in the base frame, lenses, the contract's hash) and
`reference.png`: the table and the empty-handed arm at home, drawn as the trained camera would see them.
"""

from __future__ import annotations

import json
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from wardarm.eye.frames import FrameBoard
from wardarm.policy import contract
from wardarm.policy.view import Moved, Optics, Pose, Rectifier, ReferenceView, table_plane

PLACE, REFERENCE = "place.json", "reference.png"
AGAIN_S = 2.0  # while it is not where it was: looked at again this often
FRESH_S = 1.0  # an older picture says nothing about now


class PlaceError(ValueError):
    """What `camera.place` names is not a calibration for this model; the text says what to do."""


@dataclass(frozen=True)
class CameraPlace:
    """`reference`: UINT8 RGB 720 x 1280 x 3, rectified."""

    pose: Pose
    optics: Optics
    reference: NDArray[np.uint8]

    @property
    def rectifier(self) -> Rectifier:
        return Rectifier(self.pose, self.optics.k)

    def save(self, folder: Path) -> None:
        """Both files are whole or the old ones: each is written beside and moved."""
        folder.mkdir(parents=True, exist_ok=True)
        data = {
            "contract": contract.contract_sha256(),
            "position_m": self.pose.position_m.tolist(),
            "rotation": self.pose.rotation.tolist(),
            **{name: np.asarray(value).tolist() for name, value in vars(self.optics).items()},
        }
        scratch = folder / f".{REFERENCE}"
        encoded, png = cv2.imencode(".png", cv2.cvtColor(self.reference, cv2.COLOR_RGB2BGR))
        assert encoded
        scratch.write_bytes(png.tobytes())
        scratch.replace(folder / REFERENCE)
        scratch = folder / f".{PLACE}"
        scratch.write_text(json.dumps(data, indent=1) + "\n")
        scratch.replace(folder / PLACE)

    @staticmethod
    def load(folder: Path) -> CameraPlace:
        """Raises PlaceError."""
        again = "run `wardarm calibrate camera` again"
        try:
            data: dict[str, Any] = json.loads((folder / PLACE).read_text())
            pose = Pose(_array(data, "position_m", (3,)), _array(data, "rotation", (3, 3)))
            optics = Optics(
                _array(data, "k", (3, 3)), _array(data, "depth_k", (3, 3)), _array(data, "depth_rotation", (3, 3)),
                _array(data, "depth_position_m", (3,)), float(_array(data, "depth_unit_m", ())),
            )  # fmt: skip
        except (OSError, ValueError, TypeError, KeyError) as e:
            raise PlaceError(f"camera.place = '{folder}': {PLACE}: {e}; {again}") from e
        if data.get("contract") != contract.contract_sha256():
            raise PlaceError(f"camera.place = '{folder}': made for another trained view than this model's; {again}")
        picture = cv2.imread(str(folder / REFERENCE), cv2.IMREAD_COLOR)
        if picture is None or picture.shape != (contract.IMAGE_HEIGHT, contract.IMAGE_WIDTH, 3):
            raise PlaceError(
                f"camera.place = '{folder}': {REFERENCE} is not a picture of {contract.IMAGE_WIDTH}x"
                f"{contract.IMAGE_HEIGHT}; {again}"
            )
        return CameraPlace(pose, optics, np.asarray(cv2.cvtColor(picture, cv2.COLOR_BGR2RGB), np.uint8))


def _array(data: dict[str, Any], name: str, shape: tuple[int, ...]) -> NDArray[np.float64]:
    value = np.array(data[name], float)
    if value.shape != shape or not np.isfinite(value).all():
        raise ValueError(f"{name} has shape {value.shape}, {shape} finite numbers are needed")
    return value


class PlaceWatch:
    """Looks on a thread of its own, a tenth of a second each time; `trouble` is what it found, empty while all is well."""

    def __init__(self, place: CameraPlace, board: FrameBoard) -> None:
        self._place, self._board = place, board
        self._reference = ReferenceView(place.reference)
        self._thread: threading.Thread | None = None
        self._asked: object = None
        self._looked_s = -1e9
        self.trouble = ""
        self.looks = 0

    def looked(self, what: object, at_home: bool) -> bool:
        """Whether a look that began after `what` was first named here is over. Starts it.

        `at_home`: the arm stands where the reference view has it; elsewhere the table's plane alone is looked at.
        """
        if what != self._asked:
            if self._busy():
                return False
            self._asked = what
            self._start(at_home)
        return not self._busy()

    def again(self, at_home: bool) -> None:
        """Call every beat while the arm is at rest: what was in trouble is looked at again."""
        if self.trouble and not self._busy() and time.monotonic() - self._looked_s > AGAIN_S:
            self._start(at_home)

    def _busy(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def _start(self, at_home: bool) -> None:
        self._thread = threading.Thread(target=self._look, args=(at_home,), name="place", daemon=True)
        self._thread.start()

    def _look(self, at_home: bool) -> None:
        frame = self._board.pin_latest()
        if frame is None:
            return  # no picture at all is CAMERA_LOST's to say
        try:
            if (time.monotonic_ns() - frame.arrival_ns) * 1e-9 > FRESH_S:
                return
            colour = self._board.region.colour(frame.slot).copy()
            depth = self._board.region.depth(frame.slot).copy()
        finally:
            self._board.unpin(frame)
        self.trouble = self._judge(colour, depth, at_home)
        self._looked_s = time.monotonic()
        self.looks += 1

    def _judge(self, colour: NDArray[np.uint8], depth: NDArray[np.uint16], at_home: bool) -> str:
        found: list[Moved] = []
        optics = self._place.optics
        if depth.any():  # a recording may have none
            metres = depth.astype(np.float32) * np.float32(optics.depth_unit_m)
            try:
                found.append(table_plane(metres, optics.depth_pose(self._place.pose), optics.depth_k))
            except ValueError as e:
                return str(e)
        if at_home:
            found.append(self._reference.compare(colour))
        return "; ".join(m.seen for m in found if m.moved)
