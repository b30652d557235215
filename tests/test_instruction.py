"""Sentences: what they mean, word for word as the model gets it, and what is never taken for a command."""

from __future__ import annotations

import time
import zlib
from pathlib import Path

import pytest
from wardarm.policy.instruction import Instructions, ParsedStep
from wardarm.training.phrases import ABSENT_THINGS, PHRASES

TOKENIZER = Path(__file__).parents[1] / "model_repository" / "groot_n15" / "1" / "tokenizer.model"


@pytest.fixture(scope="module")
def gate() -> Instructions:
    return Instructions(TOKENIZER if TOKENIZER.is_file() else None)


def short(steps: tuple[ParsedStep, ...]) -> list[str]:
    """'fetch cup blue corner: text for the model', one a step."""
    return [
        " ".join(t for t in (s.kind.name.lower(), s.object, s.color, s.place, s.target and f"> {s.target}") if t)
        + f": {s.text}"
        for s in steps
    ]


ONE_STEP = {
    # Chinese: bring
    "把桌角的蓝色水杯拿给我": "fetch cup blue corner: 把桌角的蓝色水杯拿给我",
    "请帮我把红色的碗拿过来": "fetch bowl red: 把红色碗拿给我",
    "呃…那个…帮我拿一下勺子": "fetch spoon: 把勺子拿给我",
    "我想要绿瓶子": "fetch bottle green: 把绿瓶子拿给我",
    "请把白色的药瓶递给我": "fetch bottle white: 把白色药瓶拿给我",
    "麻烦递一下左边的杯子": "fetch cup left: 把左边的杯子拿给我",
    "能把最右边的碗给我吗": "fetch bowl right: 把最右边的碗拿给我",
    "护士，请把离机械臂最近的杯子拿来": "fetch cup near: 把离机械臂最近的杯子拿给我",
    "拿汤勺": "fetch spoon: 把汤勺拿给我",
    "我要紫色的调羹，谢谢": "fetch spoon purple: 把紫色调羹拿给我",
    "我口渴了，给我那个蓝色的杯子好吗": "fetch cup blue: 把蓝色杯子拿给我",
    "可以把蓝杯子拿过来吗": "fetch cup blue: 把蓝杯子拿给我",
    "能不能把最前面的瓶子拿给我": "fetch bottle far: 把最前面的瓶子拿给我",
    "那个蓝色的杯子，拿给我": "fetch cup blue: 把蓝色杯子拿给我",
    "帮我拿一下，那个黄色的碗": "fetch bowl yellow: 把黄色碗拿给我",
    "今天好热，把水杯端过来吧": "fetch cup: 把水杯拿给我",
    "不好意思，麻烦你取一下角落里的瓶子": "fetch bottle corner: 把桌角的瓶子拿给我",
    "把马克杯拿给我": "fetch cup: 把杯子拿给我",
    "把深蓝色的玻璃杯拿给我": "fetch cup blue: 把蓝色杯子拿给我",
    "幫我把紅色的湯勺拿過來": "fetch spoon red: 把红色汤勺拿给我",  # traditional characters
    "請把藍色杯子遞給我": "fetch cup blue: 把蓝色杯子拿给我",
    "把　蓝色　杯子　拿给我": "fetch cup blue: 把蓝色杯子拿给我",  # wide spaces
    "慢一点，把那只碗拿过来": "fetch bowl: 把碗拿给我",
    # Chinese: into the hand, beside, pour, back, here, parking
    "把杯子递到我手里": "hand_over cup: 请把杯子递给我",
    "把勺子放到我手上": "hand_over spoon: 请把勺子递给我",
    "请把红色的杯子放到蓝色的碗旁边": "put cup red > bowl: 把红色杯子放到蓝色碗旁边",
    "把勺子挪到碗边上": "put spoon > bowl: 把勺子放到碗旁边",
    "将左边的瓶子移到杯子旁边": "put bottle left > cup: 把左边的瓶子放到杯子旁边",
    "拿起杯子放到碗旁边": "put cup > bowl: 把杯子放到碗旁边",
    "往蓝色的杯子里倒水": "pour cup blue: 往蓝色杯子里倒水",
    "给碗倒点水": "pour bowl: 往碗里倒水",
    "请倒水到杯子里": "pour cup: 往杯子里倒水",
    "帮我倒杯水": "pour: 倒水",
    "倒水": "pour: 倒水",
    "放回": "put_back: 放回",
    "把它放回原位": "put_back: 放回",
    "把杯子放回去": "put_back cup: 放回",
    "请放回桌上": "put_back: 放回",
    "把杯子归位": "put_back cup: 放回",
    "放在这里": "set_down_here: 放下",
    "放下杯子": "set_down_here cup: 放下",
    "松开": "release: 松开",
    "请松手": "release: 松开",
    "放开我": "release: 松开",
    "回到停放位置": "park: 回到停放位置",
    "机械臂收起来": "park: 回到停放位置",
    # English
    "I'm thirsty, get me the blue cup": "fetch cup blue: bring me the blue cup",
    "bring me the cup": "fetch cup: bring me the cup",
    "Please hand me the red bowl.": "fetch bowl red: bring me the red bowl",
    "could you get me the cup at the corner of the table": "fetch cup corner: bring me the cup at the corner of the table",
    "pass me the leftmost spoon please": "fetch spoon left: bring me the leftmost spoon",
    "I want the bottle on the right": "fetch bottle right: bring me the bottle on the right",
    "um, could you grab that purple mug for me": "fetch cup purple: bring me the purple mug",
    "can you pick up the glass and give it to me": "fetch cup: bring me the glass",
    "I would like the soup spoon, thanks": "fetch spoon: bring me the soup spoon",
    "the green bottle, bring it over": "fetch bottle green: bring me the green bottle",
    "I don't mind. Fetch me the cup nearest to the robot": None,
    "put the cup into my hand": "hand_over cup: please hand me the cup",
    "put the red cup next to the blue bowl": "put cup red > bowl: put the red cup next to the blue bowl",
    "move the spoon beside the cup": "put spoon > cup: put the spoon next to the cup",
    "pour water into the white cup": "pour cup white: pour water into the white cup",
    "fill the cup with water": "pour cup: pour water into the cup",
    "please pour some water": "pour: pour water",
    "put it back": "put_back: put it back",
    "put it down here": "set_down_here: put it down here",
    "put it down": "set_down_here: put it down here",
    "release it": "release: release it",
    "please let go of it": "release: release it",
    "open your hand": "release: release it",
    "go to the parking position": "park: go to the parking position",
    "please park": "park: go to the parking position",
}  # fmt: skip


