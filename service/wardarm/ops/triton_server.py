"""Process `triton`: the embedded inference server of a desk, as a child in its own process group.

In: model_repository (one repository for desk and Thor), frames by shared memory. Out: answers on `triton.url`.
Deadline: ready within `triton.start_deadline_s`, or it ends with a reason. Ready means one real inference came back
whole: the server's own readiness stays true when its model's process has died. Death: inference stops, and moving
without an accepted chunk is INFERENCE_STALE. On a Thor the server is NVIDIA's container instead (docs/model.md).

The server is NVIDIA's tritonserver from the wheel nvidia-pytriton, started directly. It lives in an environment of
its own, because its python backend returns empty outputs with numpy 2: `prepare()` makes it (build/triton/venv, or
WARDARM_TRITON_VENV).
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import FrameType

import numpy as np

from wardarm.config import Config, load
from wardarm.ops import installation
from wardarm.policy import contract

REQUIREMENTS = ("nvidia-pytriton==0.7.0", "numpy<2", "onnxruntime", "setuptools<81")
EXIT_TIMEOUT_S = 5
PR_SET_PDEATHSIG = 1  # linux/prctl.h
SHM = Path("/dev/shm")


class TritonServerError(RuntimeError):
    """The embedded server cannot be prepared or started; the text says what to do next."""


def venv() -> Path:
    named = os.environ.get("WARDARM_TRITON_VENV")
    return Path(named) if named else installation.root() / "build" / "triton" / "venv"


def _site_packages(environment: Path) -> Path:
    found = sorted(environment.glob("lib/python3.*/site-packages"))
    if not found:
        raise TritonServerError(f"{environment}: not a Python environment; delete it and run 'make triton'")
    return found[0]


def prepare() -> Path:
    """Make the server's environment if it is missing (about 450 MB) and lay out its backend. Returns the venv."""
    environment = venv()
    if not (environment / "bin" / "python3").exists():
        print(f"triton: making {environment}", flush=True)
        subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True)
        try:
            subprocess.run([environment / "bin" / "pip", "install", "--quiet", *REQUIREMENTS], check=True)
        except subprocess.CalledProcessError as e:
            shutil.rmtree(environment)  # a half-made environment would be taken for a whole one
            raise TritonServerError("pip could not install the embedded server; see its message above") from e
    backends(environment)
    return environment


def backends(environment: Path) -> Path:
    """The folder for --backend-directory: library, utils and the stub of this Python must lie side by side."""
    server = _site_packages(environment) / "pytriton" / "tritonserver"
    source = server / "backends" / "python"
    if not source.is_dir():
        raise TritonServerError(f"{server}: not there; delete {environment} and run 'make triton'")
    version = _site_packages(environment).parent.name.removeprefix("python")
    stub = server / "python_backend_stubs" / version / "triton_python_backend_stub"
    if not stub.exists():
        raise TritonServerError(f"{stub}: the server has no stub for Python {version}; it has 3.8 to 3.13")
    target = installation.root() / "build" / "triton" / "backends" / "python"
    target.mkdir(parents=True, exist_ok=True)
    for file in (source / "libtriton_python.so", source / "triton_python_backend_utils.py", stub):
        copy = target / file.name
        if not copy.exists() or copy.stat().st_size != file.stat().st_size:
            scratch = copy.with_suffix(f".{os.getpid()}")
            shutil.copy2(file, scratch)
            scratch.replace(copy)
    return target.parent


def command(config: Config, environment: Path) -> tuple[list[str], dict[str, str]]:
    """(argv, environment variables) of the server for this configuration."""
    site = _site_packages(environment)
    server = site / "pytriton" / "tritonserver"
    host, _, port = config.triton.url.rpartition(":")
    repository = installation.within(config.triton.repository)
    if not (repository / config.triton.model).is_dir():
        raise TritonServerError(f"triton.repository = {repository}: has no model '{config.triton.model}'")
    argv = [
        str(server / "bin" / "tritonserver"),
        f"--model-repository={repository}",
        f"--backend-directory={backends(environment)}",
        f"--cache-directory={server / 'caches'}",
        f"--grpc-address={host}", f"--grpc-port={port}",
        f"--http-address={host}", f"--http-port={config.triton.http_port}",
        f"--metrics-address={host}", f"--metrics-port={config.triton.metrics_port}",
        "--allow-gpu-metrics=false", "--pinned-memory-pool-byte-size=0",
        f"--exit-timeout-secs={EXIT_TIMEOUT_S}",
        f"--backend-config=python,shm-region-prefix-name={region_prefix(config)}",
    ]  # fmt: skip
    if config.triton.config_name:
        argv.append(f"--model-config-name={config.triton.config_name}")
    home = (environment / "bin" / "python3").resolve().parents[1]
    variables = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME")}
    # without the first, loading hangs for ever; the stub finds its packages through the first python3 on PATH
    variables["LD_LIBRARY_PATH"] = f"{site / 'nvidia_pytriton.libs'}:{home / 'lib'}"
    variables["PATH"] = f"{environment / 'bin'}:{os.environ.get('PATH', '/usr/bin:/bin')}"
    return argv, variables


