"""The inference client: the frame by shared memory, everything else inline, every answer checked.

Each failure of the server is a typed error that says what to do: `ServerUnavailable` (dead or restarting: try again),
`DeadlinePassed` (frozen or overloaded), `ContractMismatch` (another model: no motion), `OutputInvalid` (the answer is
not one). A server that restarted has forgotten our region; it is registered again and the request repeated once.
"""

from __future__ import annotations

import contextlib
import logging
import time
from dataclasses import dataclass
from typing import Any

import grpc
import numpy as np
import tritonclient.grpc as triton
from numpy.typing import NDArray
from tritonclient.utils import InferenceServerException

from wardarm.eye.frames import FrameRegion
from wardarm.policy import contract

log = logging.getLogger("wardarm.eye")

# a dead server is back within seconds; gRPC's own backoff would wait up to two minutes
_CHANNEL = [
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 500),
    ("grpc.max_receive_message_length", 1 << 20),
]
_ADMIN_DEADLINE_S = 2.0


class InferenceError(RuntimeError):
    """No usable answer; the text says which server, what it said and what to do."""


class ServerUnavailable(InferenceError): ...


class DeadlinePassed(InferenceError): ...


class ContractMismatch(InferenceError): ...


class OutputInvalid(InferenceError): ...


class ChunkOutOfRange(OutputInvalid):
    """`output_traj` leaves [-1, 1]: nothing to move by, but the other outputs are good. `valid`: output_valid."""

    def __init__(self, text: str, valid: float) -> None:
        super().__init__(text)
        self.valid = valid


@dataclass(frozen=True)
class Answer:
    """One inference. `traj`: FP16 (64, 6) in [-1, 1]; `grip`: FP16 (64,). Times are CLOCK_MONOTONIC."""

    traj: NDArray[np.float16]
    grip: NDArray[np.float16]
    valid: float
    done: float
    model_version: int
    start_ns: int
    end_ns: int
    validate_ms: float


def validate(outputs: dict[str, NDArray[Any] | None]) -> None:
    """Size, type, finiteness and range of all four outputs (with their batch dimension of 1). Raises OutputInvalid."""
    beyond: list[tuple[str, str]] = []
    for tensor in contract.OUTPUTS:
        value = outputs.get(tensor.name)
        low = -1.0 if tensor.name == "output_traj" else 0.0
        if value is None or value.nbytes != tensor.nbytes or value.shape != (1, *tensor.shape):
            seen = "missing" if value is None else f"shape {value.shape}, {value.nbytes} bytes"
            raise OutputInvalid(f"{tensor.name}: {seen}; expected (1, {tensor.shape}), {tensor.nbytes} bytes")
        if value.dtype != tensor.dtype:
            raise OutputInvalid(f"{tensor.name}: type {value.dtype}, expected {tensor.dtype}")
        wide = value.astype(np.float32)
        if not np.isfinite(wide).all():
            raise OutputInvalid(f"{tensor.name}: {int((~np.isfinite(wide)).sum())} values are not finite")
        if wide.min() < low or wide.max() > 1:
            beyond.append(
                (tensor.name, f"{tensor.name}: values {wide.min():.4f} .. {wide.max():.4f}, limits {low} .. 1")
            )
    for name, text in beyond:
        if name != "output_traj":
            raise OutputInvalid(text)
    if beyond:
        valid = outputs["output_valid"]
        assert valid is not None
        raise ChunkOutOfRange(beyond[0][1], float(valid[0, 0]))