@pytest.mark.parametrize("sentence", [s for s, meaning in ONE_STEP.items() if meaning])
def test_a_sentence_means_one_step(gate: Instructions, sentence: str) -> None:
    reading = gate.read(sentence)
    assert short(reading.steps) == [ONE_STEP[sentence]], reading.refusal


SEVERAL_STEPS = {
    "拿杯子→倒水→放回": ["fetch cup: 把杯子拿给我", "pour cup: 倒水", "put_back cup: 放回"],
    "拿蓝色的杯子，然后倒水，最后放回去": ["fetch cup blue: 把蓝色杯子拿给我", "pour cup blue: 倒水", "put_back cup blue: 放回"],
    "拿杯子倒水放回": ["fetch cup: 把杯子拿给我", "pour cup: 倒水", "put_back cup: 放回"],
    "先把红色的碗拿给我，再把它放到杯子旁边": ["fetch bowl red: 把红色碗拿给我", "put bowl red > cup: 把红色碗放到杯子旁边"],
    "把杯子拿给我，再把勺子拿给我": ["fetch cup: 把杯子拿给我", "fetch spoon: 把勺子拿给我"],
    "get the cup, then pour water, then put it back": [
        "fetch cup: bring me the cup", "pour cup: pour water", "put_back cup: put it back",
    ],
    "bring me the blue mug and put it next to the bowl": [
        "fetch cup blue: bring me the blue mug", "put cup blue > bowl: put the blue mug next to the bowl",
    ],
    "fetch the spoon. Return it to its place.": ["fetch spoon: bring me the spoon", "put_back spoon: put it back"],
}  # fmt: skip


@pytest.mark.parametrize("sentence", SEVERAL_STEPS)
def test_several_steps_are_split_and_pronouns_resolved(gate: Instructions, sentence: str) -> None:
    reading = gate.read(sentence)
    assert short(reading.steps) == SEVERAL_STEPS[sentence], reading.refusal


