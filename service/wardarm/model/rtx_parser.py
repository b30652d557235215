"""Whether TensorRT's ONNX parser knows every operator: asked of TensorRT-RTX, which parses without a GPU.

RTX is a checker here, not the runtime: it runs neither on a Thor nor on a data-centre GPU. Its parser is TensorRT's.
Needs the extra: pip install 'wardarm[trt-check]'.
"""

from __future__ import annotations

import ctypes
import importlib.util
from functools import cache
from pathlib import Path
from typing import Any

from wardarm.model.findings import Findings

_LIBRARIES = ("libcudart.so*", "libtensorrt_rtx.so*", "libtensorrt_onnxparser_rtx.so*")


class NotInstalled(RuntimeError):
    """TensorRT-RTX is not here; the text says how to bring it."""


@cache
def bindings() -> Any:
    """The module of TensorRT-RTX. Its libraries lie in another wheel and are loaded first. Raises NotInstalled."""
    where = importlib.util.find_spec("onnxruntime_ep_nv_tensorrt_rtx")
    if where is None or where.origin is None or importlib.util.find_spec("tensorrt_rtx_bindings") is None:
        raise NotInstalled("TensorRT-RTX is not installed: pip install 'wardarm[trt-check]'")
    for pattern in _LIBRARIES:
        found = sorted(Path(where.origin).parent.glob(pattern))
        if not found:
            raise NotInstalled(
                f"{pattern} is missing in {Path(where.origin).parent}: pip install --force-reinstall 'wardarm[trt-check]'"
            )
        ctypes.CDLL(str(found[-1]), mode=ctypes.RTLD_GLOBAL)
    return importlib.import_module("tensorrt_rtx_bindings")


def look_at_operators(path: Path, found: Findings) -> None:
    """Parse the file, strongly typed, and name every node that the parser does not take."""
    try:
        trt = bindings()
    except (NotInstalled, OSError) as e:
        found.add("tensorrt_parser", "skipped", str(e), "")
        return
    log = trt.Logger(trt.Logger.INTERNAL_ERROR)
    network = trt.Builder(log).create_network(strongly_typed(trt))
    parser = trt.OnnxParser(network, log)
    if parser.parse_from_file(str(path)):
        found.figures["tensorrt_layers"] = network.num_layers
        found.add("tensorrt_parser", "ok", f"TensorRT-RTX {trt.__version__} parses it: {network.num_layers} layers")
        return
    for error in parser_errors(parser):
        found.add("tensorrt_parser", "bad", error, "export without this operator")


def strongly_typed(trt: Any) -> int:
    """The creation flags of a strongly typed network. Its bit differs between 10 and 11, and RTX knows no other kind."""
    flag = getattr(trt.NetworkDefinitionCreationFlag, "STRONGLY_TYPED", None)
    return 0 if flag is None else 1 << int(flag)


def parser_errors(parser: Any) -> list[str]:
    """What an ONNX parser has to say, each with its node."""
    words = []
    for i in range(parser.num_errors):
        error = parser.get_error(i)
        operator, name = (getattr(error, f, str)() for f in ("node_operator", "node_name"))
        where = f"node {error.node()} {name} ({operator}): " if operator else ""
        words.append(f"{where}{error.desc()}".strip())
    return words or ["the parser gave no reason"]
