"""Logs: one JSON object a line, to stdout (journald) or to `log.directory/<process>.jsonl`.

    log = journal.setup("arm", config)
    log.info("plan refused", extra={"task_id": "t-17", "raw_id": 4, "status": "COLLISION"})

gives `{"time": "2026-01-02T03:04:05.678Z", "level": "info", "process": "arm", "event": "plan refused", "task_id": ...}`.
Fields of `extra` may be anything that JSON knows, numpy scalars and arrays, paths and enums; the few names that
`logging` keeps for itself (`name`, `msg`, `args`, `module`, `process`, `thread`, ...) raise KeyError there.
`ids(task_id=..., incident_id=...)` adds fields to every line written inside its block.
"""

from __future__ import annotations

import contextlib
import contextvars
import enum
import json
import logging
import logging.handlers
import math
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from wardarm.config import Config

FILE_BYTES = 20_000_000  # a file turns over here; a day of info lines of a busy arm is about 5 MB
FILES_KEPT = 3
_OWN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_LEVELS = {
    logging.DEBUG: ("debug", 7),
    logging.INFO: ("info", 6),
    logging.WARNING: ("warning", 4),
    logging.ERROR: ("error", 3),
    logging.CRITICAL: ("error", 2),
}  # name, journald priority
_ids: contextvars.ContextVar[dict[str, str]] = contextvars.ContextVar("wardarm_ids")


def _plain(value: Any) -> Any:
    """What json cannot write itself: numpy through `tolist`, enums by name, bytes as text, anything else as str."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return value.tolist() if hasattr(value, "tolist") else str(value)


def _finite(value: Any) -> Any:
    """JSON has no NaN and no infinity: they become text. Enums (IntEnum too) become their names."""
    if isinstance(value, enum.Enum):
        return value.name
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {str(k): _finite(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(v) for v in value]
    if hasattr(value, "tolist"):
        return _finite(value.tolist())
    return value


class JsonLines(logging.Formatter):
    """`priority_prefix`: put journald's `<N>` in front (it strips it and stores PRIORITY=N)."""

    def __init__(self, process: str, priority_prefix: bool = False) -> None:
        super().__init__()
        self.process, self.priority_prefix = process, priority_prefix

    def format(self, record: logging.LogRecord) -> str:
        level, priority = _LEVELS.get(record.levelno, ("info", 6))
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03d}Z"
        line: dict[str, Any] = {"time": stamp, "level": level, "process": self.process, "event": record.getMessage()}
        line |= _ids.get({})
        line |= {key: _finite(value) for key, value in vars(record).items() if key not in _OWN}
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        text = json.dumps(line, ensure_ascii=False, default=_plain)
        return f"<{priority}>{text}" if self.priority_prefix else text


@contextlib.contextmanager
def ids(**fields: str) -> Iterator[None]:
    """Every line of this thread or task inside the block carries these fields (task_id, incident_id)."""
    token = _ids.set(_ids.get({}) | fields)
    try:
        yield
    finally:
        _ids.reset(token)


def _stdout_is_journald() -> bool:
    """systemd sets JOURNAL_STREAM=DEVICE:INODE of the stream it connected."""
    try:
        stat = os.fstat(sys.stdout.fileno())
    except (OSError, ValueError):
        return False
    return os.environ.get("JOURNAL_STREAM") == f"{stat.st_dev}:{stat.st_ino}"


def setup(process: str, config: Config) -> logging.Logger:
    """The logger of this process. Calling it again replaces the output. Raises OSError if the directory cannot be made."""
    handler: logging.Handler
    if config.log.directory:
        directory = Path(config.log.directory)
        directory.mkdir(parents=True, exist_ok=True)
        handler = logging.handlers.RotatingFileHandler(
            directory / f"{process}.jsonl", maxBytes=FILE_BYTES, backupCount=FILES_KEPT, encoding="utf-8", delay=True
        )
        handler.setFormatter(JsonLines(process))
    else:
        handler = logging.StreamHandler(sys.stdout)
        handler.setFormatter(JsonLines(process, _stdout_is_journald()))
    log = logging.getLogger("wardarm")
    for old in list(log.handlers):
        log.removeHandler(old)
        old.close()
    log.addHandler(handler)
    log.setLevel(config.log.level.upper())
    log.propagate = False
    return log
