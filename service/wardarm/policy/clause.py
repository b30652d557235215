"""Words of a sentence -> clauses with one verb and the objects it speaks of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from wardarm.policy.lexicon import OTHER, Language, Lexicon, Word
from wardarm.policy.refusal import Refusal, refuse

# Of several verbs in one clause the first in this order says what it is ("pick it up and put it back").
_ORDER = ("put_back", "set_down", "release", "pour", "put", "fetch", "park", "home", "weak")
# "pick it up and put it there" and "put the cup back" are one step: the later verb says which.
_TAKES_OVER = {("fetch", "put"), ("fetch", "put_back"), ("fetch", "set_down"), ("put", "put_back")}
_FIRST_PERSON = ("i", "my", "我", "我们")


@dataclass(frozen=True)
class Mention:
    """Something spoken of. `kind` is '' for a pronoun; the spoken words are kept for the model."""

    kind: str
    text: str
    color: str = ""
    place: str = ""
    color_text: str = ""
    place_text: str = ""

    @property
    def said(self) -> str:
        """Roughly as spoken, for questions back."""
        gap = " " if self.text.isascii() else ""
        return gap.join(t for t in (self.color_text, self.text) if t)

    def reference(self, lex: Lexicon) -> str:
        """As the model was taught to hear it: 桌角的蓝色水杯, "the blue cup on the left"."""
        noun = lex.as_trained("objects", self.kind, self.text)
        color = lex.as_trained("colors", self.color, self.color_text) if self.color else ""
        place = lex.as_trained("places", self.place, self.place_text) if self.place else ""
        if lex.language == "zh":
            return (f"{place}的" if place else "") + color + noun
        words = f"{color} {noun}" if color else noun
        if place.endswith("most"):
            return f"the {place} {words}"
        return f"the {words} {place}" if place else f"the {words}"


@dataclass
class Clause:
    """`verb`: a row of the verbs' table or ''. `left_over`: words in no table. `moved_first`: an object was named before
    the verb. `first_person`: the speaker speaks of himself."""

    verb: str = ""
    mentions: list[Mention] = field(default_factory=list)
    left_over: list[str] = field(default_factory=list)
    unknown_objects: list[str] = field(default_factory=list)
    unknown_colors: list[str] = field(default_factory=list)
    beside: bool = False
    hand: bool = False
    care: bool = False
    moved_first: bool = False
    first_person: bool = False
    drink: str = ""
    choice: str = ""

    def unknown(self, lex: Lexicon) -> Refusal | None:
        """Why this clause cannot be trusted as a command, if something in it is not known."""
        language: Language = lex.language
        if self.unknown_objects:
            return refuse("UNKNOWN_OBJECT", language, word=self.unknown_objects[0])
        if self.unknown_colors:
            return refuse("UNKNOWN_COLOR", language, word=self.unknown_colors[0])
        if self.left_over:
            if self.verb and not self.mentions and self.verb not in ("park", "home"):
                return refuse("UNKNOWN_OBJECT", language, word=self.left_over[0])
            if not self.verb:
                return refuse("NO_VERB", language, thing=self.mentions[0].said)
            return refuse("NOT_UNDERSTOOD", language, word=self.left_over[0])
        return None


def clauses(words: Sequence[Word]) -> list[Clause]:
    """Clauses in order, small talk left out. A topic ("the blue cup, bring it to me") joins the clause that needs it."""
    parts: list[list[Word]] = [[]]
    for word in words:
        if word.category == "split":
            parts.append([])
        else:
            parts[-1].append(word)
    found = [c for part in parts for piece in _pieces(part) if _speaks(c := _clause(piece))]
    if any(c.verb and c.mentions for c in found):  # "I'd like a drink, bring me the cup"
        found = [c for c in found if not (c.verb == "weak" and c.drink and not c.mentions)]
    return _joined(found)


def _speaks(clause: Clause) -> bool:
    """False for small talk: no verb and nothing named, or only 'I want' with something that is no object."""
    if clause.verb == "weak" and not (
        clause.mentions or clause.unknown_objects or clause.unknown_colors or clause.drink
    ):
        return False
    if clause.verb in ("park", "home") and (clause.left_over or clause.first_person):
        return False  # "I want to go home" is not about the arm
    return bool(clause.verb or any(m.kind for m in clause.mentions) or clause.unknown_objects)


def _pieces(part: Sequence[Word]) -> list[Sequence[Word]]:
    """Several verbs without a pause between them ("拿杯子倒水放回"): cut before each verb of a new kind.

    'I want', 'give me' and the like never begin a piece, and 'take it and put it there' is one placing.
    """
    cuts, current = [0], ""
    named_since = False
    for at, word in enumerate(part):
        if word.category == "objects" or (word.category == "words" and word.value in ("pronoun", "water")):
            named_since = True
        if word.category != "verbs" or word.value == "weak":
            continue
        takes_over = (current, word.value) in _TAKES_OVER
        ended = current == "pour" or (named_since and not takes_over)  # pouring needs no object of its own
        if current and word.value != current and ended:
            cuts.append(_start(part, at))
        current, named_since = word.value, False
    return [part[a:b] for a, b in zip(cuts, [*cuts[1:], len(part)], strict=True)]


def _start(part: Sequence[Word], at: int) -> int:
    """Where the piece of the verb at `at` begins: 把 or 将 and what follows it belong to the verb behind them."""
    for back in range(at - 1, 0, -1):
        if part[back].category == "verbs":
            break
        if part[back].text in ("把", "将"):
            return back
    return at


def _clause(words: Sequence[Word]) -> Clause:
    clause = Clause()
    verbs: list[str] = []
    color = place = Word("", "", "")
    pointed = ""  # a "that" or 那个 which may belong to a noun behind it
    for word in words:
        clause.first_person |= word.text in _FIRST_PERSON or word.value == "weak"
        match word.category, word.value:
            case "verbs", value:
                if value != "weak" and clause.mentions and not [v for v in verbs if v != "weak"]:
                    clause.moved_first = True
                verbs.append(value)
            case "objects", kind:
                clause.mentions.append(Mention(kind, word.text, color.value, place.value, color.text, place.text))
                color = place = Word("", "", "")
                pointed = ""
            case "colors", _:
                if color.value and color.value != word.value:
                    clause.choice = f"{color.text} / {word.text}"
                color = word
            case "places", _:
                place = _placed(clause, word)
            case "words", "pronoun":
                pointed = pointed or word.text
            case "words", "hand":
                clause.hand = True
            case "words", "beside":
                clause.beside = True
            case "words", "drink":
                clause.drink = word.text
            case "words", "or":
                clause.choice = word.text
            case "words", "with":
                clause.choice = clause.choice or (word.text if clause.mentions else "")
            case "care", _:
                clause.care = True
            case "unknown_objects", _:
                clause.unknown_objects.append(word.text)
                color = place = Word("", "", "")
            case "unknown_colors", _:
                clause.unknown_colors.append(word.text)
            case category, _ if category == OTHER:
                clause.left_over.append(word.text)
            case _:  # filler, water, into, slow, polite_not, negation, not_now: judged elsewhere or harmless
                pass
        if pointed and word.category == "verbs" and word.value != "weak":
            clause.mentions.append(Mention("", pointed))
            pointed = ""
    if pointed or ((color.value or place.value) and verbs):
        clause.mentions.append(Mention("", pointed or color.text or place.text))
    if "pour" in verbs:
        clause.drink = ""  # "pour me a cup of water" is what it says
    clause.verb = next((v for v in _ORDER if v in verbs), "")
    return clause


def _placed(clause: Clause, word: Word) -> Word:
    """English says the place behind the noun: it goes to a mention without one; else it is kept for the noun to come."""
    last = clause.mentions[-1] if clause.mentions else None
    behind = word.text.isascii() and not word.text.endswith("most")
    if not behind or last is None or not last.kind or last.place:
        return word
    clause.mentions[-1] = replace(last, place=word.value, place_text=word.text)
    return Word("", "", "")


def _joined(found: Sequence[Clause]) -> list[Clause]:
    out: list[Clause] = []
    for clause in found:
        before = out[-1] if out else None
        if before is not None and not before.verb and clause.verb and not before.left_over and _lacks(clause):
            clause.mentions = before.mentions  # "the blue cup, bring it to me"
            clause.unknown_objects += before.unknown_objects
            out[-1] = clause
        elif before is not None and before.verb in ("fetch", "weak") and not before.mentions and not clause.verb:
            before.mentions = clause.mentions  # "get me that ... the blue cup"
            before.left_over += clause.left_over
        else:
            out.append(clause)
    return out


def _lacks(clause: Clause) -> bool:
    return not any(m.kind for m in clause.mentions) and not clause.unknown_objects
