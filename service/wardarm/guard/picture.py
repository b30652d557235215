"""What guard sees, drawn so that a person can judge it: a room view with its zones, named in Chinese and English.

Nothing is written over the picture but each zone's name, at a place in the zone where it hides neither another name nor our
own arm. Above the picture: the state; along its upper and left edge: pixels of the frame, the unit in which zones are given;
below: what the colours mean. Chinese needs a face that has it (Debian: fonts-noto-cjk); without one only the English is written.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from wardarm.config import Guard, RoomCamera, Zone
from wardarm.guard import zones
from wardarm.guard.detector import ViewState

Pixels = NDArray[np.uint8]
Box = tuple[int, int, int, int]  # x, y, width, height
Rgb = tuple[int, int, int]

WIDTH_MIN = 1280  # of the drawn frame: smaller ones are enlarged by a whole number
HEAD_PX, FOOT_PX, LEFT_PX, RIGHT_PX = 76, 46, 48, 24
TEXT_PX, HEAD_TEXT_PX, SMALL_TEXT_PX = 22, 27, 15
ORDER = ("mask", "authorised", "warn", "keep_out")  # what is drawn later lies on top
OVERLAP = 0.6  # a name in what two zones share could be either's
STEP = 12  # how closely places for a name are tried
TICK_FRAME_PX = 50
GREEN, YELLOW, GREY, VIOLET = (80, 210, 110), (245, 200, 60), (190, 200, 210), (190, 130, 240)
BLUE, RED, ORANGE, WHITE, PALE, DARK = (90, 170, 255), (255, 80, 80), (255, 160, 50), (245, 245, 245), (150, 156, 162), (22, 25, 29)  # fmt: skip
COLORS: dict[str, Rgb] = {"keep_out": GREEN, "warn": YELLOW, "authorised": GREY, "mask": VIOLET}
KINDS = {
    "keep_out": ("禁入区", "keep out"), "warn": ("缓行区", "warn"), "authorised": ("许可区", "authorised"), "mask": ("遮挡区", "mask"),
}  # fmt: skip
ARM, DETECTED = ("本机械臂", "our arm"), ("检测到", "detected")
STATES: dict[ViewState, tuple[Rgb, str, str]] = {
    ViewState.CLEAR: (GREEN, "与所学画面一致", "clear, as learnt"),
    ViewState.LEARNING: (WHITE, "正在学习画面", "learning the view"),
    ViewState.INTRUDER: (RED, "有人", "intruder"),
    ViewState.VIEW_CHANGED: (ORANGE, "画面有变", "view changed"),
}
LOST = (RED, "无画面", "lost")
_CHINESE = ("Noto Sans CJK SC", "Noto Sans CJK JP", "WenQuanYi Zen Hei", "WenQuanYi Micro Hei")


@functools.cache
def _face() -> tuple[str, bool]:
    """File of the face, and whether it has Chinese."""
    from matplotlib import font_manager

    for family in _CHINESE:
        try:
            return font_manager.findfont(family, fallback_to_default=False), True
        except ValueError:
            continue
    return font_manager.findfont("DejaVu Sans"), False


@functools.cache
def _font(size: int) -> ImageFont.FreeTypeFont:
    return ImageFont.truetype(_face()[0], size)


def both(zh: str, en: str) -> str:
    """The two names of one thing, as many as can be drawn."""
    return f"{zh} {en}" if _face()[1] else en


def name_of(zone: Zone) -> str:
    """Its kind in both languages, its own name, its times."""
    times = f"{zone.start}–{zone.end}" if zone.start else ""
    return "  ".join(filter(None, (both(*KINDS[zone.kind]), zone.name, times)))


@dataclass(frozen=True)
class Label:
    """A zone's name and where it stands: x, y, width, height on the sheet."""

    text: str
    kind: str
    box: Box