def region_prefix(config: Config) -> str:
    return f"{config.shm.prefix}wardarm_tpb"


def remove_regions(config: Config) -> int:
    """Delete what a killed server of this system left in /dev/shm (1 MB each). Returns how many."""
    left = list(SHM.glob(f"{region_prefix(config)}*"))
    for file in left:
        file.unlink(missing_ok=True)
    return len(left)


def golden_inference(url: str, model: str, deadline_s: float = 5.0) -> float:
    """One whole inference, inline: raises unless 768 bytes of trajectory come back. Returns its milliseconds.

    Errors: tritonclient's InferenceServerException; TritonServerError for an answer of the wrong size.
    """
    import tritonclient.grpc as grpc

    client = grpc.InferenceServerClient(url)
    try:
        inputs = []
        for tensor in contract.INPUTS:
            value = np.zeros((1, *tensor.shape), tensor.dtype)
            if tensor.name == "attention_mask":
                value[0, 0] = 1
            if tensor.name == "robot_state":
                value[0] = contract.robot_state(np.array([0.3, 0.0, 0.42]), np.zeros(3), 1.0, False)
            entry = grpc.InferInput(tensor.name, list(value.shape), tensor.triton)
            entry.set_data_from_numpy(value)
            inputs.append(entry)
        start = time.monotonic()
        result = client.infer(model, inputs, client_timeout=deadline_s)
        for tensor in contract.OUTPUTS:
            value = result.as_numpy(tensor.name)
            if value is None or value.nbytes != tensor.nbytes:
                size = 0 if value is None else value.nbytes
                raise TritonServerError(
                    f"{tensor.name}: {size} bytes, expected {tensor.nbytes}: the server's environment has numpy 2? "
                    f"Delete {venv()} and run 'make triton'"
                )
        return (time.monotonic() - start) * 1e3
    finally:
        client.close()


def _die_with_parent() -> None:
    """Runs in the child before exec: a server must not outlive a killed parent, it would keep the ports."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


class EmbeddedServer:
    """The running child. `wait_ready` before use; `stop` leaves neither a process nor a region behind."""

    def __init__(self, config: Config, output: int | None = None) -> None:
        self.config = config
        argv, variables = command(config, prepare())
        remove_regions(config)
        self.process = subprocess.Popen(
            argv, env=variables, stdout=output, stderr=output, start_new_session=True, preexec_fn=_die_with_parent
        )

    def wait_ready(self) -> float:
        """Block until an inference succeeds; returns seconds. Raises TritonServerError at the deadline or on exit."""
        from tritonclient.utils import InferenceServerException

        start, limit = time.monotonic(), self.config.triton.start_deadline_s
        reason = "no answer yet"
        while time.monotonic() - start < limit:
            code = self.process.poll()
            if code is not None:
                raise TritonServerError(f"tritonserver ended with {code} while starting; its log is above")
            try:
                golden_inference(self.config.triton.url, self.config.triton.model)
                return time.monotonic() - start
            except InferenceServerException as e:
                reason = str(e.message())
            time.sleep(0.1)
        raise TritonServerError(
            f"tritonserver at {self.config.triton.url} did not answer an inference within "
            f"triton.start_deadline_s = {limit} s ({reason}); see its log above"
        )

    def stop(self) -> None:
        """SIGTERM, wait, then SIGKILL the whole group: a killed server may leave its model's process behind."""
        if self.process.poll() is None:
            self.process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(EXIT_TIMEOUT_S + 3)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        remove_regions(self.config)


def main() -> int:
    parser = argparse.ArgumentParser(prog="wardarm-triton", description="The embedded inference server.")
    parser.add_argument("--config", default="desk", help="configuration file, or 'desk'")
    parser.add_argument("--prepare", action="store_true", help="make the server's environment and end")
    args = parser.parse_args()
    try:
        if args.prepare:
            prepare()
            return 0
        return _serve(load(args.config))
    except TritonServerError as e:
        print(f"triton: {e}", file=sys.stderr, flush=True)
        return 1


def _serve(config: Config) -> int:
    server: EmbeddedServer | None = None

    def end(_signal: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, end)
    try:
        server = EmbeddedServer(config)
        print(f"triton: ready after {server.wait_ready():.1f} s at {config.triton.url}", flush=True)
        code = server.process.wait()
        raise TritonServerError(f"tritonserver ended with {code}")
    except KeyboardInterrupt:
        return 0
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        if server is not None:
            server.stop()


if __name__ == "__main__":
    sys.exit(main())
