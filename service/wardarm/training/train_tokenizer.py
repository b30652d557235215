"""Train the SentencePiece tokenizer on the grammar's own sentences: `wardarm policy tokenizer --out FILE.model`.

BPE with byte fallback: whatever is said has tokens. `--corpus` adds lines of other text. A tokenizer and the weights
trained with it belong together: their hashes travel in the model's configuration, and `eye` refuses another pair.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import sentencepiece

from wardarm.policy import contract
from wardarm.policy.lexicon import lexicon
from wardarm.training import tasks
from wardarm.training.phrases import LANGUAGES

PIECES = 8000
REFERENCE, REFERENCE_TOKENS = "请把红色方块放到蓝色圆柱上", 9
"""The customer's sentence and what it may cost."""
_SPLITS = ("canonical", "train", "train", "canonical")


def sentences(count: int, seed: int) -> Iterator[str]:
    """Sentences of the grammar, held-out wording left out, and such about things and colours that the arm does not know."""
    rng = np.random.default_rng(seed)
    unknown = {la: lexicon(la).table["unknown"] for la in LANGUAGES}
    for i in range(count):
        scene, task = tasks.draw(rng)
        split = _SPLITS[i % len(_SPLITS)]
        yield tasks.ask(rng, scene, task, split)  # type: ignore[arg-type]
        yield tasks.ask_for_nothing_here(rng, scene, split)  # type: ignore[arg-type]
        a, b = (str(w) for w in rng.choice(unknown["zh"]["objects"], 2))
        color = str(rng.choice([*unknown["zh"]["colors"], "红色", "蓝色", "绿色", "黄色"]))
        yield f"请把{color}{a}放到{color}{b}上"
        yield f"put the {rng.choice(unknown['en']['colors'])} {rng.choice(unknown['en']['objects'])} on the table"


def train(out: Path, count: int, seed: int, pieces: int, corpus: Sequence[Path] = ()) -> int:
    """Write `out` (FILE.model). Returns how many tokens REFERENCE has."""
    lines = list(sentences(count, seed))
    for path in corpus:
        lines += [line for line in path.read_text("utf-8").splitlines() if line.strip()]
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_prefix=str(out.with_suffix("")), vocab_size=pieces, model_type="bpe",
        character_coverage=0.9995, byte_fallback=True, hard_vocab_limit=False, num_threads=2, minloglevel=2,
    )  # fmt: skip
    made = sentencepiece.SentencePieceProcessor(model_file=str(out))
    longest = max(len(made.encode(line)) for line in lines)
    if longest > contract.TOKENS:
        raise ValueError(f"{out}: a sentence of the grammar has {longest} tokens, the model takes {contract.TOKENS}")
    return len(made.encode(REFERENCE))


def parser() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser("wardarm policy tokenizer", description=__doc__)
    p.add_argument("--out", type=Path, required=True, help="FILE.model")
    p.add_argument("--count", type=int, default=50_000, help="scenes; four sentences each")
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--pieces", type=int, default=PIECES)
    p.add_argument("--corpus", type=Path, nargs="*", default=(), help="more text, a sentence a line")
    return p


def main(argv: Sequence[str] | None = None) -> int:
    a = parser().parse_args(argv)
    if a.out.suffix != ".model":
        print(f"--out {a.out}: must end in .model", file=sys.stderr)
        return 2
    a.out.parent.mkdir(parents=True, exist_ok=True)
    tokens = train(a.out, a.count, a.seed, a.pieces, a.corpus)
    size = sentencepiece.SentencePieceProcessor(model_file=str(a.out)).get_piece_size()
    print(f"{a.out}: {size} pieces; {REFERENCE} has {tokens} tokens (at most {REFERENCE_TOKENS})")
    return 0 if tokens <= REFERENCE_TOKENS else 1


if __name__ == "__main__":
    raise SystemExit(main())
