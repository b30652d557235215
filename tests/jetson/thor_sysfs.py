"""A Thor's PWM chips and GPIO character devices as a FUSE file system with the kernel's rules.

`python thor_sysfs.py MOUNTPOINT` serves `devices/<chip>.pwm/pwm/pwmchipN/...` (period, duty_cycle, enable in ns and 0/1,
EINVAL, EBUSY and ENODEV as drivers/pwm/sysfs.c and pwm core give them), `dev/gpiochip0` and `dev/gpiochip1` (chip info
only) and `state.json`: every chip's state and every write in order. `locked` in the environment variable
THOR_SYSFS_LOCKED makes `enable` of each exported PWM read-only, as without udev's rule.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import stat
import struct
import sys
import threading
import time
from dataclasses import dataclass, field

import mfusepy as fuse

CHIPS = ("810c610000.pwm", "810c5e0000.pwm", "810c600000.pwm")
GPIO_CHIPS = {"gpiochip0": b"tegra264-gpio", "gpiochip1": b"tegra264-gpio-aon"}
GPIO_GET_CHIPINFO_IOCTL = 0x8044B401
LINE_FILES = ("period", "duty_cycle", "enable", "polarity")


@dataclass
class Line:
    exported: bool = False
    period: int = 0
    duty_cycle: int = 0
    enable: int = 0
    polarity: str = "normal"

    def write(self, name: str, text: str) -> None:
        """Apply one write. Raises OSError with the kernel's errno; the state is then unchanged."""
        if name == "polarity":
            if text not in ("normal", "inversed") or self.enable:
                raise OSError(errno.EINVAL, name)
            self.polarity = text
            return
        if not text.isdigit():
            raise OSError(errno.EINVAL, name)
        value = int(text)
        if name == "export":
            if value != 0:
                raise OSError(errno.ENODEV, name)
            if self.exported:
                raise OSError(errno.EBUSY, name)
            self.exported = True
        elif name == "unexport":  # the output goes on as it was
            if value != 0 or not self.exported:
                raise OSError(errno.ENODEV, name)
            self.exported = False
        elif name == "period":
            if value == 0 or value < self.duty_cycle:
                raise OSError(errno.EINVAL, name)
            self.period = value
        elif name == "duty_cycle":
            if self.period == 0 or value > self.period:
                raise OSError(errno.EINVAL, name)
            self.duty_cycle = value
        elif name == "enable":
            if value not in (0, 1) or (value and not self.period):
                raise OSError(errno.EINVAL, name)
            self.enable = value
        else:
            raise OSError(errno.EACCES, name)


@dataclass
class Node:
    """One path: a folder (`names`), a file of a chip (`chip`, `name`), or another file."""

    names: list[str] | None = None
    chip: str = ""
    name: str = ""


