"""How people ask for more than a fetch, Chinese and English: whole templates, some held out for testing.

`{r}`: the piece that is moved, or the vessel that is poured into; `{s}`: the piece beside which something goes. Openers
and closers come from phrases.PHRASES. What the instruction gate says to the model is in policy/words/*.toml.
"""

from __future__ import annotations

from typing import Literal

from wardarm.training.phrases import Language

TASK_PHRASES: dict[tuple[Language, Literal["train", "held_out"]], dict[str, tuple[str, ...]]] = {
    ("zh", "train"): {
        "put": (
            "把{r}放到{s}旁边", "把{r}放在{s}边上", "把{r}移到{s}旁边", "将{r}摆到{s}旁边", "把{r}挪到{s}那边去",
            "{r}放到{s}旁边", "把{r}搁在{s}旁边", "把{r}放{s}旁边就行", "把{r}放在{s}旁边",
            "{r}放在{s}边上", "将{r}放到{s}边上", "把{r}挪到{s}边上", "把{r}摆在{s}旁边", "把{r}放到{s}那里", "把{r}搬到{s}旁边",
        ),
        "pour": (
            "往{r}里倒水", "给{r}倒点水", "把水倒进{r}里", "往{r}里加点水", "给{r}倒上水", "向{r}里倒水", "把瓶子里的水倒进{r}", "给{r}加水",
            "往{r}里倒点水", "{r}里倒点水", "把水倒到{r}里", "给{r}里倒水", "往{r}里倒一些水", "帮{r}倒水",
        ),
        "pour_bare": ("倒水", "倒点水", "给我倒水", "加点水", "倒点水喝", "倒上水", "请倒水", "倒一点水", "帮我倒水", "倒些水", "给我倒点水"),
        "put_back": (
            "放回", "放回去", "放回原处", "把它放回去", "放回原位", "收回去放好", "拿回去放好", "把它放回原位", "送回原位", "放回原来的位置", "还回去",
            "把那个放回去",
        ),
    },
    ("zh", "held_out"): {
        "put": ("让{r}挨着{s}放", "{s}旁边放上{r}", "把{r}搬到{s}边上去"),
        "pour": ("{r}里给我添点水", "把{r}倒满水", "水倒到{r}里面吧"),
        "pour_bare": ("添点水", "来点水倒上", "倒一些水"),
        "put_back": ("物归原位", "从哪儿拿的放回哪儿", "送回原来的地方"),
    },
    ("en", "train"): {
        "put": (
            "put {r} next to {s}", "put {r} beside {s}", "place {r} next to {s}", "move {r} over to {s}", "set {r} beside {s}",
            "place {r} by {s}", "put {r} right next to {s}", "move {r} next to {s}", "set {r} next to {s}", "put {r} by {s}",
            "place {r} beside {s}", "move {r} beside {s}", "set {r} down beside {s}", "slide {r} next to {s}", "shift {r} next to {s}",
        ),
        "pour": (
            "pour water into {r}", "fill {r} with water", "pour some water into {r}", "put some water in {r}", "pour me water into {r}",
            "pour water in {r}", "refill {r} with water", "fill up {r} with water", "pour some water in {r}", "refill {r}",
        ),
        "pour_bare": (
            "pour water", "pour some water", "pour me some water", "pour the water", "now pour the water", "pour me water",
            "pour some water for me", "pour water for me",
        ),
        "put_back": (
            "put it back", "put it back where it was", "return it", "take it back", "put it back on the mat", "put that back",
            "put this back", "place it back", "set it back", "return that", "take that back",
        ),
    },
    ("en", "held_out"): {
        "put": ("{r} goes next to {s}", "line {r} up with {s}", "stand {r} close to {s}"),
        "pour": ("top up {r}", "let some water into {r}", "{r} needs water"),
        "pour_bare": ("top it up", "give it some water", "water in please"),
        "put_back": ("return it to its place", "bring it back to where it belongs", "back to its place with it"),
    },
}  # fmt: skip
