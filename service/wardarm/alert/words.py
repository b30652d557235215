"""What people at the bed are told about a hold, in Chinese and English: what happened, who can end it, and how.

One text for every HoldReason; `api` puts it into GetState and the errors, sound and screens read it out. A hold never
ends by itself: its cause has to be gone, and then a person resumes. The arm then looks again and plans from rest. Only
STARTING ends by itself: nothing has moved yet, and nothing will before somebody gives a task.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from wardarm.shm.layouts import HoldReason

Language = Literal["zh", "en"]


@dataclass(frozen=True)
class Words:
    """`what` happened, `who` can end it, `how`: whole sentences."""

    what: str
    who: str
    how: str

    @property
    def text(self) -> str:
        joint = "" if self.what.endswith("。") else " "
        return joint.join((self.what, self.who, self.how))


_STAFF_ZH, _STAFF_EN = "床边的医护人员可以解除。", "A member of staff at the bed can end this."
_TECH_ZH, _TECH_EN = "请联系设备工程师。", "Call the equipment engineer."
_RESUME_ZH, _RESUME_EN = "再按“继续”。", "Then press Resume."

_WORDS: dict[HoldReason, tuple[Words, Words]] = {
    HoldReason.NONE: (
        Words("没有暂停。", "无需任何人操作。", "机械臂可以接受任务。"),
        Words("Nothing is held.", "Nobody has to do anything.", "The arm takes tasks."),
    ),
    HoldReason.CLIENT: (
        Words("有人按了“暂停”。", "按“暂停”的人或床边的医护人员可以解除。", "看一眼床边，没有妨碍时按“继续”。"),
        Words(
            "Somebody pressed Pause.", "Whoever paused, or a member of staff at the bed, can end this.",
            "Look at the bedside; when nothing is in the way, press Resume.",
        ),
    ),
    HoldReason.INTRUDER: (
        Words("有人进入了机械臂的活动区域。", _STAFF_ZH, f"请离开标出的区域，等画面清空，{_RESUME_ZH}"),
        Words(
            "Somebody is in the area where the arm moves.", _STAFF_EN,
            f"Leave the marked area and wait until the view is clear. {_RESUME_EN}",
        ),
    ),
    HoldReason.LEASE_LOST: (
        Words("下达任务的程序没有响应了。", "使用该程序的人或床边的医护人员可以解除。", f"检查该程序和网络，重新取得控制，{_RESUME_ZH}"),
        Words(
            "The program that gave the task went quiet.", "Whoever uses it, or a member of staff at the bed, can end this.",
            f"Check that program and its network, and take control again. {_RESUME_EN}",
        ),
    ),
    HoldReason.CAMERA_LOST: (
        Words("床头相机没有画面。", _STAFF_ZH, f"检查相机的 USB 3 线是否插紧、镜头是否被遮挡；画面恢复后，{_RESUME_ZH}如果没有恢复，{_TECH_ZH}"),
        Words(
            "The bedside camera delivers no pictures.", _STAFF_EN,
            f"Check its USB 3 cable and that nothing covers it; wait for the picture. {_RESUME_EN} If it stays away: "
            "call the equipment engineer.",
        ),
    ),
    HoldReason.CAMERA_MOVED: (
        Words("床头相机的位置变了。", "只有设备工程师可以解除。", f"把相机放回原处或重新标定，检查通过后，{_RESUME_ZH}"),
        Words(
            "The bedside camera is not where it was.", "Only the equipment engineer can end this.",
            f"Put it back, or calibrate again, until the check passes. {_RESUME_EN}",
        ),
    ),
    HoldReason.ROOM_CAMERA_LOST: (
        Words("一台房间相机没有画面，看不到是否有人靠近。", _STAFF_ZH, f"检查该相机的电源和连线；画面恢复后，{_RESUME_ZH}如果没有恢复，{_TECH_ZH}"),
        Words(
            "A room camera delivers no live pictures: nobody can tell who comes near.", _STAFF_EN,
            f"Check that camera's cable and power; wait for the picture. {_RESUME_EN} If it stays away: call the "
            "equipment engineer.",
        ),
    ),
    HoldReason.VIEW_CHANGED: (
        Words(
            "一台房间相机的画面整体变了：灯光、遮挡，或相机被碰动。", "床边的医护人员可以解除；画面不能复原时由设备工程师解除。",
            f"把灯光、窗帘和镜头恢复原样，等画面清空，{_RESUME_ZH}如果房间确实变了，请工程师在无人时让系统重新学习画面。",
        ),
        Words(
            "The whole view of a room camera changed: light, something over the lens, or it was knocked.",
            "A member of staff at the bed can end this; the equipment engineer if the view cannot be as it was.",
            f"Put light, curtains and lens back as they were and wait until the view is clear. {_RESUME_EN} If the room is "
            "meant to look different now, the engineer has it learnt anew while nobody is there.",
        ),
    ),
    HoldReason.INFERENCE_STALE: (
        Words("模型没有及时给出下一步动作。", _STAFF_ZH, f"等几秒钟，{_RESUME_ZH}如果一小时内出现三次，{_TECH_ZH}"),
        Words(
            "The model did not say in time how to go on.", _STAFF_EN,
            "Wait a few seconds, then press Resume. Three times within an hour: call the equipment engineer.",
        ),
    ),
    HoldReason.PLAN_REFUSED: (
        Words("计划的动作超出了限制，没有执行。", _STAFF_ZH, f"把物品放到桌面中间、移开挡住的东西，{_RESUME_ZH}也可以取消任务。"),
        Words(
            "A planned movement would have broken a limit and was not carried out.", _STAFF_EN,
            "Move the object to the middle of the table and clear what is in the way, then press Resume. Or cancel the task.",
        ),
    ),
    HoldReason.GRIP_LOST: (
        Words("夹爪里的物品掉了或滑动了。", _STAFF_ZH, f"看一眼物品在哪里，擦干洒出的液体，把物品放回桌上，{_RESUME_ZH}"),
        Words(
            "What the gripper held slipped or fell.", _STAFF_EN,
            "See where it is, wipe up what was spilt, put it back on the table, then press Resume.",
        ),
    ),
    HoldReason.ROBOT: (
        Words(
            "机器人自己停了：保护停止、急停按钮、安全输入、示教器，或被用手推动。",
            "只能由床边受过培训的人员解除；系统不会自动解除。",
            f"看清原因，确认没有人被夹住或碰到；在示教器上按提示复位，{_RESUME_ZH}同一天第二次出现时，{_TECH_ZH}",
        ),
        Words(
            "The robot itself stopped: protective stop, emergency stop button, safeguard input, pendant, or pushed by hand.",
            "Only a trained person at the bed can end this; it is never reset automatically.",
            f"Find the cause and make sure that nobody is caught or touched. Reset it on the teach pendant. {_RESUME_EN} "
            "A second time on one day: call the equipment engineer.",
        ),
    ),
    HoldReason.THERMAL: (
        Words("计算机过热。", _STAFF_ZH, f"让出风口通畅，等温度下降，{_RESUME_ZH}如果反复出现，{_TECH_ZH}"),
        Words(
            "The computer is too hot.", _STAFF_EN,
            "Clear its air vents and wait until it has cooled, then press Resume. If it comes back: call the equipment engineer.",
        ),
    ),
    HoldReason.GATE_FAULT: (
        Words("发给机器人的运动许可信号不正常。", "只有设备工程师可以解除。", f"按接线说明（docs/wiring.md）检查许可信号的接线，{_RESUME_ZH}"),
        Words(
            "The motion permit signal to the robot is not as commanded.", "Only the equipment engineer can end this.",
            f"Check the permit wiring as docs/wiring.md says. {_RESUME_EN}",
        ),
    ),
    HoldReason.WATCHDOG: (
        Words("系统的一个程序结束了或没有及时响应，正在重新启动。", _STAFF_ZH, f"等它恢复，{_RESUME_ZH}如果一小时内出现三次，{_TECH_ZH}"),
        Words(
            "A program of the system ended or was late and is being started again.", _STAFF_EN,
            "Wait until it is back, then press Resume. Three times within an hour: call the equipment engineer.",
        ),
    ),
    HoldReason.STARTING: (
        Words("系统正在启动，或正在学习房间画面。", "准备好后会自行结束，无需任何人解除。", "请让活动区域空着。结束后机械臂保持静止，直到有人下达任务。"),
        Words(
            "The system is starting, or learning what the room looks like.",
            "This ends by itself when it is ready; nobody has to do anything.",
            "Keep the area of the arm empty until then. The arm stays where it is until somebody gives it a task.",
        ),
    ),
    HoldReason.STOP: (
        Words("有人按了“停止”。", _STAFF_ZH, f"看清床边的情况，先解除“停止”，{_RESUME_ZH}原来的任务不会继续执行旧动作，会重新观察。"),
        Words(
            "Somebody pressed Stop.", _STAFF_EN,
            f"Look at the bedside and clear the Stop first. {_RESUME_EN} No old movement is replayed: the arm looks again.",
        ),
    ),
}  # fmt: skip


def words(reason: HoldReason, language: Language) -> Words:
    """The sentences for one reason."""
    zh, en = _WORDS[reason]
    return zh if language == "zh" else en


def hold_text(reason: HoldReason, language: Language, detail: str = "") -> str:
    """Everything in one paragraph; `detail` is what the process said, in brackets after the first sentence."""
    w = words(reason, language)
    if not detail:
        return w.text
    what = f"{w.what[:-1]}（{detail}）。" if language == "zh" else f"{w.what[:-1]} ({detail})."
    return Words(what, w.who, w.how).text


def in_language(tag: str) -> Language:
    """zh for every Chinese tag (zh, zh-CN, zh-Hans, zh_TW, cmn), else en."""
    return "zh" if tag.lower().replace("_", "-").split("-")[0] in ("zh", "cmn", "yue") else "en"