@dataclass
class ThorSysfs(fuse.Operations):  # type: ignore[misc]
    locked: bool = False
    lines: dict[str, Line] = field(default_factory=lambda: {c: Line() for c in CHIPS})
    writes: list[tuple[int, str, str, str]] = field(default_factory=list)  # monotonic ns, chip, file, text
    snapshots: dict[int, bytes] = field(default_factory=dict)
    mutex: threading.RLock = field(default_factory=threading.RLock)
    handles: int = 0
    use_ns = True

    def node(self, path: str) -> Node:
        parts = [p for p in path.split("/") if p]
        if not parts:
            return Node(names=["devices", "dev", "state.json"])
        if parts == ["state.json"]:
            return Node(name="state.json")
        if parts[0] == "dev":
            if len(parts) == 1:
                return Node(names=list(GPIO_CHIPS))
            if len(parts) == 2 and parts[1] in GPIO_CHIPS:
                return Node(name=parts[1])
        if parts[0] == "devices":
            if len(parts) == 1:
                return Node(names=list(CHIPS))
            if parts[1] in CHIPS:
                return self.chip_node(parts[1], parts[2:])
        raise fuse.FuseOSError(errno.ENOENT)

    def chip_node(self, chip: str, rest: list[str]) -> Node:
        line, chip_name = self.lines[chip], f"pwmchip{CHIPS.index(chip)}"
        if not rest:
            return Node(names=["pwm"])
        if rest == ["pwm"]:
            return Node(names=[chip_name])
        if rest[:2] == ["pwm", chip_name]:
            inside = rest[2:]
            if not inside:
                return Node(names=["npwm", "export", "unexport", *(["pwm0"] if line.exported else [])])
            if len(inside) == 1 and inside[0] in ("npwm", "export", "unexport"):
                return Node(chip=chip, name=inside[0])
            if line.exported and inside == ["pwm0"]:
                return Node(names=list(LINE_FILES))
            if line.exported and len(inside) == 2 and inside[0] == "pwm0" and inside[1] in LINE_FILES:
                return Node(chip=chip, name=inside[1])
        raise fuse.FuseOSError(errno.ENOENT)

    def getattr(self, path: str, fh: int | None = None) -> dict[str, int]:
        node = self.node(path)
        if node.names is not None:
            mode = stat.S_IFDIR | 0o755
        elif self.locked and node.name == "enable":
            mode = stat.S_IFREG | 0o444
        else:
            mode = stat.S_IFREG | 0o660
        zero = ("st_uid", "st_gid", "st_mtime", "st_atime", "st_ctime")
        return {"st_mode": mode, "st_nlink": 1, "st_size": 4096, **dict.fromkeys(zero, 0)}

    def access(self, path: str, amode: int) -> int:
        if self.locked and amode & os.W_OK and self.node(path).name == "enable":
            raise fuse.FuseOSError(errno.EACCES)  # root too: what an unprivileged gate sees
        return 0

    def readdir(self, path: str, fh: int) -> list[str]:
        return [".", "..", *(self.node(path).names or [])]

    def open(self, path: str, flags: int) -> int:
        node = self.node(path)
        with self.mutex:
            self.handles += 1
            if node.name == "state.json":
                chips = {c: vars(line) for c, line in self.lines.items()}
                self.snapshots[self.handles] = json.dumps({"chips": chips, "writes": self.writes}).encode()
            return self.handles

    def release(self, path: str, fh: int) -> int:
        self.snapshots.pop(fh, None)
        return 0

    def read(self, path: str, size: int, offset: int, fh: int) -> bytes:
        node = self.node(path)
        if node.name == "state.json":
            data = self.snapshots[fh]
        elif node.chip:
            data = (str(1 if node.name == "npwm" else getattr(self.lines[node.chip], node.name, "")) + "\n").encode()
        else:
            data = b""
        return data[offset : offset + size]

    def truncate(self, path: str, length: int, fh: int | None = None) -> int:
        return 0  # a store to a sysfs attribute is whole, whatever was there

    def write(self, path: str, data: bytes, offset: int, fh: int) -> int:
        node = self.node(path)
        if not node.chip:
            raise fuse.FuseOSError(errno.EINVAL)
        text = data.decode().strip()
        with self.mutex:
            try:
                self.lines[node.chip].write(node.name, text)
            except OSError as e:
                self.writes.append(
                    (time.monotonic_ns(), node.chip, node.name, f"{text} -> {errno.errorcode[e.errno or 0]}")
                )
                raise fuse.FuseOSError(e.errno) from e
            self.writes.append((time.monotonic_ns(), node.chip, node.name, text))
        return len(data)

    def ioctl(self, path: str, cmd: int, arg: object, fip: object, flags: int, data: object) -> int:
        if cmd & 0xFFFFFFFF != GPIO_GET_CHIPINFO_IOCTL:
            raise fuse.FuseOSError(errno.ENOTTY)
        name = path.rsplit("/", 1)[-1]
        ctypes.memmove(data, struct.pack("32s32sI", name.encode(), GPIO_CHIPS[name], 128), 68)
        return 0


if __name__ == "__main__":
    fuse.FUSE(
        ThorSysfs(locked=os.environ.get("THOR_SYSFS_LOCKED") == "1"), sys.argv[1],
        foreground=True, direct_io=True, allow_other=True, attr_timeout=0, entry_timeout=0, negative_timeout=0,
    )  # fmt: skip