REFUSED = {
    "": "EMPTY",
    "  。！": "EMPTY",
    "蓝色的杯子": "NO_VERB",
    "the blue cup": "NO_VERB",
    "帮我拿一下": "NO_OBJECT",
    "get me": "NO_OBJECT",
    "把杯子放到旁边": "NO_OBJECT",  # beside what?
    "put the cup next to": "NO_OBJECT",
    "把它拿给我": "AMBIGUOUS",
    "bring me that": "AMBIGUOUS",
    "给我拿那个红色的": "AMBIGUOUS",
    "把杯子和碗拿给我": "AMBIGUOUS",
    "拿杯子或者碗": "AMBIGUOUS",
    "bring me the cup or the bowl": "AMBIGUOUS",
    "把红色或蓝色的杯子拿给我": "AMBIGUOUS",
    "给我一杯水": "AMBIGUOUS",
    "bring me a cup of tea": "AMBIGUOUS",
    "把杯子里的老鼠拿给我": "AMBIGUOUS",
    "throw the cup at the nurse and bring me the bowl": "NO_VERB",
    "把手机拿给我": "UNKNOWN_OBJECT",
    "拿手机": "UNKNOWN_OBJECT",
    "bring me my glasses": "UNKNOWN_OBJECT",
    "请把红色方块放到蓝色圆柱上": "UNKNOWN_OBJECT",
    "get me the xylophone": "UNKNOWN_OBJECT",
    "把橙色的杯子拿给我": "UNKNOWN_COLOR",
    "bring me the orange cup": "UNKNOWN_COLOR",
    "把黑色的碗拿过来": "UNKNOWN_COLOR",
    "不要拿杯子": "NEGATED",
    "别把碗放回去": "NEGATED",
    "don't bring me the cup": "NEGATED",
    "never put the bowl back": "NEGATED",
    "明天把杯子拿给我": "NOT_A_REQUEST",
    "如果下雨，把杯子拿给我": "NOT_A_REQUEST",
    "他说把杯子拿给我": "NOT_A_REQUEST",
    "if it rains bring me the cup": "NOT_A_REQUEST",
    "she will bring me the cup": "NOT_A_REQUEST",
    "停": "STOP_REQUESTED",
    "停下来，别拿杯子": "STOP_REQUESTED",
    "把杯子拿给我，等等，停！": "STOP_REQUESTED",
    "别动": "STOP_REQUESTED",
    "stop": "STOP_REQUESTED",
    "bring me the cup no stop": "STOP_REQUESTED",
    "STOP!": "STOP_REQUESTED",
    "暫停": "STOP_REQUESTED",
    "never mind": "STOP_REQUESTED",
}


@pytest.mark.parametrize("sentence", REFUSED)
def test_what_is_unclear_is_refused_with_a_reason_in_both_languages(gate: Instructions, sentence: str) -> None:
    reading = gate.read(sentence)
    assert reading.steps == ()
    assert reading.refusal is not None
    assert reading.refusal.reason == REFUSED[sentence], reading.refusal
    assert reading.refusal.zh
    assert reading.refusal.en


# What is said at a bedside all day; several name a cup or use one of the verbs.
ORDINARY = [
    "今天天气怎么样", "我昨天拿了一个杯子", "杯子在哪里", "这个杯子真好看", "医生什么时候来", "他把碗打碎了", "我想回家", "护士把药放在桌上了",
    "你吃饭了吗", "世界杯谁赢了", "我拿不动杯子", "停车场在哪里", "他说明天给我带苹果", "放心吧，没事的", "倒霉，又下雨了", "把电视打开",
    "我的瓶子是空的", "水倒了一桌子", "杯子倒了", "勺子是新买的吗",
    "how is the weather today", "the cup is broken", "where did I put my glasses", "did you watch the world cup", "I walked in the park",
    "she gave me a bottle yesterday", "I took the spoon home", "is the bowl clean", "my back hurts", "what a lovely blue cup",
    "the nurse will come later", "turn on the television", "I want to go home", "give my regards to the doctor", "he got the cup already",
]  # fmt: skip


@pytest.mark.parametrize("sentence", ORDINARY)
def test_ordinary_sentences_never_become_commands(gate: Instructions, sentence: str) -> None:
    reading = gate.read(sentence)
    assert reading.steps == (), short(reading.steps)
    assert reading.refusal is not None
    assert reading.refusal.reason != "STOP_REQUESTED"


