"""Train the policy for a while: `python -m wardarm.training.train --data DIR --seconds N --out DIR`.

Writes `checkpoint.pt` (the same command resumes from it; SIGTERM ends a slice of the budget cleanly), `metrics.json` (every record) and `curves.png` into OUT.
One GPU if there is one, else the CPU; with `torchrun --nproc_per_node N -m wardarm.training.train ...` N GPUs. `--data` may
be demonstrations (wardarm.training.demos) or a LeRobot data set. Needs the extra: pip install 'wardarm[train]'.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from wardarm.policy import contract
from wardarm.training.shards import DatasetError

TOKENIZER = Path("model_repository") / contract.MODEL / "1" / "tokenizer.model"
METRICS, CURVES = "metrics.json", "curves.png"


def parser() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser("python -m wardarm.training.train", description=__doc__)
    p.add_argument("--data", type=Path, required=True, help="folder of wardarm.training.demos")
    p.add_argument("--out", type=Path, required=True)
    p.add_argument(
        "--seconds", type=float, required=True, help="whole budget of training, over all resumptions, without compiling"
    )
    p.add_argument("--steps", type=int, default=0, help="end after so many steps, if the seconds have not ended it")
    p.add_argument("--batch", type=int, default=512, help="samples a step and GPU")
    p.add_argument("--rate", type=float, default=9e-4, help="peak learning rate")
    p.add_argument("--warm", type=int, default=300, help="steps to the peak")
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--compile", action="store_true", help="compile the step first (about a minute), then faster")
    p.add_argument("--device", default="", help="cuda or cpu; default: cuda if there is one")
    p.add_argument("--tokenizer", type=Path, default=TOKENIZER)
    p.add_argument("--width", type=int, default=128, help="of the network; smaller ones are for trying out")
    p.add_argument("--report", type=float, default=20.0, help="a line every so many s")
    return p


def plot(records: Sequence[dict[str, Any]], path: Path) -> None:
    """Loss parts and held-out errors over samples seen."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    training = [r for r in records if r["kind"] == "train" and r["parts"]]
    scores = [r for r in records if r["kind"] == "score"]
    figure, (left, right, told) = pyplot.subplots(1, 3, figsize=(17, 4.5))
    for part in training[0]["parts"] if training else ():
        left.semilogy([r["seen"] / 1e3 for r in training], [max(1e-9, r["parts"][part]) for r in training], label=part)
    left.set(xlabel="samples seen (thousand)", title="loss parts, unweighted")
    if training:
        left.legend(fontsize=7, ncols=2)
    for role in ("piece", "goal"):
        points = [(r["seen"] / 1e3, r["score"]["colors"][role]["right"]) for r in scores]
        points = [p for p in points if p[1] is not None]
        told.plot([p[0] for p in points], [p[1] for p in points], "o-", label=f"{role}, only the colour tells")
    points = [
        (r["seen"] / 1e3, r["score"]["all"]["grounded"]) for r in scores if r["score"]["all"]["grounded"] is not None
    ]
    told.plot([p[0] for p in points], [p[1] for p in points], "o-", label="all")
    told.set(xlabel="samples seen (thousand)", title="held out, aimed right", ylim=(0, 1))
    told.legend(fontsize=7)
    for key in ("soon_mm_p50", "soon_mm_p95", "grasp_mm_p50", "grasp_mm_p95"):
        points = [(r["seen"] / 1e3, r["score"]["all"][key]) for r in scores if r["score"]["all"][key] is not None]
        right.semilogy([p[0] for p in points], [p[1] for p in points], "o-", label=key)
    right.set(xlabel="samples seen (thousand)", ylabel="mm", title="held out")
    if scores:
        right.legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


def line(record: dict[str, Any]) -> str:
    """One record for people."""
    head = f"{record['kind']:6s}{record['elapsed_s']:7.0f} s  step {record['step']}  seen {record['seen']}"
    if record["kind"] == "score":
        return f"{head}  {json.dumps(record['score']['all'])} colors {json.dumps(record['score']['colors'])}"
    if record["kind"] == "compiled":
        return f"{head}  in {record['took_s']:.0f} s, not counted"
    if "reason" in record:
        return f"{head}  {record['reason']}"
    return f"{head}  " + " ".join(f"{k} {v:.4f}" for k, v in record["parts"].items())


def _as_shards(data: Path, out: Path) -> Path:
    """A LeRobot data set is turned into shards beside the checkpoint, once. Raises DatasetError."""
    from wardarm.training import lerobot

    if not lerobot.is_dataset(data):
        return data
    converted = out / "shards"
    if not any(converted.glob("*.labels.npz")):
        try:
            count = lerobot.convert(data, converted)
        except (lerobot.RecordingError, ImportError) as e:
            raise DatasetError(str(e)) from e
        print(f"{data}: {count} demonstrations of recorded episodes in {converted}", file=sys.stderr)
    return converted


def main(argv: Sequence[str] | None = None) -> int:
    a = parser().parse_args(argv)
    try:
        import torch
    except ImportError:
        print("PyTorch is not installed; pip install 'wardarm[train]'", file=sys.stderr)
        return 2
    from wardarm.policy.tokenizer import Tokenizer
    from wardarm.training.dataset import Dataset, vocabulary_size
    from wardarm.training.model import Size, parameters_million
    from wardarm.training.parallel import Group
    from wardarm.training.trainer import NotFinite, Settings, Trainer
    from wardarm.training.watch import Stopped

    group = Group()
    device = torch.device(a.device or (f"cuda:{group.local}" if torch.cuda.is_available() else "cpu"))
    if device.type == "cuda":
        torch.cuda.set_device(device)
    a.out.mkdir(parents=True, exist_ok=True)
    metrics = a.out / METRICS
    records: list[dict[str, Any]] = json.loads(metrics.read_text()) if metrics.exists() else []

    def report(record: dict[str, Any]) -> None:
        if not group.first:
            return
        records.append(record)
        metrics.write_text(json.dumps(records))
        print(line(record), file=sys.stderr, flush=True)

    tokenizer = Tokenizer(a.tokenizer)
    try:
        a.data = _as_shards(a.data, a.out)
        train = Dataset(a.data, "train", tokenizer, device)
        held_out = Dataset(a.data, "held_out", tokenizer, device) if any(a.data.glob("held_out-*")) else None
    except DatasetError as e:
        print(e, file=sys.stderr)
        return 2
    settings = Settings(a.seconds, a.batch, a.rate, a.warm, a.seed, a.report, steps=a.steps, compiled=a.compile)
    trainer = Trainer(
        train, held_out, Size(vocabulary=vocabulary_size(a.tokenizer), width=a.width), settings, a.out, report
    )
    million = parameters_million(trainer.network)
    print(f"{len(train)} demonstrations, {million:.2f} M parameters, on {device}", file=sys.stderr, flush=True)

    def stop(_number: int, _frame: object) -> None:
        trainer.asked_to_stop = True

    before = signal.signal(signal.SIGTERM, stop)
    try:
        trainer.run()
    except (NotFinite, Stopped) as e:
        print(e, file=sys.stderr)
        return 1
    finally:
        signal.signal(signal.SIGTERM, before)
        if group.first:
            plot(records, a.out / CURVES)
        group.close()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
