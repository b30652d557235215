"""A spoken or typed sentence -> steps that the arm can carry out, or the reason why not, in Chinese and English.

The gate in front of the model: a sentence becomes steps only if every word in the clauses that command something is
known. Small talk around a command is dropped, anything unclear is asked back, words that stop win anywhere. The words
are data (words/*.toml); `read` costs about a millisecond.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

import opencc
import sentencepiece

from wardarm.policy.clause import Clause, Mention, clauses
from wardarm.policy.contract import TOKENS
from wardarm.policy.lexicon import Language, Lexicon, Word, lexicon
from wardarm.policy.refusal import Refusal, refuse
from wardarm.shm.layouts import INSTRUCTION_BYTES, StepKind

_CJK = re.compile(r"[\u3400-\u9fff]")
_POLITE = re.compile(r"^(?:请|麻烦|please\b)|(?:吧|please)$")
_KINDS = {
    "fetch": StepKind.FETCH,
    "weak": StepKind.FETCH,
    "put": StepKind.PUT,
    "pour": StepKind.POUR,
    "put_back": StepKind.PUT_BACK,
    "hand_over": StepKind.HAND_OVER,
    "park": StepKind.PARK,
    "home": StepKind.HOME,
    "set_down": StepKind.SET_DOWN_HERE,
    "release": StepKind.RELEASE,
}
# What needs no object named: it is about what the arm has or had.
_BARE = (StepKind.POUR, StepKind.PUT_BACK, StepKind.SET_DOWN_HERE, StepKind.RELEASE)


class Pace(StrEnum):
    """How fast the movement under way shall go on."""

    SLOWER = "slower"
    FASTER = "faster"
    NORMAL = "normal"


@dataclass(frozen=True)
class ParsedStep:
    """One step. `object`, `color`, `place`, `target` are the tables' names or ''; `text` goes to the model."""

    kind: StepKind
    object: str = ""
    color: str = ""
    place: str = ""
    target: str = ""
    text: str = ""
    language: Language = "en"
    liquid: bool = False  # hot, full or just poured: the gentler limit profile


@dataclass(frozen=True)
class Reading:
    """`steps` is empty iff `refusal` is set. `slow`: the speaker asked for less speed. `tokens`: of the sentence. `pace`:
    nothing was said but how fast what is under way shall go on (the refusal says so)."""

    language: Language
    tokens: int
    steps: tuple[ParsedStep, ...] = ()
    refusal: Refusal | None = None
    read_back: str = ""
    slow: bool = False
    pace: Pace | None = None


class Instructions:
    """`tokenizer`: the model's SentencePiece file; without one, tokens are counted generously (one a character)."""

    def __init__(self, tokenizer: Path | None = None) -> None:
        self._pieces = sentencepiece.SentencePieceProcessor(model_file=str(tokenizer)) if tokenizer else None
        self._simplify = opencc.OpenCC("t2s")
        zh, en = lexicon("zh"), lexicon("en")
        self.objects = sorted(en.table["objects"])
        self.colors = sorted(en.table["colors"])
        assert sorted(zh.table["objects"]) == self.objects
        assert sorted(zh.table["colors"]) == self.colors
        self.read("把杯子拿给我")  # OpenCC loads its tables at first use

    def tokens(self, text: str) -> int:
        return len(self._pieces.encode(text)) if self._pieces else len(text)

    def read(self, sentence: str) -> Reading:
        """Never raises; a sentence that is no command gives a Reading with a refusal."""
        text = unicodedata.normalize("NFKC", sentence).replace("’", "'").strip().lower()
        language: Language = "zh" if _CJK.search(text) else "en"
        if language == "zh":
            text = self._simplify.convert(text)
        tokens = self.tokens(text)
        words = lexicon(language).words(text)
        stopping = any(w.category == "stop" for w in words) or _bare(text) in lexicon(language).table["stop_alone"]
        if stopping:
            return Reading(language, tokens, refusal=refuse("STOP_REQUESTED", language))
        if not any(c.isalnum() for c in text):
            return Reading(language, tokens, refusal=refuse("EMPTY", language))
        if pace := _pace(text, language):
            return Reading(language, tokens, refusal=refuse("PACE_REQUESTED", language), pace=pace)
        if tokens > TOKENS:
            return Reading(
                language, tokens, refusal=refuse("INSTRUCTION_TOO_LONG", language, tokens=tokens, limit=TOKENS)
            )
        outcome = self._steps(words, language)
        if isinstance(outcome, Refusal):
            return Reading(language, tokens, refusal=outcome)
        slow = any(w.category == "slow" for w in words)
        return Reading(language, tokens, tuple(outcome), read_back=_read_back(outcome, language), slow=slow)

    def _steps(self, words: Sequence[Word], language: Language) -> list[ParsedStep] | Refusal:
        found = clauses(words)
        commands = [c for c in found if c.verb or c.mentions]
        if not commands:
            return _no_command(words, language)
        for word in words:
            if word.category == "negation":
                return refuse("NEGATED", language, word=word.text)
            if word.category == "not_now":
                return refuse("NOT_A_REQUEST", language, word=word.text)
        steps: list[ParsedStep] = []
        last: Mention | None = None
        poured = False
        for clause in commands:
            step = _step(clause, last, steps, lexicon(language))
            if isinstance(step, Refusal):
                return step
            poured |= step.kind is StepKind.POUR
            step = replace(step, liquid=step.liquid or poured)
            last = next((m for m in clause.mentions if m.kind), None) or last
            if steps and _same(steps[-1], step):  # "pick up the cup and give it to me" is one step
                continue
            if len(step.text.encode()) >= INSTRUCTION_BYTES or self.tokens(step.text) > TOKENS:
                return refuse("INSTRUCTION_TOO_LONG", language, tokens=self.tokens(step.text), limit=TOKENS)
            steps.append(step)
        return steps


