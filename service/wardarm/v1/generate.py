"""Python code from the protos: `python -m wardarm.v1.generate` writes it, `--check` says whether it is current.

Needs the `dev` extra (grpcio-tools). Exit code 0: written or current; 1: with --check, a file differs.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from importlib import resources
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]  # what imports and `import "wardarm/v1/..."` are relative to


def generate(out: Path) -> list[Path]:
    """Write `*_pb2.py` and `*_pb2_grpc.py` below `out`/wardarm/v1. Raises RuntimeError if protoc refuses."""
    from grpc_tools import protoc

    protos = sorted(HERE.glob("*.proto"))
    google = resources.files("grpc_tools") / "_proto"
    outs = [f"--{kind}_out={out}" for kind in ("python", "grpc_python")]
    names = [str(p.relative_to(ROOT)) for p in protos]
    if protoc.main(["protoc", f"-I{ROOT}", f"-I{google}", *outs, *names]) != 0:
        raise RuntimeError("protoc refused the protos; its message is above")
    made = sorted((out / "wardarm" / "v1").glob("*_pb2*.py"))
    for path in made:  # a proto without a service gets an empty gRPC file: no use to anybody
        if path.name.endswith("_pb2_grpc.py") and "Stub" not in path.read_text("utf-8"):
            path.unlink()
    return [p for p in made if p.exists()]


def differences() -> list[str]:
    """Names of committed files that are missing, superfluous or not what the protos say."""
    with tempfile.TemporaryDirectory() as scratch:
        fresh = {p.name: p.read_bytes() for p in generate(Path(scratch))}
    committed = {p.name: p.read_bytes() for p in HERE.glob("*_pb2*.py")}
    return sorted(n for n in fresh.keys() | committed.keys() if fresh.get(n) != committed.get(n))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing, say whether the code is current")
    if parser.parse_args().check:
        stale = differences()
        if stale:
            print(f"not current: {', '.join(stale)}; run 'python -m wardarm.v1.generate'", file=sys.stderr)
        return 1 if stale else 0
    for path in generate(ROOT):
        print(path.relative_to(ROOT))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
