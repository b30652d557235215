"""Tasks, request ids, events and the audit on disk (SQLite), so that a restart never repeats a motion.

One thread does all of it, in order; `await store.done(...)` returns after the commit has reached the disk.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from wardarm.v1 import record_pb2, task_pb2

T = TypeVar("T")
SCHEMA = 1
_TABLES = """
CREATE TABLE IF NOT EXISTS tasks (
  number INTEGER PRIMARY KEY AUTOINCREMENT, task_id TEXT UNIQUE NOT NULL, request_id TEXT UNIQUE NOT NULL,
  body_sha256 BLOB NOT NULL, state INTEGER NOT NULL, message BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS events (
  task_id TEXT NOT NULL, sequence INTEGER NOT NULL, message BLOB NOT NULL, PRIMARY KEY (task_id, sequence)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS audit (
  sequence INTEGER PRIMARY KEY AUTOINCREMENT, time_ns INTEGER NOT NULL, actor TEXT NOT NULL, action TEXT NOT NULL,
  task_id TEXT NOT NULL, detail TEXT NOT NULL, accepted INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value TEXT NOT NULL);
"""


def _log_failure(future: Future[Any]) -> None:
    error = future.exception()
    if error is not None:
        logging.getLogger("wardarm").error("state not stored", exc_info=error)


class StoreUnusable(RuntimeError):
    """The state directory cannot be used; the text names it and what to do."""


class Store:
    """`directory` is made if it is missing. Raises StoreUnusable."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / "tasks.sqlite"
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="store")
        self._thread.submit(self._open).result()

    def _open(self) -> None:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._db = sqlite3.connect(self.path, isolation_level=None)
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA synchronous = FULL")  # a task that was answered survives a power cut
            version = self._db.execute("PRAGMA user_version").fetchone()[0]
            if version not in (0, SCHEMA):
                raise StoreUnusable(f"{self.path}: schema {version}, this version reads {SCHEMA}; move the file away")
            self._db.executescript(_TABLES)
            self._db.execute(f"PRAGMA user_version = {SCHEMA}")
        except (OSError, sqlite3.Error) as e:
            raise StoreUnusable(
                f"api.state_dir: {self.path}: {e}; is the folder writable and the disk not full?"
            ) from e

    def later(self, work: Callable[[], T]) -> Future[T]:
        """Queue work on the store's thread. A failure is logged, whether or not somebody awaits the result."""
        future = self._thread.submit(work)
        future.add_done_callback(_log_failure)
        return future

    async def done(self, work: Callable[[], T]) -> T:
        return await asyncio.wrap_future(self.later(work))

    def close(self) -> None:
        self._thread.submit(self._db.close).result()
        self._thread.shutdown()

    # Everything below runs on the store's thread.

    def insert_task(self, task: Any, body_sha256: bytes) -> None:
        self._db.execute(
            "INSERT INTO tasks (task_id, request_id, body_sha256, state, message) VALUES (?, ?, ?, ?, ?)",
            (task.task_id, task.request_id, body_sha256, task.state, task.SerializeToString()),
        )

    def save_task(self, task: Any, event: Any | None) -> None:
        """The task as it is now and the event that made it so, in one transaction."""
        with self._db:
            self._db.execute("BEGIN")
            self._db.execute(
                "UPDATE tasks SET state = ?, message = ? WHERE task_id = ?",
                (task.state, task.SerializeToString(), task.task_id),
            )
            if event is not None:
                self._db.execute(
                    "INSERT OR REPLACE INTO events VALUES (?, ?, ?)",
                    (task.task_id, event.sequence, event.SerializeToString()),
                )

    def by_request(self, request_id: str) -> tuple[Any, bytes] | None:
        row = self._db.execute("SELECT message, body_sha256 FROM tasks WHERE request_id = ?", (request_id,)).fetchone()
        return (task_pb2.Task.FromString(row[0]), row[1]) if row else None

    def task(self, task_id: str) -> Any | None:
        row = self._db.execute("SELECT message FROM tasks WHERE task_id = ?", (task_id,)).fetchone()
        return task_pb2.Task.FromString(row[0]) if row else None

    def tasks(self, limit: int, before_task_id: str) -> list[Any]:
        below = "(SELECT number FROM tasks WHERE task_id = ?)" if before_task_id else "?"
        key: object = before_task_id or 2**62
        rows = self._db.execute(
            f"SELECT message FROM tasks WHERE number < {below} ORDER BY number DESC LIMIT ?", (key, limit)
        )
        return [task_pb2.Task.FromString(r[0]) for r in rows]

    def tasks_in(self, states: list[int]) -> list[Any]:
        marks = ",".join("?" * len(states))
        rows = self._db.execute(f"SELECT message FROM tasks WHERE state IN ({marks}) ORDER BY number", states)
        return [task_pb2.Task.FromString(r[0]) for r in rows]

    def events(self, task_id: str, after: int) -> list[Any]:
        rows = self._db.execute(
            "SELECT message FROM events WHERE task_id = ? AND sequence > ? ORDER BY sequence", (task_id, after)
        )
        return [task_pb2.TaskEvent.FromString(r[0]) for r in rows]

    def add_audit(self, actor: str, action: str, task_id: str, detail: str, accepted: bool) -> None:
        self._db.execute(
            "INSERT INTO audit (time_ns, actor, action, task_id, detail, accepted) VALUES (?, ?, ?, ?, ?, ?)",
            (time.time_ns(), actor, action, task_id, detail, int(accepted)),
        )

    def audit(self, limit: int, before: int) -> list[Any]:
        rows = self._db.execute(
            "SELECT sequence, time_ns, actor, action, task_id, detail, accepted FROM audit WHERE sequence < ? "
            "ORDER BY sequence DESC LIMIT ?",
            (before or 2**62, limit),
        )
        out = []
        for sequence, time_ns, actor, action, task_id, detail, accepted in rows:
            event = record_pb2.AuditEvent(
                sequence=sequence, actor=actor, action=action, task_id=task_id, detail=detail, accepted=bool(accepted)
            )
            event.time.FromNanoseconds(time_ns)
            out.append(event)
        return out

    def fact(self, name: str) -> str:
        row = self._db.execute("SELECT value FROM facts WHERE name = ?", (name,)).fetchone()
        return str(row[0]) if row else ""

    def set_fact(self, name: str, value: str) -> None:
        self._db.execute("INSERT OR REPLACE INTO facts VALUES (?, ?)", (name, value))
