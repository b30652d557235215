"""As much of the CUDA runtime as comparing an engine with its ONNX needs: memory, copies, one stream. Through ctypes."""

from __future__ import annotations

import ctypes
import ctypes.util
from collections.abc import Sequence
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wardarm.model.plan import BuildError, Machine
from wardarm.model.samples import Feed
from wardarm.policy import contract

_NAMES = ("libcudart.so.13", "libcudart.so", "libcudart.so.12")
_TO_DEVICE, _TO_HOST = 1, 2
_MAJOR, _MINOR = 75, 76  # cudaDevAttrComputeCapabilityMajor, ...Minor
_NAME_BYTES = 256  # cudaDeviceProp begins with char name[256]
_PROPERTIES_BYTES = 16_384  # more than cudaDeviceProp has in any release


class Cuda:
    """The CUDA runtime of this machine. Raises BuildError where there is none or no GPU."""

    def __init__(self) -> None:
        for name in _NAMES:
            try:
                self._lib = ctypes.CDLL(name)
                break
            except OSError:
                continue
        else:
            raise BuildError(
                "no CUDA runtime (libcudart) here: build the plan on the machine with the GPU that serves it"
            )
        count = ctypes.c_int()
        if self._lib.cudaGetDeviceCount(ctypes.byref(count)) or count.value < 1:
            raise BuildError("no GPU here: build the plan on the machine that serves it")

    def call(self, name: str, *arguments: Any) -> None:
        code = getattr(self._lib, name)(*arguments)
        if code:
            self._lib.cudaGetErrorString.restype = ctypes.c_char_p
            raise BuildError(f"{name}: {self._lib.cudaGetErrorString(code).decode()} ({code})")

    def machine(self, tensorrt: str) -> Machine:
        """Name and compute capability of device 0."""
        properties = ctypes.create_string_buffer(_PROPERTIES_BYTES)
        self.call("cudaGetDeviceProperties", properties, 0)
        major, minor = ctypes.c_int(), ctypes.c_int()
        self.call("cudaDeviceGetAttribute", ctypes.byref(major), _MAJOR, 0)
        self.call("cudaDeviceGetAttribute", ctypes.byref(minor), _MINOR, 0)
        return Machine(tensorrt, properties.raw[:_NAME_BYTES].split(b"\0")[0].decode(), f"{major.value}.{minor.value}")


class Engine:
    """An engine as a function: the contract's inputs -> its outputs (accuracy.Run). Use as a context."""

    def __init__(self, cuda: Cuda, engine: Any) -> None:
        self._cuda, self._context = cuda, engine.create_execution_context()
        self._stream = ctypes.c_void_p()
        cuda.call("cudaStreamCreate", ctypes.byref(self._stream))
        self._at: dict[str, ctypes.c_void_p] = {}
        for tensor in (*contract.INPUTS, *contract.OUTPUTS):
            pointer = ctypes.c_void_p()
            cuda.call("cudaMalloc", ctypes.byref(pointer), ctypes.c_size_t(tensor.nbytes * contract.MAX_BATCH))
            self._at[tensor.name] = pointer
            self._context.set_tensor_address(tensor.name, int(pointer.value or 0))

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        for pointer in self._at.values():
            self._cuda.call("cudaFree", pointer)
        self._cuda.call("cudaStreamDestroy", self._stream)

    def __call__(self, feed: Feed) -> list[NDArray[Any]]:
        batch = len(feed["robot_state"])
        for tensor in contract.INPUTS:
            values = np.ascontiguousarray(feed[tensor.name])
            self._context.set_input_shape(tensor.name, tuple(values.shape))
            self._copy(self._at[tensor.name], values, _TO_DEVICE)
        if not self._context.execute_async_v3(int(self._stream.value or 0)):
            raise BuildError("the engine refused an inference; its own log above says why")
        self._cuda.call("cudaStreamSynchronize", self._stream)
        return self._read(contract.OUTPUTS, batch)

    def _read(self, tensors: Sequence[contract.Tensor], batch: int) -> list[NDArray[Any]]:
        found = []
        for tensor in tensors:
            values = np.empty((batch, *tensor.shape), tensor.dtype)
            self._copy(self._at[tensor.name], values, _TO_HOST)
            found.append(values)
        return found

    def _copy(self, device: ctypes.c_void_p, values: NDArray[Any], way: int) -> None:
        host = ctypes.c_void_p(values.ctypes.data)
        to, source = (device, host) if way == _TO_DEVICE else (host, device)
        self._cuda.call("cudaMemcpy", to, source, ctypes.c_size_t(values.nbytes), way)