class InferenceClient:
    """One connection to the server. Not for several threads at once."""

    def __init__(self, url: str, model: str, region: FrameRegion, deadline_s: float) -> None:
        self.url, self.model, self.region, self.deadline_s = url, model, region, deadline_s
        self._client = triton.InferenceServerClient(url, channel_args=_CHANNEL)
        self._outputs = [triton.InferRequestedOutput(t.name) for t in contract.OUTPUTS]
        self._registered = False
        self.tasks: tuple[str, ...] = ()

    def close(self) -> None:
        if self._registered:
            with contextlib.suppress(InferenceServerException):  # a server that is gone has forgotten the region
                self._client.unregister_system_shared_memory(self.region.name, client_timeout=_ADMIN_DEADLINE_S)
        self._client.close()

    def connect(self, parameters: dict[str, str]) -> None:
        """Check the served model against the contract, then register the frame region.

        `parameters`: contract.parameters(tokenizer). Raises ContractMismatch, ServerUnavailable, DeadlinePassed.
        """
        try:
            metadata = self._client.get_model_metadata(self.model, client_timeout=_ADMIN_DEADLINE_S)
            config = self._client.get_model_config(self.model, client_timeout=_ADMIN_DEADLINE_S).config
        except InferenceServerException as e:
            raise self._typed(e) from e
        for served, wanted in ((metadata.inputs, contract.INPUTS), (metadata.outputs, contract.OUTPUTS)):
            seen = {t.name: (t.datatype, tuple(t.shape)) for t in served}
            want = {t.name: (t.triton, (-1, *t.shape)) for t in wanted}
            if seen != want:
                raise ContractMismatch(
                    f"model '{self.model}' at {self.url} has {seen}, the contract says {want}: serve the model that "
                    "belongs to this version"
                )
        if config.max_batch_size > contract.MAX_BATCH or config.max_batch_size < 1:
            raise ContractMismatch(f"model '{self.model}': max_batch_size {config.max_batch_size}, the limit is 4")
        for key, value in parameters.items():
            served_value = config.parameters[key].string_value if key in config.parameters else "missing"
            if served_value != value:
                raise ContractMismatch(
                    f"model '{self.model}' at {self.url}: parameter {key} is {served_value[:16]}, expected {value[:16]}: "
                    "weights, tokenizer and this version do not belong together"
                )
        named = config.parameters["tasks"].string_value if "tasks" in config.parameters else ""
        self.tasks = tuple(named.split())
        self._register()

    def _register(self) -> None:
        """Unregister first: after a region was made anew the server would go on reading the old memory."""
        for attempt in range(10):
            try:
                self._client.unregister_system_shared_memory(self.region.name, client_timeout=_ADMIN_DEADLINE_S)
                self._client.register_system_shared_memory(
                    self.region.name, f"/{self.region.name}", self.region.bytes, client_timeout=_ADMIN_DEADLINE_S
                )
                self._registered = True
                return
            except InferenceServerException as e:
                if "in use" not in str(e.message()) or attempt == 9:
                    raise self._typed(e) from e
            time.sleep(0.02)

    def infer(self, slot: int, ids: NDArray[np.int32], mask: NDArray[np.int32], state: NDArray[np.float32]) -> Answer:
        """One inference on the pixels of a pinned slot. `ids`, `mask`: INT32 (128,); `state`: FP32 (8,).

        Raises InferenceError's children; nothing is retried but a forgotten region, once.
        """
        image = triton.InferInput("image", [1, *contract.INPUTS[0].shape], "UINT8")
        image.set_shared_memory(self.region.name, self.region.colour_bytes, self.region.offset(slot))
        inputs = [image]
        for name, value, kind in (
            ("input_ids", ids, "INT32"),
            ("attention_mask", mask, "INT32"),
            ("robot_state", state, "FP32"),
        ):
            entry = triton.InferInput(name, [1, *value.shape], kind)
            entry.set_data_from_numpy(value[None])
            inputs.append(entry)
        start_ns = time.monotonic_ns()
        try:
            result = self._call(inputs)
        except InferenceServerException as e:
            if "shared memory region" not in str(e.message()):
                raise self._typed(e) from e
            self._register()
            start_ns = time.monotonic_ns()
            try:
                result = self._call(inputs)
            except InferenceServerException as again:
                raise self._typed(again) from again
        end_ns = time.monotonic_ns()
        outputs = {t.name: result.as_numpy(t.name) for t in contract.OUTPUTS}
        validate(outputs)
        values = {k: v[0] for k, v in outputs.items() if v is not None}
        version = str(result.get_response().model_version)
        return Answer(
            traj=values["output_traj"].astype(np.float16),
            grip=values["output_grip"].astype(np.float16),
            valid=float(values["output_valid"][0]),
            done=float(values["output_done"][0]),
            model_version=int(version) if version.isdigit() else 0,
            start_ns=start_ns,
            end_ns=end_ns,
            validate_ms=(time.monotonic_ns() - end_ns) * 1e-6,
        )

    def _call(self, inputs: list[Any]) -> Any:
        return self._client.infer(self.model, inputs, outputs=self._outputs, client_timeout=self.deadline_s)

    def _typed(self, error: InferenceServerException) -> InferenceError:
        status, text = str(error.status()), str(error.message())
        where = f"Triton at {self.url}"
        if grpc.StatusCode.DEADLINE_EXCEEDED.name in status or "Deadline Exceeded" in text:
            return DeadlinePassed(
                f"{where}: no answer within triton.infer_deadline_s = {self.deadline_s} s; is the machine overloaded?"
            )
        if grpc.StatusCode.UNAVAILABLE.name in status:
            log.info("server unavailable", extra={"said": text})  # gRPC's own words are for a log, not for a bedside
            return ServerUnavailable(f"{where} cannot be reached: it is down or restarting; see 'wardarm status'")
        log.warning("server error", extra={"said": text})
        first = text.strip().splitlines()[0][:120] if text.strip() else "no reason given"
        return InferenceError(f"{where} refused the question: {first}; see its log")
