"""The model as the main loop sees it: ask, go on beating, look later whether it answered.

Inference runs in a thread of its own. One question is in flight; its frame's slot stays pinned until the answer. While
nobody asks, a real inference every few seconds says whether the server lives: its own readiness would not.
"""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wardarm.config import Config
from wardarm.eye.frames import Frame, FrameBoard
from wardarm.eye.planned import Planned
from wardarm.eye.triton import (
    Answer,
    ChunkOutOfRange,
    ContractMismatch,
    InferenceClient,
    InferenceError,
    ServerUnavailable,
)
from wardarm.kinematics import TcpPose
from wardarm.policy import contract
from wardarm.policy.tokenizer import Tokenizer
from wardarm.shm.layouts import StepKind

HEALTH_S = 5.0  # an idle server is tried this often
RETRY_S = 1.0  # a failing one this often

_STEP_KINDS = {
    "fetch": StepKind.FETCH, "hand_over": StepKind.HAND_OVER, "put": StepKind.PUT, "pour": StepKind.POUR,
    "put_back": StepKind.PUT_BACK,
}  # fmt: skip

Tokens = tuple[NDArray[np.int32], NDArray[np.int32]]


@dataclass(frozen=True)
class Reply:
    """`queue_ms`: from the frame's arrival to the start of its inference."""

    answer: Answer
    frame: Frame
    asked_ns: int
    queue_ms: float


class Model:
    def __init__(self, config: Config, board: FrameBoard, tokenizer: Tokenizer) -> None:
        self.config, self.board, self.tokenizer = config, board, tokenizer
        self.error = "has not answered yet"
        self.version = 0
        self.tasks: frozenset[int] = frozenset()
        """Step kinds that the served weights were trained for, as their configuration says (`parameters.tasks`)."""
        self._client: InferenceClient | None = None
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="inference")
        self._pending: Future[Reply] | None = None
        self._tried_s = -1e9
        self._parameters = contract.parameters(tokenizer.path)
        self._lock = threading.Lock()

    @property
    def ok(self) -> bool:
        return not self.error

    @property
    def busy(self) -> bool:
        return self._pending is not None

    def ask(self, tokens: Tokens, planned: Planned) -> bool:
        """Ask about the newest frame. False if a question is in flight or there is no frame."""
        if self.busy:
            return False
        frame = self.board.pin_latest()
        if frame is None:
            return False
        self._pending = self._pool.submit(self._answer, frame, tokens, planned.robot_state(), time.monotonic_ns())
        self._tried_s = time.monotonic()
        return True

    def poll(self) -> Reply | InferenceError | None:
        """The answer or what went wrong; None while it is being made or nothing was asked."""
        if self._pending is None or not self._pending.done():
            return None
        pending, self._pending = self._pending, None
        error = pending.exception()
        if error is None:
            self.error = ""
            reply = pending.result()
            self.version = reply.answer.model_version
            return reply
        if not isinstance(error, InferenceError):
            raise error
        self.error = (
            "" if isinstance(error, ChunkOutOfRange) else str(error)
        )  # it answered; what it said is another matter
        return error

    def keep_alive(self) -> None:
        """Call while no step runs: tries the server now and then, and takes the result."""
        if self.busy:
            self.poll()
            return
        if time.monotonic() - self._tried_s < (HEALTH_S if self.ok else RETRY_S):
            return
        ids = np.zeros(contract.TOKENS, np.int32)
        mask = np.zeros(contract.TOKENS, np.int32)
        mask[0] = 1
        home = self.config.poses.home
        zero = np.zeros(6)
        pose = TcpPose(np.array(home[:3]), np.radians(home[3:]))
        if not self.ask((ids, mask), Planned(zero, zero, zero, pose, 1.0)):
            self.error = "no frame to try the model on" if self.error else ""
            self._tried_s = time.monotonic()

    def _answer(self, frame: Frame, tokens: Tokens, state: NDArray[np.float32], asked_ns: int) -> Reply:
        try:
            answer = self._connected().infer(frame.slot, *tokens, state)
        except (ServerUnavailable, ContractMismatch):
            self._disconnect()  # what comes back may be another model: look at it again
            raise
        finally:
            self.board.unpin(frame)
        return Reply(answer, frame, asked_ns, (answer.start_ns - frame.arrival_ns) * 1e-6)

    def _connected(self) -> InferenceClient:
        with self._lock:
            if self._client is None:
                t = self.config.triton
                client = InferenceClient(t.url, t.model, self.board.region, t.infer_deadline_s)
                try:
                    client.connect(self._parameters)
                except InferenceError:
                    client.close()
                    raise
                self._client = client
                self.tasks = frozenset(_STEP_KINDS[t] for t in client.tasks if t in _STEP_KINDS)
            return self._client

    def _disconnect(self) -> None:
        with self._lock:
            if self._client is not None:
                self._client.close()
                self._client = None

    def close(self) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)
        self._disconnect()
