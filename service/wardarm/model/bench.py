"""Latencies: the served file on one CPU thread, and the full-size architecture with PyTorch (`wardarm bench model`).

`python -m wardarm.model.bench --json [--out FILE]`. Of a GPU three ways are timed at batch 1 and 4: eager, compiled, and
as a CUDA graph; the inputs already lie on the device. Needs numpy and, for the full size, PyTorch; nothing else.
"""

from __future__ import annotations

import argparse
import functools
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from wardarm.model.samples import noise
from wardarm.policy import contract

BATCHES = (1, contract.MAX_BATCH)
WARM = 5
COMPILE_S = 45.0
"""Begin compiling only with this much of the budget left: it takes about so long."""
CPU_LIMIT_MS = 60.0
SERVED = Path("model_repository") / contract.MODEL / "1" / "policy.onnx"


def quantiles(times_s: Sequence[float]) -> dict[str, float]:
    values = np.array(times_s) * 1e3
    return {"p50": round(float(np.quantile(values, 0.5)), 3), "p95": round(float(np.quantile(values, 0.95)), 3),
            "p99": round(float(np.quantile(values, 0.99)), 3), "n": len(values)}  # fmt: skip


def repeated(call: Callable[[], Any], seconds: float, wait: Callable[[], None] = lambda: None) -> list[float]:
    """Wall time of each call, s, until `seconds` are over; WARM calls before."""
    for _ in range(WARM):
        call()
    wait()
    times: list[float] = []
    ends = time.monotonic() + seconds
    while time.monotonic() < ends or len(times) < WARM:
        begun = time.perf_counter()
        call()
        wait()
        times.append(time.perf_counter() - begun)
    return times


def served_on_cpu(path: Path, seconds: float) -> dict[str, Any]:
    """onnxruntime, one thread, batch 1."""
    from wardarm.model.accuracy import session

    run, feed = session(str(path)), noise(1)
    return {"file": str(path), "threads": 1, "batch_1": quantiles(repeated(lambda: run(feed), seconds))}


def instruction_only(path: Path) -> bytes:
    """The part of the graph that depends on the instruction alone, as a model: what a cache of encoded prompts would save.

    Its outputs are what the rest takes from it.
    """
    import onnx

    model = onnx.load(str(path))
    of: dict[str, set[str]] = {v.name: {v.name} for v in model.graph.input}
    words = {"input_ids", "attention_mask"}
    kept: list[Any] = []
    others: list[Any] = []
    for node in model.graph.node:
        sources = set().union(*(of.get(name, set()) for name in node.input))
        of.update((name, sources) for name in node.output)
        # constants are taken by both sides
        (kept if sources <= words else others).append(node)
    taken = {name for node in others for name in node.input}
    out = [name for node in kept for name in node.output if name in taken and of[name]]
    needed = {name for node in kept for name in node.input}
    graph = onnx.helper.make_graph(
        kept, "instruction", [v for v in model.graph.input if v.name in words],
        [onnx.ValueInfoProto(name=name) for name in out], [t for t in model.graph.initializer if t.name in needed],
    )  # fmt: skip
    return bytes(onnx.helper.make_model(graph, opset_imports=model.opset_import).SerializeToString())


def prompt_cache_on_cpu(path: Path, seconds: float) -> dict[str, Any]:
    """Whole file and its instruction part in turns, one thread: the share that a prompt cache could save at best."""
    import onnxruntime

    from wardarm.model.accuracy import session

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 3
    part = onnxruntime.InferenceSession(instruction_only(path), options, providers=["CPUExecutionProvider"])
    run, feed = session(str(path)), noise(1)
    words = {v.name: feed[v.name] for v in part.get_inputs()}
    whole_s, part_s = [], []

    def both() -> None:
        begun = time.perf_counter()
        run(feed)
        between = time.perf_counter()
        part.run(None, words)
        whole_s.append(between - begun)
        part_s.append(time.perf_counter() - between)

    repeated(both, seconds)
    whole, instruction = quantiles(whole_s[WARM:]), quantiles(part_s[WARM:])
    return {"whole": whole, "instruction": instruction, "share_p50": round(instruction["p50"] / whole["p50"], 4)}


