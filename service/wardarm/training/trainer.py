"""The training loop (PyTorch): a budget, a checkpoint to resume from, and stops that explain themselves.

With torchrun every process has all data on its own GPU and draws its own samples; gradients are averaged.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from wardarm.training.dataset import Dataset
from wardarm.training.losses import WEIGHTS, loss
from wardarm.training.model import Policy, Size
from wardarm.training.parallel import Group
from wardarm.training.scores import score
from wardarm.training.watch import Plateaus, Stopped, Watch, colors_unlearnt

CHECKPOINT = "checkpoint.pt"
_BETAS = (0.9, 0.98)
_WEIGHT_DECAY = 0.02
_GRADIENT_NORM = 1.0
_FLOOR = 0.01
"""The learning rate falls along a cosine to this share of its peak at the end of the budget."""
_EMA_LIMIT = 0.998
_SMOOTH = 0.98
_RETRIES_ALLOWED = 20
"""So many steps of a run may be repeated in fp32 because bf16 gave no finite gradient; more means something is wrong."""
_CLOCK_EVERY = 10
_SCORED = 2000
"""Held-out samples of a score on the way: about 140 where only the colour tells."""


class NotFinite(RuntimeError):
    """A gradient was not finite, also in fp32; the text says at which step, which loss part and which parameters."""


@dataclass(frozen=True)
class Settings:
    """`seconds` is the whole budget, over all resumptions; the learning rate follows it. `steps` > 0 ends it earlier, and
    then the learning rate follows the steps."""

    seconds: float  # compiling not counted
    batch: int = 512
    rate: float = 9e-4
    warm_steps: int = 300
    seed: int = 0
    report_s: float = 20.0
    score_s: float = 120.0
    checkpoint_s: float = 60.0
    steps: int = 0
    compiled: bool = False  # worth a minute of compiling on a GPU, where launching kernels is what takes time


@dataclass
class Progress:
    """What a checkpoint carries besides the tensors."""

    step: int = 0
    seen: int = 0
    elapsed_s: float = 0.0
    repeated: int = 0


class Trainer:
    """Trains into `out`. `report` gets one record a time (a dict with `kind`: compiled, train, score, warn or stop)."""

    def __init__(
        self,
        train: Dataset,
        held_out: Dataset | None,
        size: Size,
        settings: Settings,
        out: Path,
        report: Callable[[dict[str, Any]], None],
    ) -> None:
        self.train, self.held_out, self.settings, self.out, self.report = train, held_out, settings, out, report
        self.device = train.device
        self.group = Group()
        self.asked_to_stop = (
            False  # set it from a signal: the step under way is finished, then the checkpoint is written
        )
        self._watch, self._plateaus = Watch(), Plateaus()
        torch.manual_seed(settings.seed)
        if self.device.type == "cuda":
            torch.backends.cuda.matmul.allow_tf32 = True
            torch.backends.cudnn.allow_tf32 = True
        self.network = Policy(size).to(self.device)
        if self.device.type == "cuda":
            self.network = self.network.to(memory_format=torch.channels_last)
        self._forward_loss = torch.compile(self._loss, dynamic=False) if settings.compiled else self._loss
        self.parameters = list(self.network.parameters())
        self.average = [p.detach().clone() for p in self.parameters]
        self.optimizer = torch.optim.AdamW(
            self.parameters,
            lr=settings.rate,
            weight_decay=_WEIGHT_DECAY,
            betas=_BETAS,
            fused=self.device.type == "cuda",
        )
        self.progress = Progress()
        self.draws = torch.Generator(self.device)
        self.draws.manual_seed(settings.seed + 1_000_003 * self.group.rank)
        self._order = torch.empty(0, dtype=torch.long, device=self.device)
        self._smoothed: dict[str, float] = {}
        if (out / CHECKPOINT).exists():
            self._resume(torch.load(out / CHECKPOINT, map_location=self.device, weights_only=True))
        self.group.from_first([*self.network.parameters(), *self.network.buffers()])

    # checkpoints
    def _resume(self, saved: dict[str, Any]) -> None:
        if saved["size"] != _plain(self.network.size):
            raise ValueError(
                f"{self.out / CHECKPOINT}: another network size {saved['size']}; train into an empty folder"
            )
        self.network.load_state_dict(saved["network"])
        self.optimizer.load_state_dict(saved["optimizer"])
        self.average = [t.to(self.device) for t in saved["average"]]
        self.progress = Progress(**saved["progress"])
        if self.group.first:
            self.draws.set_state(saved["draws"].cpu())
        else:
            self.draws.manual_seed(self.settings.seed + 1_000_003 * self.group.rank + self.progress.step)

    def save(self) -> Path:
        """Write the checkpoint, whole or not at all."""
        path = self.out / CHECKPOINT
        partial = path.with_suffix(".partial")
        torch.save(
            {
                "size": _plain(self.network.size),
                "network": self.network.state_dict(),
                "average": self.average,
                "optimizer": self.optimizer.state_dict(),
                "progress": asdict(self.progress),
                "draws": self.draws.get_state(),
                "settings": asdict(self.settings),
                "data": {"samples": len(self.train), "seeds": [list(s) for s in self.train.seeds]},
            },
            partial,
        )
        os.replace(partial, path)
        return path

    # the loop
    def _spent(self) -> float:
        """Share of the budget that is behind, 0..1."""
        s, p = self.settings, self.progress
        return min(1.0, max(p.elapsed_s / s.seconds, p.step / s.steps if s.steps else 0.0))

    def run(self) -> None:
        """Train until the budget is spent. Raises NotFinite or Stopped, with the last good state in the checkpoint."""
        p, s = self.progress, self.settings
        self.network.train()
        if s.compiled:
            self._compile()
        before = p.elapsed_s
        begun = time.monotonic()
        reported = scored = saved = begun
        while self._spent() < 1 and not self.asked_to_stop:
            self._step()
            if p.step % _CLOCK_EVERY and (self.device.type == "cuda" or self.group.size > 1):
                continue  # reading the clock makes sense only once the GPU has caught up
            if self.device.type == "cuda":
                torch.cuda.synchronize(self.device)
            now = time.monotonic()
            p.elapsed_s = self._agreed(before + now - begun)
            if not self.group.first:
                continue
            if now - reported > s.report_s:
                reported = now
                self._report_training(p.seen)
                self._look_whether_it_learns()
                for warning in self._plateaus.look(self._smoothed, self._spent()):
                    self._warn(warning)
            if now - saved > s.checkpoint_s:
                saved = now
                self.save()
            if self.held_out and now - scored > s.score_s:
                scored = now
                self._score()
        if not self.group.first:
            return
        self._report_training(p.seen)
        self.save()
        if self.held_out and not self.asked_to_stop:
            self.report({"kind": "score", "ema": True, **asdict(p), "score": score(self.averaged(), self.held_out)})

    def _compile(self) -> None:
        """One step that changes no weight: the budget, and the learning rate with it, begin once the GPU runs."""
        begun = time.monotonic()
        kept = self.draws.get_state()
        index = torch.arange(min(self.settings.batch, len(self.train)), device=self.device)
        self._gradients(self.train.batch(index, self.draws), bf16=self.device.type == "cuda")
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        self.draws.set_state(kept)
        took = time.monotonic() - begun
        self.report({"kind": "compiled", **asdict(self.progress), "parts": {}, "took_s": took})

    def _score(self) -> None:
        assert self.held_out is not None
        found = score(self.network, self.held_out, _SCORED)
        self.report({"kind": "score", "ema": False, **asdict(self.progress), "score": found})
        warning = colors_unlearnt(found, self._spent())
        if warning:
            self._warn(warning)

    def _warn(self, text: str) -> None:
        self.report({"kind": "warn", **asdict(self.progress), "parts": {}, "reason": text})

    def _agreed(self, elapsed_s: float) -> float:
        """The first process's clock counts: the budget ends for all at the same step."""
        if self.group.size == 1:
            return elapsed_s
        clock = torch.tensor([elapsed_s], device=self.device, dtype=torch.float64)
        self.group.from_first([clock])
        return float(clock)

    def _look_whether_it_learns(self) -> None:
        try:
            self._watch.look(sum(WEIGHTS[k] * v for k, v in self._smoothed.items()), self.progress.step, self._spent())
        except Stopped as e:
            self.report({"kind": "stop", **asdict(self.progress), "parts": dict(self._smoothed), "reason": str(e)})
            self.save()
            raise

    def _report_training(self, seen: int) -> None:
        self.report({"kind": "train", **asdict(self.progress), "rate": self._rate(), "parts": dict(self._smoothed)})

    def averaged(self) -> Policy:
        """The network with the moving average of its weights: what is exported."""
        network: Policy = Policy(self.network.size).to(self.device)
        network.load_state_dict(self.network.state_dict())
        with torch.no_grad():
            for parameter, value in zip(network.parameters(), self.average, strict=True):
                parameter.copy_(value)
        return network

    def _rate(self) -> float:
        s, done = self.settings, self._spent()
        warm = min(1.0, (self.progress.step + 1) / s.warm_steps)
        return s.rate * warm * (_FLOOR + (1 - _FLOOR) * 0.5 * (1 + math.cos(math.pi * done)))

    def _next_index(self) -> Tensor:
        size = min(self.settings.batch, len(self.train))
        if len(self._order) < size:
            self._order = torch.randperm(len(self.train), device=self.device, generator=self.draws)
        index, self._order = self._order[:size], self._order[size:]
        return index

    def _loss(self, batch: dict[str, Tensor], bf16: bool = True) -> tuple[Tensor, dict[str, Tensor]]:
        with torch.autocast(self.device.type, torch.bfloat16, enabled=bf16):
            out = self.network(batch["image"], batch["ids"], batch["mask"], batch["state"])
        return loss(self.network, out, batch)

    def _gradients(self, batch: dict[str, Tensor], bf16: bool) -> tuple[Tensor, dict[str, Tensor]]:
        """Fill in the gradients, clipped. Returns their norm and the loss parts."""
        self.optimizer.zero_grad(set_to_none=True)
        total, parts = self._forward_loss(batch) if bf16 else self._loss(batch, False)
        total.backward()
        self.group.average([p.grad for p in self.parameters if p.grad is not None])
        return torch.nn.utils.clip_grad_norm_(self.parameters, _GRADIENT_NORM), parts

    def _step(self) -> None:
        p = self.progress
        for group in self.optimizer.param_groups:
            group["lr"] = self._rate()
        index = self._next_index()
        batch = self.train.batch(index, self.draws)
        bf16 = self.device.type == "cuda"
        norm, parts = self._gradients(batch, bf16)
        if not bool(torch.isfinite(norm)):
            p.repeated += 1
            norm, parts = self._gradients(batch, False)
            if not bool(torch.isfinite(norm)) or p.repeated > _RETRIES_ALLOWED:
                self._stop(index, parts)
        self.optimizer.step()
        keep = min(_EMA_LIMIT, (p.step + 1) / (p.step + 20))
        torch._foreach_lerp_(self.average, [q.detach() for q in self.parameters], 1 - keep)
        p.step, p.seen = p.step + 1, p.seen + len(index) * self.group.size
        if p.step % _CLOCK_EVERY == 0 or not self._smoothed:
            for k, v in parts.items():
                old = self._smoothed.get(k, float(v))
                self._smoothed[k] = _SMOOTH**_CLOCK_EVERY * old + (1 - _SMOOTH**_CLOCK_EVERY) * float(v)

    def _stop(self, index: Tensor, parts: dict[str, Tensor]) -> None:
        """Keep the last good state, say what was not finite, and end."""
        path = self.save() if self.group.first else self.out / CHECKPOINT
        bad = [
            n
            for n, q in self.network.named_parameters()
            if q.grad is not None and not bool(torch.isfinite(q.grad).all())
        ]
        cause = {
            "kind": "stop",
            **asdict(self.progress),
            "parts": {k: float(v) for k, v in parts.items()},
            "parameters_without_finite_gradient": bad,
            "samples": index[:16].tolist(),
        }
        self.report(cause)
        raise NotFinite(
            f"step {self.progress.step}: no finite gradient ({self.progress.repeated} steps repeated in fp32, allowed "
            f"{_RETRIES_ALLOWED}); loss parts {cause['parts']}; {len(bad)} parameters, first {bad[:3]}. {path} holds the last "
            "good state: look at these samples, lower --rate, then run the same command to resume"
        )


def _plain(size: Size) -> dict[str, Any]:
    return {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(size).items()}


def restore(path: Path) -> tuple[Policy, dict[str, Any]]:
    """The averaged network of a checkpoint, on the CPU, ready to infer, and what else the checkpoint carries."""
    saved = torch.load(path, map_location="cpu", weights_only=True)
    size: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in saved["size"].items()}
    network = Policy(Size(**size))
    network.load_state_dict(saved["network"])
    with torch.no_grad():
        for parameter, value in zip(network.parameters(), saved["average"], strict=True):
            parameter.copy_(value)
    return network.eval(), saved