@pytest.mark.parametrize(
    ("sentence", "pace"),
    [
        ("慢一点", "slower"), ("请慢一点。", "slower"), ("再慢点！", "slower"), ("太快了", "slower"), ("慢點", "slower"),
        ("快一点吧", "faster"), ("正常速度", "normal"), ("slower", "slower"), ("Slow down, please!", "slower"),
        ("please go faster", "faster"), ("normal speed", "normal"),
    ],
)  # fmt: skip
def test_how_fast_said_alone_is_for_what_is_under_way(gate: Instructions, sentence: str, pace: str) -> None:
    reading = gate.read(sentence)
    assert reading.pace == pace
    assert reading.steps == ()
    assert reading.refusal is not None
    assert reading.refusal.reason == "PACE_REQUESTED"


@pytest.mark.parametrize(
    "sentence", [*ORDINARY, "慢一点，把蓝色水杯拿给我", "slowly bring me the cup", "the nurse is slow", "正常人"]
)
def test_a_sentence_that_says_more_is_no_word_about_speed(gate: Instructions, sentence: str) -> None:
    assert gate.read(sentence).pace is None


def test_suggestions_are_sentences_that_work(gate: Instructions) -> None:
    for sentence in REFUSED:
        refusal = gate.read(sentence).refusal
        assert refusal is not None
        for instead in refusal.say_instead:
            reading = gate.read(instead)
            assert reading.steps or (reading.refusal and reading.refusal.reason == "STOP_REQUESTED"), instead


def test_too_many_tokens_are_refused_never_cut(gate: Instructions) -> None:
    assert gate.read("把桌角的蓝色水杯拿给我").tokens <= 38
    reading = gate.read("把桌角的蓝色水杯拿给我，" * 40)
    assert reading.refusal is not None
    assert reading.refusal.reason == "INSTRUCTION_TOO_LONG"
    assert str(reading.tokens) in reading.refusal.en
    assert "128" in reading.refusal.en


def test_hot_full_and_poured_things_are_carried_gently(gate: Instructions) -> None:
    assert not gate.read("把杯子拿给我").steps[0].liquid
    assert gate.read("把热的汤碗拿给我").steps[0].liquid
    assert [s.liquid for s in gate.read("拿杯子，倒水，放回").steps] == [False, True, True]


def test_slowly_is_heard(gate: Instructions) -> None:
    assert gate.read("慢一点把杯子拿给我").slow
    assert gate.read("bring me the cup slowly").slow
    assert not gate.read("bring me the cup").slow


def test_the_read_back_says_every_step(gate: Instructions) -> None:
    assert gate.read("拿杯子→倒水→放回").read_back == "我来把杯子拿给您，然后倒水，然后放回原位，对吗？"
    assert gate.read("get me the blue cup").read_back == "I will bring you the blue cup. Is that right?"


@pytest.mark.parametrize(("language", "split"), list(PHRASES))
def test_the_wording_of_the_training_is_understood(gate: Instructions, language: str, split: str) -> None:
    """Every request with every opener would be 150,000 sentences: a fixed share of them is read."""
    thing = {"zh": "左边那个红色的杯子", "en": "the red cup on the left"}[language]
    phrases = PHRASES[language, split]  # type: ignore[index]
    read = understood = 0
    for opener in phrases.plain_openers:
        for request in (*phrases.commands, *phrases.wishes):
            for closer in phrases.closers:
                sentence = opener + request.format(r=thing) + closer
                if zlib.crc32(sentence.encode()) % 5:
                    continue
                read += 1
                steps = gate.read(sentence).steps
                understood += [(s.object, s.color, s.place) for s in steps] == [("cup", "red", "left")]
    assert understood >= 0.98 * read, (understood, read)


@pytest.mark.parametrize(("language", "split"), list(PHRASES))
def test_what_the_training_calls_unrelated_is_refused(gate: Instructions, language: str, split: str) -> None:
    phrases = PHRASES[language, split]  # type: ignore[index]
    taken = [s for s in phrases.unrelated if gate.read(s).steps]
    absent = [
        sentence
        for thing in ABSENT_THINGS[language]  # type: ignore[index]
        for request in phrases.commands
        if gate.read(sentence := request.format(r=thing)).steps
    ]
    assert taken == []
    assert absent == []


def test_a_sentence_is_read_in_about_a_millisecond(gate: Instructions) -> None:
    sentences = [*ONE_STEP, *ORDINARY]
    started = time.process_time()
    for sentence in sentences:
        gate.read(sentence)
    assert (time.process_time() - started) / len(sentences) < 4e-3  # four times the figure of a quiet machine
