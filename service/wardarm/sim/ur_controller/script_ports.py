"""The primary, secondary and real-time ports: they take scripts and stream the robot's state.

30001 primary: state at 10 Hz, messages, program state. 30002 secondary: state and the version message. 30003 real-time:
the 1220-byte packet at 500 Hz. 30011 to 30013 stream the same and take nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from wardarm.sim.ur_controller import streams
from wardarm.sim.ur_controller.connection import Connection, Service

if TYPE_CHECKING:
    from wardarm.sim.ur_controller.controller import Controller
    from wardarm.sim.ur_controller.program_slot import Launch

PRIMARY, SECONDARY, REAL_TIME = 30001, 30002, 30003
PORTS = (PRIMARY, SECONDARY, REAL_TIME)
READ_ONLY_PORTS = (30011, 30012, 30013)
STATE_CYCLES = 50  # 10 Hz ("Primary client interface")
_BEGIN = re.compile(rb"[ \t\r\n]*(?:#[^\n]*\n[ \t\r\n]*)*(def|sec)\b")
# In the first column: what opens a block and what ends one. Indented lines never end a program, whatever is wrong in them.
_BLOCKS = re.compile(
    rb"^(?:(?P<opens>def|sec|thread|if|while)\b[^\n]*\n|end[ \t\r]*(?:#[^\n]*)?(?:\n|\Z))", re.MULTILINE
)
_CLOSED_IN_LINE = re.compile(rb":[^\n#]*\bend[ \t\r]*(?:#[^\n]*)?\n\Z")
_NEXT_PROGRAM = re.compile(rb"^[ \t]*(?:def|sec)\b", re.MULTILINE)
_SECONDARY = re.compile(r"secondary program (\S+): (.*)", re.DOTALL)
_STOPPED = re.compile(r"program (\S+) stopped: (.*)", re.DOTALL)
_PROGRAM = re.compile(r"program (\S+) (started|ended|stopped)")
_SAFETY = re.compile(r"[A-Z_]+(: .*| over)", re.DOTALL)
_CODES = {"VIOLATION": (192, streams.VIOLATION), "FAULT": (193, streams.FAULT)}  # the real one has a code a cause

# Lines that no manual lists; Universal Robots' client library (`PrimaryClient`) sends them
COMMANDS = (
    "stop program", "pause program", "resume program", "power on", "power off", "set robotmode run", "set unlock protective stop",
)  # fmt: skip
_SET_SPEED = re.compile(r"set speed (\d+(?:\.\d*)?|\.\d+)")  # published guides send it: the speed slider, 0 to 1


def is_command(line: str) -> bool:
    return line in COMMANDS or _SET_SPEED.fullmatch(line) is not None


def obey(c: Controller, command: str) -> None:
    """One of `COMMANDS`, or `set speed FRACTION`."""
    if (speed := _SET_SPEED.fullmatch(command)) is not None:
        if float(speed[1]) > 1:
            c.note(f"{command} refused: the speed slider takes 0 to 1")
        else:
            c.slider = float(speed[1])
        return
    match command:
        case "stop program":
            c.stop_program()
        case "pause program":
            c.pause()
        case "resume program":
            c.slot.resume()
        case "power on":
            c.safety.power_on(c.time_s)
        case "power off":
            c.stop_program()
            c.safety.power_off()
        case "set robotmode run":
            c.safety.brake_release(c.time_s)
        case "set unlock protective stop":
            c.safety.unlock_at_once(c.time_s)


class ScriptPort(Service):
    """A program begins with `def` or `sec` and ends with its `end` in the first column; anything else is one line.

    A line can also be a command (`obey`). What follows a program in the same breath and is no program of its own waits until
    that one is compiled: if it was no URScript, the rest belongs to it and is dropped with it.
    """

    def __init__(self, controller: Controller, port: int) -> None:
        super().__init__(port)
        self.controller = controller
        self.takes = port in PORTS
        self.kind = port if self.takes else port - 10
        self._news: list[bytes] = []
        self._safety = controller.safety.mode
        self._known: list[str] = []
        self._greeted: set[Connection] = set()
        self._searched: dict[Connection, tuple[int, int]] = {}
        """How far an unfinished program was searched, and how many blocks are open there."""
        self._launched: dict[Connection, Launch] = {}
        self.pending = self._launched
        if self.kind == PRIMARY:
            controller.listeners.append(self._heard)

    # --- scripts in
    def received(self, link: Connection) -> None:
        if not self.takes:
            link.buffer.clear()
            return
        while not self._held(link) and (source := self._next(link)) is not None:
            text = source.decode("utf-8", "surrogateescape")
            if not text.strip():
                continue
            command = " ".join(text.split())
            if command == "end":
                self.controller.note(f"port {self.port}: 'end' without a program was dropped")
            elif not is_command(command):
                launch = self.controller.submit(text)
                if _BEGIN.match(source):
                    self._launched[link] = launch
            elif self.controller.remote:
                obey(self.controller, command)
            else:
                self.controller.note(f"{command} refused: the robot is in local control")

    def _go_on(self, link: Connection) -> None:
        """The program before what waits is compiled."""
        if link.buffer.strip():
            self.received(link)
        if link.dead and link not in self._launched:
            self.closed(link)
        elif not link.buffer.strip():
            self._launched.pop(link, None)

    def _held(self, link: Connection) -> bool:
        """Whether what comes now must wait for the program before it."""
        launch = self._launched.get(link)
        if launch is None or not link.buffer.strip():
            return False
        if launch.outcome is None:
            return _BEGIN.match(link.buffer) is None
        del self._launched[link]
        if launch.garbled and _BEGIN.match(link.buffer) is None:
            begins = _NEXT_PROGRAM.search(link.buffer)
            rest = link.buffer[: begins.start()] if begins else link.buffer
            self.controller.note(
                f"port {self.port}: {len(rest)} bytes after a program with an error in it were dropped"
            )
            del link.buffer[: len(rest)]
        return False

    def _next(self, link: Connection) -> bytearray | None:
        """The next complete program or line, taken out of the buffer."""
        buffer = link.buffer
        searched = self._searched.get(link)  # a long program comes in many pieces: only what is new is looked at
        begin = _BEGIN.match(buffer) if searched is None else None
        if searched is not None or begin is not None:
            first = 0 if begin is None else buffer.find(b"\n", begin.end()) + 1
            if begin is not None and not first:
                return None
            at, open_blocks = searched or (first, int(not _CLOSED_IN_LINE.search(buffer[:first])))
            while open_blocks and (found := _BLOCKS.search(buffer, at)) is not None:
                at = found.end()
                if not found["opens"]:
                    open_blocks -= 1
                elif not _CLOSED_IN_LINE.search(found[0]):
                    open_blocks += 1
            if open_blocks:
                self._searched[link] = max(at, buffer.rfind(b"\n") + 1), open_blocks
                return None
            end = at
        else:
            end = buffer.find(b"\n") + 1
            if not end:
                return None
        self._searched.pop(link, None)
        source = buffer[:end]
        del buffer[:end]
        return source

    def closed(self, link: Connection) -> None:
        """A client has gone; a program whose end is missing is one that cannot be compiled."""
        if not self.links:
            self._news.clear()
        self._greeted.discard(link)
        self._searched.pop(link, None)
        if link in self._launched and self._launched[link].outcome is None:
            return  # what waits still counts
        self._launched.pop(link, None)
        if self.takes and _BEGIN.match(link.buffer):
            self.controller.submit(link.buffer.decode("utf-8", "surrogateescape"))  # says what is missing
        elif self.takes and link.buffer.strip():
            self.controller.note(f"port {self.port}: {len(link.buffer)} bytes without an end were dropped")

    # --- state out
    def publish(self) -> None:
        if self._launched:
            for link, launch in list(self._launched.items()):
                if launch.outcome is not None:
                    self._go_on(link)
        if not self.links:
            return
        c, news, self._news = self.controller, self._news, []
        if self.kind == REAL_TIME:
            self._send(self.links, streams.real_time_packet(c))
            return
        new = self.links - self._greeted
        if new:
            self._greeted |= new
            self._send(new, streams.version_message(c))
        stopped, self._safety = self._safety is not c.safety.mode, c.safety.mode
        if (
            stopped and self.links != new
        ):  # the state first, so that nobody reads of a stop and still sees the old state
            self._send(self.links - new, streams.robot_state(c))
        if news:
            self._send(self.links, b"".join(news))
        if c.cycle % STATE_CYCLES == 0:
            made = streams.robot_state(c)
            if self.kind == PRIMARY:
                state, self._known = streams.program_state(c, [] if new else self._known)
                made += state
            self._send(self.links, made)
        elif new:
            self._send(new, streams.robot_state(c))

    @staticmethod
    def _send(links: Iterable[Connection], data: bytes) -> None:
        for link in list(links):
            if not link.waiting:  # a client that does not read misses packages
                link.send(data)

    def _heard(self, text: str) -> None:
        """A line of the controller's log becomes a message to the primary clients."""
        if not self.links:
            return
        c = self.controller
        made: list[bytes] = []
        if text.startswith("textmsg: "):
            made.append(streams.text_message(c, text[9:]))
        elif text.startswith("popup "):
            title, _, said = text[6:].partition(": ")
            made.append(streams.popup_message(c, title, said))
        elif stopped := _STOPPED.fullmatch(text):
            made.append(self._exception())
            made.append(streams.key_message(c, "PROGRAM_XXX_STOPPED", stopped[1]))
        elif text.startswith("compile error: "):
            made.append(self._exception())
        elif secondary := _SECONDARY.fullmatch(text):
            made.append(streams.key_message(c, "SECONDARY_PROGRAM_EXCEPTION_XXX", secondary[2]))
        elif program := _PROGRAM.fullmatch(text):
            end = "STARTED" if program[2] == "started" else "STOPPED"
            made.append(streams.key_message(c, f"PROGRAM_XXX_{end}", program[1]))
        elif _SAFETY.fullmatch(text):
            made.append(streams.safety_mode_message(c))
            name, _, why = text.partition(": ")
            if name == "PROTECTIVE_STOP":
                made.append(streams.error_message(c, c.safety.code, 0, streams.WARNING, why))
            elif name in _CODES:
                code, level = _CODES[name]
                made.append(streams.error_message(c, code, 0, level, why))
        self._news += made

    def _exception(self) -> bytes:
        failure = self.controller.slot.failure
        return streams.runtime_exception(self.controller, failure.line, failure.column, failure.text)