class Sheet:
    """Everything about one view that stays the same from frame to frame. `arm`: uint8 of the frame's shape, above 0 where our
    own arm is: no name is put there."""

    def __init__(self, guard: Guard, camera: RoomCamera, arm: Pixels | None = None) -> None:
        self.guard, self.camera = guard, camera
        self.scale = max(1, -(-WIDTH_MIN // guard.width))
        self.inner = (guard.width * self.scale, guard.height * self.scale)
        self.size = (
            (self.inner[0] + LEFT_PX + RIGHT_PX + 1) // 2 * 2,
            (self.inner[1] + HEAD_PX + FOOT_PX + 1) // 2 * 2,
        )
        self.labels = self._places(arm)
        self._layer, self._kept = self._zones()
        self._paper = self._margins()

    def draw(
        self, grey: Pixels, found: Pixels, boxes: Sequence[Box], arm: Pixels | None, head: str, colour: Rgb
    ) -> Pixels:
        """`grey`: the frame; `found`, `arm`: uint8, any size, above 0 where something is detected and where our own arm is;
        `boxes` in pixels of the frame. RGB, shape (size[1], size[0], 3)."""
        picture = cv2.cvtColor(cv2.resize(grey, self.inner, interpolation=cv2.INTER_LINEAR), cv2.COLOR_GRAY2RGB)
        seen = cv2.resize(found, self.inner, interpolation=cv2.INTER_NEAREST) > 0
        picture[seen] = picture[seen] // 2 + np.array(RED, np.uint8) // 2
        if arm is not None:
            self._outline(picture, arm)
        for x, y, w, h in boxes:
            corners = [(round(px * self.scale), round(py * self.scale)) for px, py in ((x, y), (x + w, y + h))]
            cv2.rectangle(picture, corners[0], corners[1], RED, 2, cv2.LINE_AA)
        drawn = cv2.add(cv2.multiply(picture, self._kept, scale=1 / 255), self._layer)
        sheet = self._paper.copy()
        sheet[HEAD_PX : HEAD_PX + self.inner[1], LEFT_PX : LEFT_PX + self.inner[0]] = drawn
        sheet[: HEAD_PX - 26] = self._headline(head, colour)
        return sheet

    def _outline(self, picture: Pixels, arm: Pixels) -> None:
        large = cv2.resize(arm, self.inner, interpolation=cv2.INTER_LINEAR)
        edges, _ = cv2.findContours((large > 127).astype(np.uint8), cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)
        cv2.drawContours(picture, edges, -1, BLUE, 2, cv2.LINE_AA)

    def _polygon(self, zone: Zone) -> NDArray[np.int32]:
        return np.asarray(np.rint(np.array(zone.polygon) * self.scale), np.int32)

    def _inside(self, zone: Zone) -> Pixels:
        out = np.zeros(self.inner[::-1], np.uint8)
        cv2.fillPoly(out, [self._polygon(zone)], 1)
        return out

    def _places(self, arm: Pixels | None) -> list[Label]:
        """A place for each name: inside its zone if it fits, away from the other names, our own arm, and edges of zones."""
        lines = np.zeros(self.inner[::-1], np.uint8)
        for zone in zones.of(self.camera):
            cv2.polylines(lines, [self._polygon(zone)], True, 1, 6)
        busy = lines.astype(np.float32)
        if arm is not None:
            busy += 3 * (cv2.resize(arm, self.inner, interpolation=cv2.INTER_NEAREST) > 0)
        out: list[Label] = []
        shared = np.sum([self._inside(zone) for zone in zones.of(self.camera)], axis=0, dtype=np.float32) > 1
        for zone in zones.of(self.camera):
            text = name_of(zone)
            box = self._best(_extent(text), 1 - self._inside(zone), busy + OVERLAP * shared)
            busy[box[1] - 4 : box[1] + box[3] + 4, box[0] - 4 : box[0] + box[2] + 4] += 50
            out.append(Label(text, zone.kind, box))
        return out

    def _best(self, size: tuple[int, int], outside: Pixels, busy: NDArray[np.float32]) -> Box:
        """Where a rectangle of this size covers least of what it should not."""
        w, h = size
        cost = cv2.integral(outside.astype(np.float32) + busy)
        ys = np.arange(4, max(5, self.inner[1] - h - 4), STEP)
        xs = np.arange(4, max(5, self.inner[0] - w - 4), STEP)
        y, x = np.meshgrid(ys, xs, indexing="ij")
        total = cost[y + h, x + w] - cost[y, x + w] - cost[y + h, x] + cost[y, x]
        rows, columns = np.nonzero(outside == 0)
        middle = (columns.mean(), rows.mean()) if len(rows) else (0.0, 0.0)
        far = np.hypot(x + w / 2 - middle[0], y + h / 2 - middle[1])
        at = int(np.argmin(total + 0.02 * far))
        return int(x.flat[at]), int(y.flat[at]), w, h

    def _zones(self) -> tuple[Pixels, Pixels]:
        """What zones and names add to a picture, and how much of the picture stays (0..255), both (height, width, 3)."""
        layer = np.zeros((self.inner[1], self.inner[0], 3), np.uint8)
        alpha = np.zeros((self.inner[1], self.inner[0], 1), np.float32)
        drawn = sorted(zones.of(self.camera), key=lambda z: ORDER.index(z.kind))
        for zone in drawn:
            inside = self._inside(zone) > 0
            shade = 0.12
            if zone.kind == "mask":  # hatched: nothing is seen there
                row, column = np.indices(inside.shape)
                inside &= (row + column) % 16 < 6
                shade = 0.6
            layer[inside], alpha[inside] = COLORS[zone.kind], shade
        for zone in drawn:
            edge = np.zeros(self.inner[::-1], np.uint8)
            cv2.polylines(edge, [self._polygon(zone)], True, 255, 3, cv2.LINE_AA)
            on = edge > 64
            layer[on], alpha[on] = COLORS[zone.kind], 1.0
        if self.labels:
            image = Image.fromarray(layer)
            pen = ImageDraw.Draw(image)
            for label in self.labels:
                x, y, w, h = label.box
                pen.rectangle((x, y, x + w, y + h), fill=DARK)
                pen.rectangle((x, y, x + 5, y + h), fill=COLORS[label.kind])
                pen.text((x + 14, y + h / 2), label.text, font=_font(TEXT_PX), fill=WHITE, anchor="lm")
                alpha[y : y + h + 1, x : x + w + 1] = 0.88
            layer = np.array(image)
        kept = np.broadcast_to(np.rint(255 * (1 - alpha)), layer.shape)
        return np.asarray(np.rint(layer * alpha), np.uint8), np.ascontiguousarray(kept, np.uint8)

    def _margins(self) -> Pixels:
        """The paper round the picture: pixels of the frame above and on the left, what the colours mean below."""
        image = Image.new("RGB", self.size, DARK)
        pen = ImageDraw.Draw(image)
        for at in range(0, self.guard.width + 1, TICK_FRAME_PX):
            x, large = LEFT_PX + at * self.scale, at % (2 * TICK_FRAME_PX) == 0
            pen.line((x, HEAD_PX - (7 if large else 4), x, HEAD_PX - 1), fill=PALE)
            if large:
                pen.text((x, HEAD_PX - 9), str(at), font=_font(SMALL_TEXT_PX), fill=PALE, anchor="mb")
        for at in range(0, self.guard.height + 1, TICK_FRAME_PX):
            y, large = HEAD_PX + at * self.scale, at % (2 * TICK_FRAME_PX) == 0
            pen.line((LEFT_PX - (7 if large else 4), y, LEFT_PX - 1, y), fill=PALE)
            if large:
                pen.text((LEFT_PX - 10, y), str(at), font=_font(SMALL_TEXT_PX), fill=PALE, anchor="rm")
        x, y = LEFT_PX, self.size[1] - FOOT_PX // 2
        for names, colour in (*((KINDS[k], c) for k, c in COLORS.items()), (ARM, BLUE), (DETECTED, RED)):
            pen.rectangle((x, y - 8, x + 16, y + 8), fill=colour)
            pen.text((x + 26, y), both(*names), font=_font(TEXT_PX), fill=WHITE, anchor="lm")
            x += 26 + round(_font(TEXT_PX).getlength(both(*names))) + 34
        return np.array(image)

    @functools.lru_cache(maxsize=4)  # noqa: B019  (a sheet lives as long as its recording)
    def _headline(self, text: str, colour: Rgb) -> Pixels:
        image = Image.new("RGB", (self.size[0], HEAD_PX - 26), DARK)
        pen = ImageDraw.Draw(image)
        y = image.height / 2
        pen.rectangle((LEFT_PX, y - 11, LEFT_PX + 22, y + 11), fill=colour)
        space = self.size[0] - LEFT_PX - RIGHT_PX - 36
        pen.text((LEFT_PX + 36, y), shortened(text, space), font=_font(HEAD_TEXT_PX), fill=WHITE, anchor="lm")
        return np.array(image)


def shortened(text: str, space_px: float) -> str:
    """As much of a headline as fits, ended by an ellipsis if it does not."""
    font = _font(HEAD_TEXT_PX)
    if font.getlength(text) <= space_px:
        return text
    while text and font.getlength(text + "…") > space_px:
        text = text[:-1]
    return text.rstrip() + "…"


def _extent(text: str) -> tuple[int, int]:
    return round(_font(TEXT_PX).getlength(text)) + 26, TEXT_PX + 14