def on_gpu(network: Any, seconds: float, ends: float, compiled: bool) -> Iterator[tuple[str, int, dict[str, Any]]]:
    """Rows (way, batch, figures) for a network of the contract's inputs in eval mode, already on the GPU."""
    import torch

    wait = torch.cuda.synchronize
    feeds = {b: [torch.from_numpy(noise(b)[t.name]).cuda() for t in contract.INPUTS] for b in BATCHES}
    for batch, feed in feeds.items():
        yield "eager", batch, quantiles(repeated(functools.partial(network, *feed), seconds, wait))
    for batch, feed in feeds.items():
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                network(*feed)
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            network(*feed)
        yield "cuda_graph", batch, quantiles(repeated(graph.replay, seconds, wait))
    if not compiled:
        return
    for batch, feed in feeds.items():
        if time.monotonic() + COMPILE_S > ends:
            yield "compiled", batch, {"skipped": "no time left to compile"}
            continue
        torch.compiler.reset()
        fast = torch.compile(network, mode="reduce-overhead", dynamic=False)
        begun = time.monotonic()
        fast(*feed)
        wait()
        took = time.monotonic() - begun
        yield (
            "compiled",
            batch,
            quantiles(repeated(functools.partial(fast, *feed), seconds, wait)) | {"compile_s": round(took, 1)},
        )


def full_size(seconds: float, budget_s: float) -> dict[str, Any]:
    """The full-size architecture in FP16 with random weights, on the GPU there is; on a CPU only how large it is."""
    import torch

    from wardarm.model.fullsize import FullSizePolicy

    ends = time.monotonic() + budget_s
    torch.manual_seed(0)
    network = FullSizePolicy().eval()
    found: dict[str, Any] = {"parameters": sum(p.numel() for p in network.parameters()), "torch": torch.__version__}
    if not torch.cuda.is_available():
        return found | {"skipped": "no GPU here: latencies are of a GPU"}
    found |= {"gpu": torch.cuda.get_device_name(0), "precision": "FP16", "latency_ms": {}}
    network = network.half().cuda().to(memory_format=torch.channels_last)
    with torch.no_grad():
        for way, batch, figures in on_gpu(network, seconds, ends, compiled=True):
            found["latency_ms"].setdefault(way, {})[f"batch_{batch}"] = figures
            print(f"{way} batch {batch}: {figures}", file=sys.stderr, flush=True)
    found["memory_mb"] = round(torch.cuda.max_memory_allocated() / 1e6)
    return found


def parser() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser("python -m wardarm.model.bench", description=__doc__)
    p.add_argument("--seconds", type=float, default=5.0, help="of measuring, each row")
    p.add_argument(
        "--budget",
        type=float,
        default=140.0,
        help="of everything on the GPU: rows that no longer fit are named as skipped",
    )
    p.add_argument("--full-size", action=argparse.BooleanOptionalAction, default=True)
    p.add_argument("--served", action=argparse.BooleanOptionalAction, default=True)
    p.add_argument("--onnx", type=Path, default=SERVED)
    p.add_argument("--json", action="store_true")
    p.add_argument("--out", type=Path, help="write the JSON here too")
    return p


def main(argv: Sequence[str] | None = None) -> int:
    a = parser().parse_args(argv)
    found: dict[str, Any] = {}
    try:
        if a.served:
            found["served_cpu_ms"] = served_on_cpu(a.onnx, a.seconds)
            found["prompt_cache_cpu_ms"] = prompt_cache_on_cpu(a.onnx, a.seconds)
        if a.full_size:
            found["full_size"] = full_size(a.seconds, a.budget)
    except ImportError as e:
        print(
            f"{e}: pip install 'wardarm[train]', or leave out a part with --no-served or --no-full-size",
            file=sys.stderr,
        )
        return 2
    text = json.dumps(found)
    if a.out:
        a.out.write_text(text + "\n", "utf-8")
    print(text if a.json else json.dumps(found, indent=1))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
