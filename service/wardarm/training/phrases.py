"""The words of the training instructions, Chinese and English: openers, requests, closers, names of things.

A sentence is opener + request + closer. `HELD_OUT` ones are never trained on: they measure whether wording
generalises. `plain` is a short list of whole sentences, all of which `train` can say too: a fetch in everyday
sentences. `canonical` is what the instruction gate says to the model (policy/instruction.py), whatever the person
said; its words are in policy/words/*.toml. `{r}` is a referring expression such as 左边的红杯子 or "the red cup on the left".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Language = Literal["zh", "en"]
Split = Literal["canonical", "plain", "train", "held_out"]
LANGUAGES: tuple[Language, ...] = ("zh", "en")


@dataclass(frozen=True)
class Phrases:
    """`courteous` openers fit a command ("please" + "hand me ..."); `plain` ones fit every sentence.
    Wishes may be questions already, so their closers are no questions."""

    plain_openers: tuple[str, ...]
    courteous_openers: tuple[str, ...]
    commands: tuple[str, ...]
    wishes: tuple[str, ...]
    closers: tuple[str, ...]
    wish_closers: tuple[str, ...]
    unrelated: tuple[str, ...]


COLOR_WORDS: dict[Language, dict[str, tuple[str, ...]]] = {
    "zh": {
        "blue": ("蓝色", "蓝"),
        "red": ("红色", "红"),
        "green": ("绿色", "绿"),
        "yellow": ("黄色", "黄"),
        "white": ("白色", "白"),
        "purple": ("紫色", "紫"),
        "orange": ("橙色", "橘色"),
        "black": ("黑色", "黑"),
    },
    "en": {c: (c,) for c in ("blue", "red", "green", "yellow", "white", "purple", "orange", "black")},
}
KIND_WORDS: dict[Language, dict[str, tuple[str, ...]]] = {
    "zh": {
        "cup": ("水杯", "杯子", "茶杯", "杯"),
        "bowl": ("碗", "小碗", "饭碗"),
        "bottle": ("水瓶", "瓶子", "药瓶"),
        "spoon": ("勺子", "汤勺", "调羹"),
    },
    "en": {
        "cup": ("cup", "mug", "glass"),
        "bowl": ("bowl", "small bowl"),
        "bottle": ("bottle", "water bottle"),
        "spoon": ("spoon", "soup spoon"),
    },
}
PLACE_WORDS: dict[Language, dict[str, tuple[str, ...]]] = {
    "zh": {
        "left": ("左边", "左侧", "最左边"),
        "right": ("右边", "右侧", "最右边"),
        "near": ("离机械臂最近", "靠近机器人"),
        "far": ("离机械臂最远", "最前面"),
        "corner": ("桌角", "桌子角落", "角落"),
    },
    "en": {
        "left": ("on the left",),
        "right": ("on the right",),
        "near": ("nearest to the robot", "close to the arm"),
        "far": ("farthest from the robot", "at the front"),
        "corner": ("at the corner of the table", "in the corner"),
    },
}
MORE_PLACE_WORDS: dict[Language, dict[str, tuple[str, ...]]] = {
    "zh": {"near": ("离机器人最近",), "far": ("离机器人最远",), "corner": ("角落里",)},
    "en": {
        "left": ("on the left side",),
        "right": ("on the right side",),
        "near": ("closest to the arm",),
        "far": ("farthest from the arm",),
    },
}
"""Said in `train` and `held_out`, besides those of `plain`."""
PLAIN_ADJECTIVES = {"left": "leftmost", "right": "rightmost"}
ADJECTIVES = {**PLAIN_ADJECTIVES, "near": "nearest", "far": "farthest"}
CLASSIFIERS = {
    "cup": ("那个", "这个", "那只"),
    "bowl": ("那个", "那只"),
    "bottle": ("那个", "那瓶"),
    "spoon": ("那把", "那个"),
}
ABSENT_THINGS: dict[Language, tuple[str, ...]] = {
    "zh": ("叉子", "筷子", "盘子", "遥控器", "手机", "眼镜", "毛巾", "纸巾", "书", "苹果", "药盒", "枕头", "红色的盘子", "蓝色的书"),
    "en": (
        "the fork", "the plate", "the remote control", "my phone", "my glasses", "the towel", "the tissues", "the book",
        "an apple", "the pill box", "the pillow", "the red plate", "the blue book",
    ),
}  # fmt: skip
"""Things that are never on the table: asking for one must be refused."""

PLAIN_SENTENCES: dict[Language, tuple[str, ...]] = {
    "zh": (
        "把{r}拿给我", "请帮我把{r}拿过来", "帮我拿一下{r}", "我想要{r}", "请把{r}递给我", "麻烦递一下{r}", "呃…那个…帮我拿一下{r}",
        "能把{r}给我吗", "请帮我把{r}拿出来给我", "拿{r}", "我要{r}，谢谢", "护士，请把{r}拿来",
    ),
    "en": (
        "bring me {r}", "please hand me {r}", "could you get me {r}", "pass me {r} please", "I want {r}", "give me {r}",
        "um, could you grab {r} for me", "fetch {r}", "I would like {r}", "can you pick up {r} and give it to me",
    ),
}  # fmt: skip

PHRASES: dict[tuple[Language, Split], Phrases] = {
    ("zh", "train"): Phrases(
        plain_openers=(
            "", "", "", "呃…", "那个…", "嗯，", "呃…那个…", "护士，", "你好，", "不好意思，", "我渴了，", "我饿了，", "我口渴了，", "我想喝水，",
            "哎呀，", "您好，", "麻烦一下，", "机器人，", "辛苦了，", "请问，", "喂，", "抱歉，", "早上好，", "有点渴，",
        ),
        courteous_openers=("请", "请帮我", "麻烦", "麻烦你", "帮我", "劳驾", "请你帮忙"),
        commands=(
            "把{r}拿给我", "把{r}拿过来", "拿一下{r}", "把{r}递给我", "递一下{r}", "把{r}拿来", "拿{r}", "把{r}给我", "给我{r}",
            "给我拿{r}", "把{r}取过来", "取一下{r}", "把{r}拿出来给我", "把{r}送到我这里", "将{r}递过来", "拿来{r}",
            "把{r}递过来", "帮忙拿{r}", "{r}拿过来", "拿{r}给我", "把{r}拿到我这边", "递{r}给我", "取{r}过来", "把{r}带过来", "把{r}取来给我",
            "把{r}拿到我面前", "把{r}送到我面前", "给我把{r}拿来", "给我递一下{r}", "帮我把{r}取来",
        ),
        wishes=(
            "我要{r}", "我想要{r}", "我需要{r}", "能把{r}给我吗", "可以把{r}递给我吗", "能帮我拿{r}吗", "可以帮我拿一下{r}吗",
            "我想用{r}", "能不能把{r}拿过来", "{r}，拿给我", "{r}递给我一下", "把{r}拿来好不好",
            "我想要一下{r}", "能递一下{r}吗", "可不可以给我{r}", "能拿一下{r}吗", "可以给我{r}吗", "{r}给我", "{r}拿来给我", "我需要用{r}",
            "要{r}", "想要{r}", "可以取{r}过来吗", "能不能给我{r}", "我现在要{r}", "麻烦把{r}给我", "我想拿{r}",
        ),
        closers=("", "", "", "", "，谢谢", "，好吗", "吧", "，麻烦了", "，可以吗", "。", "，谢谢你"),
        wish_closers=("", "", "", "，谢谢", "，麻烦了", "，谢谢你"),
        unrelated=(
            "今天天气很好", "现在几点了", "打开电视", "把灯关掉", "我想睡觉", "我的医生是谁", "叫护士来", "唱首歌", "窗户开一下", "我头疼",
            "今天星期几", "给我讲个故事", "我要上厕所", "什么时候吃饭", "你叫什么名字", "床摇高一点", "好的", "谢谢你", "没事了", "等一下",
            "我想回家", "明天会下雨吗", "空调开大一点", "把窗帘拉上", "你真好", "再见", "早上好", "量一下体温", "药吃完了", "我不要了",
            "天黑了", "今天几号", "声音太大了", "我有点冷", "帮我关门", "外面在下雨吗", "请安静一点", "我很好", "护士在哪里", "手术几点开始",
            "我儿子什么时候来", "今天吃什么", "把音乐打开", "我有点累", "这是哪里", "我不舒服", "我要见医生",
        ),
    ),
    ("zh", "held_out"): Phrases(
        plain_openers=("", "哎，", "小护士，", "我有点渴，", "对不起，"),
        courteous_openers=("麻烦您", "请您", "劳烦"),
        commands=("帮我取{r}", "把{r}端给我", "把{r}送过来", "给我那边的{r}"),
        wishes=("可以把{r}拿过来吗", "我现在想要{r}", "能给我{r}吗", "{r}给我一下行吗"),
        closers=("", "好吗", "，多谢", "，行吗"),
        wish_closers=("", "，多谢"),
        unrelated=("今天天气怎么样", "几点开饭", "帮我打个电话", "我睡不着", "电视声音小一点", "医生什么时候来"),
    ),
    ("en", "train"): Phrases(
        plain_openers=(
            "", "", "", "um, ", "uh, ", "hello, ", "hi, ", "nurse, ", "excuse me, ", "sorry, ", "I am thirsty, ", "I am hungry, ",
            "I'm thirsty, ", "I'd like a drink, ",
            "hello there, ", "robot, ", "okay, ", "well, ", "oh hello, ", "good morning, ", "please, ", "hmm, ", "hi nurse, ", "so, ",
        ),
        courteous_openers=("please ", "could you please ", "can you ", "could you ", "would you ", "kindly "),
        commands=(
            "bring me {r}", "hand me {r}", "get me {r}", "pass me {r}", "give me {r}", "grab {r} for me", "fetch {r}",
            "pick up {r} and give it to me", "bring {r} here", "get {r}", "take {r} and bring it to me", "pass {r} to me",
            "hand {r} to me", "fetch me {r}", "bring {r} to me", "bring over {r}",
            "reach me {r}", "take {r} to me", "bring {r} over", "get {r} for me", "bring me over {r}", "give {r} to me", "hand me over {r}",
            "pick {r} up for me", "grab me {r}", "fetch {r} for me", "bring {r} over here", "pass me over {r}", "pick up {r} for me",
            "pick up {r}",
        ),
        wishes=(
            "I want {r}", "I would like {r}", "I need {r}", "may I have {r}", "can I have {r}", "I'd like {r}", "I want to use {r}",
            "could I get {r}", "{r}, give it to me", "let me have {r}", "is it possible to get {r}",
            "could I have {r}", "can I get {r}", "I would love {r}", "{r}, bring it here", "is it possible to have {r}", "{r}, hand it to me",
            "I want you to bring {r}",
        ),
        closers=("", "", "", "", " please", ", please", ", thanks", ", thank you", " now", ".", ", will you"),
        wish_closers=("", "", "", " please", ", please", ", thanks", ", thank you", " now"),
        unrelated=(
            "the weather is nice today", "what time is it", "turn on the television", "switch off the light", "I want to sleep",
            "who is my doctor", "call the nurse", "sing a song", "open the window", "I have a headache", "what day is it",
            "tell me a story", "I need the toilet", "when is lunch", "what is your name", "raise the bed", "all right", "thank you",
            "never mind", "wait a moment", "I want to go home", "will it rain tomorrow", "make it warmer", "close the curtain",
            "you are kind", "goodbye", "good morning", "take my temperature", "the pills are finished", "I changed my mind",
            "how are you today", "is it raining", "I feel cold", "close the door please", "when is my surgery", "where is the nurse",
            "I am tired", "it is too loud", "what is for dinner", "play some music", "I feel better", "who are you", "can you hear me",
            "I want to see the doctor", "where am I", "it is dark outside", "please be quiet", "when does my son come",
        ),
    ),
    ("en", "held_out"): Phrases(
        plain_openers=("", "hey, ", "pardon me, ", "my mouth is dry, ", "oh, "),
        courteous_openers=("will you ", "would you mind, ", "be so kind and "),
        commands=("hand over {r}", "get {r} over here", "reach {r} for me", "deliver {r} to me"),
        wishes=("I could use {r}", "I was hoping for {r}", "do you have {r} for me", "{r} would be nice"),
        closers=("", " if you can", ", cheers", " right away"),
        wish_closers=("", ", cheers"),
        unrelated=("how is the weather", "when do we eat", "make a phone call", "I cannot sleep", "turn the volume down", "read me the news"),
    ),
}  # fmt: skip
