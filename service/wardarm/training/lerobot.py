"""Recordings in LeRobot's layout (v2.1): written from the simulated bedside, read back for training.

    meta/info.json  meta/tasks.jsonl  meta/episodes.jsonl  meta/episodes_stats.jsonl
    data/chunk-000/episode_000000.parquet                          one row a moment
    videos/chunk-000/observation.images.d455/episode_000000.mp4    320 x 180, one frame a row

`observation.state` is robot_state's TCP as x y z (m) roll pitch yaw (rad, relative to tool-down), opening, holding;
`action` the same seven of the next moment. A ward's own recordings need nothing more: where the piece stood is read from
where the fingers closed, where it went from where the recording ends. Recordings at another rate are resampled to 20 Hz
(cubic; angles unwrapped first). An episode with `success: false` counts twice. Needs pyarrow and av.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wardarm.policy import contract
from wardarm.sim.scenes import GRASP_Z_M
from wardarm.training import shards
from wardarm.training.demos import FAILED_WEIGHT, GOAL_PIXEL_Z_M, Moment, labels
from wardarm.training.environment import IMAGE_HEIGHT, IMAGE_WIDTH
from wardarm.training.expert import HAND_OVER, Goal, State, Target
from wardarm.training.phrases import ABSENT_THINGS, PHRASES, PLAIN_SENTENCES

VERSION = "v2.1"
CAMERA = "observation.images.d455"
NAMES = ("x", "y", "z", "roll", "pitch", "yaw", "opening", "holding")
CHUNK_SIZE = 1000
_HAND_OVER_WITHIN_M, _PLACED_BELOW_M = 0.05, 0.06
_LEAN_RAD = math.radians(20)
_DONE_TAIL = 4  # moments at the end of a recording that count as done
_MOMENTS_AN_EPISODE = 24


class RecordingError(ValueError):
    """A recording cannot be trained on; the text names file, field and what is needed."""


@dataclass(frozen=True)
class Recording:
    """One episode. `states` (N, 8) as NAMES at `rate_hz`; `pictures` uint8 (N, 180, 320, 3)."""

    text: str
    states: NDArray[np.float64]
    pictures: NDArray[np.uint8]
    rate_hz: float = contract.RATE_HZ
    success: bool = True
    split: str = "train"


def is_dataset(folder: Path) -> bool:
    return (folder / "meta" / "info.json").is_file()


def resampled(states: NDArray[np.float64], rate_hz: float) -> NDArray[np.float64]:
    """States at 20 Hz: cubic through positions and unwrapped angles, nearest for holding, opening clipped to 0..1."""
    if abs(rate_hz - contract.RATE_HZ) < 1e-6 or len(states) < 4:
        return states
    from scipy.interpolate import CubicSpline

    t = np.arange(len(states)) / rate_hz
    at = np.arange(int(t[-1] * contract.RATE_HZ) + 1) / contract.RATE_HZ
    smooth = states[:, :7].copy()
    smooth[:, 3:6] = np.unwrap(smooth[:, 3:6], axis=0)
    values = CubicSpline(t, smooth)(at)
    values[:, 3:6] = (values[:, 3:6] + np.pi) % (2 * np.pi) - np.pi
    values[:, 6] = values[:, 6].clip(0, 1)
    holding = states[np.minimum(np.round(at * rate_hz).astype(int), len(states) - 1), 7:]
    return np.concatenate([values, holding], 1)


class Writer:
    """Writes episodes into a folder of its own. Raises FileExistsError if there is a data set already."""

    def __init__(self, folder: Path, rate_hz: float = contract.RATE_HZ) -> None:
        if is_dataset(folder):
            raise FileExistsError(f"{folder}: there is a data set already; write into an empty folder")
        self.folder, self.rate_hz = folder, rate_hz
        self._tasks: dict[str, int] = {}
        self._episodes: list[dict[str, Any]] = []
        self._stats: list[dict[str, Any]] = []
        self._rows = 0

    def add(self, recording: Recording) -> None:
        import pyarrow as arrow
        from pyarrow import parquet

        n, number = len(recording.states), len(self._episodes)
        task = self._tasks.setdefault(recording.text, len(self._tasks))
        action = np.concatenate([recording.states[1:, :7], recording.states[-1:, :7]])
        table = arrow.table(
            {
                "observation.state": arrow.array(
                    recording.states.astype(np.float32).tolist(), arrow.list_(arrow.float32())
                ),
                "action": arrow.array(action.astype(np.float32).tolist(), arrow.list_(arrow.float32())),
                "timestamp": arrow.array((np.arange(n) / self.rate_hz).astype(np.float32)),
                "frame_index": arrow.array(np.arange(n, dtype=np.int64)),
                "episode_index": arrow.array(np.full(n, number, np.int64)),
                "index": arrow.array(np.arange(self._rows, self._rows + n, dtype=np.int64)),
                "task_index": arrow.array(np.full(n, task, np.int64)),
            }
        )
        data = _data_path(self.folder, number)
        data.parent.mkdir(parents=True, exist_ok=True)
        parquet.write_table(table, data)
        _write_video(_video_path(self.folder, number), recording.pictures, self.rate_hz)
        self._episodes.append(
            {
                "episode_index": number,
                "tasks": [recording.text],
                "length": n,
                "success": recording.success,
                "split": recording.split,
            }
        )
        self._stats.append(
            {
                "episode_index": number,
                "stats": {"observation.state": _stats(recording.states), "action": _stats(action)},
            }
        )
        self._rows += n

    def close(self) -> None:
        """Write the descriptions: without them there is no data set."""
        meta = self.folder / "meta"
        meta.mkdir(parents=True, exist_ok=True)
        _lines(meta / "tasks.jsonl", [{"task_index": i, "task": t} for t, i in self._tasks.items()])
        _lines(meta / "episodes.jsonl", self._episodes)
        _lines(meta / "episodes_stats.jsonl", self._stats)
        scalar = {"shape": [1], "names": None}
        video = {
            "dtype": "video", "shape": [IMAGE_HEIGHT, IMAGE_WIDTH, 3], "names": ["height", "width", "channels"],
            "info": {"video.fps": self.rate_hz, "video.codec": "h264", "video.pix_fmt": "yuv420p", "has_audio": False},
        }  # fmt: skip
        info = {
            "codebase_version": VERSION, "robot_type": "ur5e", "total_episodes": len(self._episodes), "total_frames": self._rows,
            "total_tasks": len(self._tasks), "total_videos": len(self._episodes), "total_chunks": -(-len(self._episodes) // CHUNK_SIZE),
            "chunks_size": CHUNK_SIZE, "fps": self.rate_hz, "splits": {"train": f"0:{len(self._episodes)}"},
            "data_path": "data/chunk-{episode_chunk:03d}/episode_{episode_index:06d}.parquet",
            "video_path": "videos/chunk-{episode_chunk:03d}/{video_key}/episode_{episode_index:06d}.mp4",
            "features": {
                CAMERA: video,
                "observation.state": {"dtype": "float32", "shape": [8], "names": list(NAMES)},
                "action": {"dtype": "float32", "shape": [7], "names": list(NAMES[:7])},
                "timestamp": {"dtype": "float32", **scalar},
                **{k: {"dtype": "int64", **scalar} for k in ("frame_index", "episode_index", "index", "task_index")},
            },
        }  # fmt: skip
        (meta / "info.json").write_text(json.dumps(info, indent=1) + "\n", "utf-8")


def read(folder: Path) -> Iterator[Recording]:
    """Every episode, states at their own rate. Raises RecordingError."""
    from pyarrow import parquet

    try:
        info = json.loads((folder / "meta" / "info.json").read_text("utf-8"))
        episodes = [json.loads(line) for line in (folder / "meta" / "episodes.jsonl").read_text("utf-8").splitlines()]
    except (OSError, ValueError) as e:
        raise RecordingError(f"{folder}: not a LeRobot data set of {VERSION}: {e}") from e
    cameras = [k for k, f in info["features"].items() if f["dtype"] == "video"]
    if not cameras:
        raise RecordingError(f"{folder}: no video in it; the policy needs the D455's picture")
    camera = CAMERA if CAMERA in cameras else cameras[0]
    for episode in episodes:
        number = int(episode["episode_index"])
        path = folder / info["data_path"].format(episode_chunk=number // int(info["chunks_size"]), episode_index=number)
        try:
            table = parquet.read_table(path)
            states = np.array(table["observation.state"].to_pylist(), np.float64)
        except (OSError, KeyError) as e:
            raise RecordingError(f"{path}: {e}") from e
        if states.ndim != 2 or states.shape[1] != len(NAMES) or not np.isfinite(states).all():
            raise RecordingError(
                f"{path}: observation.state has shape {states.shape}, needs {len(NAMES)} finite values: {', '.join(NAMES)}"
            )
        video = folder / info["video_path"].format(
            episode_chunk=number // int(info["chunks_size"]), video_key=camera, episode_index=number
        )
        pictures = _read_video(video)
        if len(pictures) < len(states):
            raise RecordingError(f"{video}: {len(pictures)} frames for {len(states)} rows")
        yield Recording(
            str(episode["tasks"][0]), states, pictures[: len(states)], float(info["fps"]), bool(episode.get("success", True)),
            str(episode.get("split", "train")),
        )  # fmt: skip


def demonstrations(
    recording: Recording, rng: np.random.Generator, count: int = _MOMENTS_AN_EPISODE
) -> list[shards.Demo]:
    """Moments of a recording as training sees them. Raises RecordingError if the fingers never close in it."""
    states = resampled(recording.states, recording.rate_hz)
    closing = np.flatnonzero(states[:, 6] < 0.97)
    held = np.flatnonzero(states[:, 7] > 0.5)
    if not len(closing) or not len(held):
        raise RecordingError(f"{recording.text!r}: the fingers never close on anything in this recording")
    grasp, end = states[closing[0]], states[-1]
    kind = min(GRASP_Z_M, key=lambda k: abs(GRASP_Z_M[k] - float(grasp[2])))
    target = Target(float(grasp[0]), float(grasp[1]), float(grasp[5]), kind)
    leaning = abs(float(end[4])) > _LEAN_RAD
    handing = float(np.linalg.norm(end[:3] - np.array(contract.HAND_OVER_M))) < _HAND_OVER_WITHIN_M
    goal = (
        HAND_OVER
        if handing
        else Goal(float(end[0]), float(end[1]), float(end[2]), float(end[4]) if leaning else 0.0, not leaning)
    )
    zh = not recording.text.isascii()
    words = PHRASES["zh" if zh else "en", "train"].unrelated
    absent = [PLAIN_SENTENCES["zh" if zh else "en"][0].format(r=t) for t in ABSENT_THINGS["zh" if zh else "en"]]
    made = []
    for _ in range(count):
        at = int(rng.integers(0, len(states)))
        age = rng.uniform(contract.DELAY_MIN_S, contract.DELAY_MAX_S)
        seen_at = max(0, round(at - age * contract.RATE_HZ))
        now, seen = _state(states[at]), _state(states[seen_at])
        picture = recording.pictures[
            min(len(recording.pictures) - 1, round(seen_at * recording.rate_hz / contract.RATE_HZ))
        ]
        moment = Moment([now], 0, seen, failed=not recording.success)
        numbers = labels(moment, target, True, project(target.x_m, target.y_m), goal, project(goal.x_m, goal.y_m))
        future = states[np.minimum(np.arange(at, at + contract.HORIZON), len(states) - 1)]
        numbers["traj"] = contract.normalise(future[:, :6]).astype(np.float32)
        numbers["grip"] = future[:, 6].astype(np.float32)
        numbers["done"] = np.float32(at >= len(states) - _DONE_TAIL)  # type: ignore[assignment]
        numbers["weight"] = np.float32(1.0 if recording.success else FAILED_WEIGHT)  # type: ignore[assignment]
        nothing = [str(w) for w in rng.choice([*absent, *words], 4, replace=False)]
        texts = {
            "text": recording.text, "also": "\n".join([recording.text] * 3), "not_here": "\n".join(nothing),
            "wording": "recorded", "phase": "carry" if now.holding else "approach", "task": "recorded",
        }  # fmt: skip
        made.append(shards.Demo(np.ascontiguousarray(picture), numbers, texts))
    return made


def project(x_m: float, y_m: float) -> NDArray[np.float64]:
    """Where a point near the table is in the trained view: shares of width and height."""
    position, rotation = contract.camera_pose()
    x, y, z = rotation.T @ (np.array([x_m, y_m, GOAL_PIXEL_Z_M]) - position)
    focal = 0.5 / math.tan(math.radians(contract.CAMERA_FOVY_DEG) / 2)
    return np.array([x / z * focal * contract.IMAGE_HEIGHT / contract.IMAGE_WIDTH + 0.5, y / z * focal + 0.5])


def convert(folder: Path, out: Path, seed: int = 0) -> int:
    """A LeRobot data set -> shards in `out`. Returns how many demonstrations. Raises RecordingError."""
    rng = np.random.default_rng(seed)
    by_split: dict[str, list[shards.Demo]] = {}
    for recording in read(folder):
        by_split.setdefault(recording.split, []).extend(demonstrations(recording, rng))
    for split, demos in by_split.items():
        for i in range(0, len(demos), 1024):
            meta = {"seed": seed, "process": 0, "split": split, "msaa": 0, "source": str(folder)}
            shards.write(out, f"{split}-lerobot-{i // 1024:04d}", demos[i : i + 1024], meta)
    return sum(len(d) for d in by_split.values())


def _state(row: NDArray[np.float64]) -> State:
    x, y, z, roll, pitch, yaw, opening, holding = (float(v) for v in row)
    return State(x, y, z, roll, pitch, yaw, opening, holding > 0.5)


def _stats(values: NDArray[np.float64]) -> dict[str, Any]:
    return {k: getattr(values, k)(0).tolist() for k in ("min", "max", "mean", "std")} | {"count": [len(values)]}


def _lines(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(r, ensure_ascii=False) + "\n" for r in rows), "utf-8")


def _data_path(folder: Path, number: int) -> Path:
    return folder / "data" / f"chunk-{number // CHUNK_SIZE:03d}" / f"episode_{number:06d}.parquet"


def _video_path(folder: Path, number: int) -> Path:
    return folder / "videos" / f"chunk-{number // CHUNK_SIZE:03d}" / CAMERA / f"episode_{number:06d}.mp4"


def _write_video(path: Path, pictures: NDArray[np.uint8], rate_hz: float) -> None:
    import av

    path.parent.mkdir(parents=True, exist_ok=True)
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=round(rate_hz))
        stream.width, stream.height, stream.pix_fmt = pictures.shape[2], pictures.shape[1], "yuv420p"
        stream.options = {"crf": "18", "g": "10"}
        for picture in pictures:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(np.ascontiguousarray(picture), format="rgb24")))
        container.mux(stream.encode())


def _read_video(path: Path) -> NDArray[np.uint8]:
    import av

    if not path.is_file():
        raise RecordingError(f"{path}: missing")
    with av.open(str(path)) as container:
        frames = [
            f.to_ndarray(format="rgb24", width=IMAGE_WIDTH, height=IMAGE_HEIGHT) for f in container.decode(video=0)
        ]
    return np.stack(frames)
