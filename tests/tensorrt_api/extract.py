"""Record the public face of TensorRT's Python bindings: classes, their members and enumeration values, as JSON.

`python extract.py WHEEL [WHEEL ...]` writes VERSION.json beside this file. The bindings' own shared object is loaded; the
libraries that it needs (hundreds of MB, a GPU) are replaced by empty ones with the few symbols that it links to. Needs gcc
and nm, and the wheels of tensorrt-cu13-bindings for this Python.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

READ = """
import json, sys, types
import tensorrt_bindings as trt
face = {"__version__": trt.__version__}
for name in dir(trt):
    value = getattr(trt, name)
    if isinstance(value, type):
        members = {m: (getattr(value, m).__doc__ or "").split("\\n")[0] if callable(getattr(value, m, None)) else "" for m in dir(value)
                   if not m.startswith("_")}
        entry = {"members": members}
        if hasattr(value, "__members__"):
            entry["values"] = {k: int(v) for k, v in value.__members__.items()}
        face[name] = entry
print(json.dumps(face, indent=0, sort_keys=True))
"""
WANTED = (
    "Builder", "EngineInspector", "IBuilderConfig", "ICudaEngine", "IExecutionContext", "IHostMemory", "INetworkDefinition",
    "IOptimizationProfile", "ITimingCache", "LayerInformationFormat", "Logger", "MemoryPoolType", "NetworkDefinitionCreationFlag",
    "OnnxParser", "ParserError", "ProfilingVerbosity", "Runtime", "BuilderFlag",
)  # fmt: skip


def extract(wheel: Path) -> Path:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        zipfile.ZipFile(wheel).extractall(root)
        shared = root / "tensorrt_bindings" / "tensorrt.so"
        symbols = subprocess.run(
            ["nm", "-D", "--undefined-only", str(shared)], capture_output=True, text=True, check=True
        ).stdout
        names = [
            n
            for n in (line.split()[-1] for line in symbols.splitlines())
            if "@" not in n and not n.startswith(("_", "Py"))
        ]
        own = [n for n in names if re.match(r"(create|get|init)", n)]
        stub = root / "stub.c"
        stub.write_text("".join(f"void *{n}(void) {{ return 0; }}\n" for n in own))
        needed = subprocess.run(["readelf", "-d", str(shared)], capture_output=True, text=True, check=True).stdout
        for library in re.findall(r"\[(libnv[\w.]+)\]", needed):
            subprocess.run(
                ["gcc", "-shared", "-fPIC", str(stub), "-o", str(root / library), f"-Wl,-soname,{library}"], check=True
            )
        env = {**os.environ, "LD_LIBRARY_PATH": str(root), "PYTHONPATH": str(root)}
        face = json.loads(
            subprocess.run([sys.executable, "-c", READ], env=env, capture_output=True, text=True, check=True).stdout
        )
    kept = {k: v for k, v in face.items() if k in WANTED or k == "__version__"}
    out = Path(__file__).with_name(f"{face['__version__']}.json")
    out.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n")
    return out


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        print(extract(Path(argument)))