def _bare(text: str) -> str:
    return text.strip(" 。，.,!！?？~～…")


def _pace(text: str, language: Language) -> Pace | None:
    """Of a sentence that says nothing else but how fast, a polite word aside."""
    said = _POLITE.sub("", _bare(text)).strip(" ,，")
    for pace, entries in lexicon(language).table["pace_alone"].items():
        if said in entries:
            return Pace(pace)
    return None


def _no_command(words: Sequence[Word], language: Language) -> Refusal:
    for category, reason in (("unknown_objects", "UNKNOWN_OBJECT"), ("unknown_colors", "UNKNOWN_COLOR")):
        named = next((w for w in words if w.category == category), None)
        if named and any(w.category == "verbs" for w in words):
            return refuse(reason, language, word=named.text)
    return refuse("UNRELATED", language)


def _same(before: ParsedStep, step: ParsedStep) -> bool:
    return before.kind is step.kind and (before.object, before.color, before.place) == (
        step.object,
        step.color,
        step.place,
    )


def _step(clause: Clause, last: Mention | None, steps: Sequence[ParsedStep], lex: Lexicon) -> ParsedStep | Refusal:
    """One clause with a verb or a mention."""
    language = lex.language
    unknown = clause.unknown(lex)
    if unknown is not None:
        return unknown
    if not clause.verb:
        return refuse("NO_VERB", language, thing=clause.mentions[0].said)
    if clause.drink:
        return refuse("AMBIGUOUS_DRINK", language, word=clause.drink)
    if clause.choice:
        return refuse("AMBIGUOUS", language, word=clause.choice)
    kind = _KINDS["hand_over" if clause.hand and clause.verb in ("fetch", "weak", "put") else clause.verb]
    if kind in (StepKind.PARK, StepKind.HOME):
        if clause.mentions:
            return refuse("AMBIGUOUS", language, word=clause.mentions[0].said)
        return ParsedStep(kind, text=lex.trained["sentences"][clause.verb], language=language)
    mentions: list[Mention] = []
    for mention in clause.mentions:
        if not mention.kind:
            if last is None and kind not in _BARE:
                return refuse("AMBIGUOUS", language, word=mention.said)
            mention = last or mention
        mentions.append(mention)
    if kind is StepKind.PUT:
        return _put(mentions, clause, last, lex)
    named = [m for m in mentions if m.kind]
    if kind is StepKind.POUR:
        named = named[-1:]  # "pour the bottle's water into the cup": the vessel is said last
    if len(named) > 1:
        return refuse("AMBIGUOUS", language, word=f"{named[0].said} / {named[1].said}")
    thing = named[0] if named else last
    if thing is None and kind not in _BARE:
        return refuse("NO_OBJECT", language)
    template = {
        StepKind.FETCH: "fetch",
        StepKind.HAND_OVER: "hand_over",
        StepKind.PUT_BACK: "put_back",
        StepKind.SET_DOWN_HERE: "set_down",
        StepKind.RELEASE: "release",
    }
    name = template.get(kind) or ("pour" if named else "pour_bare")
    text = lex.trained["sentences"][name].format(r=thing.reference(lex) if thing else "")
    return ParsedStep(kind, *_what(thing), text=text, language=language, liquid=clause.care)


def _put(mentions: Sequence[Mention], clause: Clause, last: Mention | None, lex: Lexicon) -> ParsedStep | Refusal:
    if len(mentions) == 1 and clause.beside and last is not None and not clause.moved_first:
        mentions = [last, *mentions]
    if not mentions:
        return refuse("NO_OBJECT", lex.language)
    if len(mentions) == 1:
        return refuse("NO_TARGET", lex.language, thing=mentions[0].said)
    if len(mentions) > 2 or not all(m.kind for m in mentions):
        return refuse("AMBIGUOUS", lex.language, word=" / ".join(m.said for m in mentions))
    if not clause.beside:
        return refuse("NO_TARGET", lex.language, thing=mentions[0].said)
    moved, target = mentions
    text = lex.trained["sentences"]["put"].format(r=moved.reference(lex), s=target.reference(lex))
    return ParsedStep(
        StepKind.PUT, *_what(moved), target=target.kind, text=text, language=lex.language, liquid=clause.care
    )


def _what(mention: Mention | None) -> tuple[str, str, str]:
    return (mention.kind, mention.color, mention.place) if mention else ("", "", "")


_SAID = {
    "zh": {
        StepKind.PARK: "回到停放位置", StepKind.HOME: "回到原点", StepKind.SET_DOWN_HERE: "把东西放下", StepKind.PUT_BACK: "放回原位",
        StepKind.RELEASE: "松开手指",
    },
    "en": {
        StepKind.PARK: "go to the parking position", StepKind.HOME: "go to the home position", StepKind.SET_DOWN_HERE: "put it down here",
        StepKind.PUT_BACK: "put it back", StepKind.RELEASE: "open the fingers",
    },
}  # fmt: skip


def _read_back(steps: Sequence[ParsedStep], language: Language) -> str:
    """What the arm will do, as a question to the speaker."""
    said = [_SAID[language].get(s.kind) or s.text for s in steps]
    if language == "zh":
        return "我来" + "，然后".join(t.removeprefix("请").replace("给我", "给您") for t in said) + "，对吗？"
    said = [re.sub(r"\bme\b", "you", t.removeprefix("please ")) for t in said]
    return "I will " + ", then ".join(said) + ". Is that right?"
