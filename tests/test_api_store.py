"""What is on disk decides: a task that cannot be stored does not start."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from wardarm.api.errors import Refused
from wardarm.api.steps import StepWriter
from wardarm.api.store import Store, StoreUnusable
from wardarm.api.tasks import TaskBook, new_task
from wardarm.config import parse
from wardarm.policy.instruction import ParsedStep
from wardarm.shm import ring
from wardarm.shm.layouts import BlockKind, StepKind
from wardarm.v1 import task_pb2

STEPS = (ParsedStep(StepKind.FETCH, "cup", text="bring me the cup"),)


@pytest.fixture
def prefix() -> Iterator[str]:
    name = f"apistore{os.getpid() % 100000}_"
    yield name
    for file in Path("/dev/shm").glob(f"{name}*"):
        file.unlink()


def test_a_task_that_cannot_be_stored_is_not_started(tmp_path: Path, prefix: str) -> None:
    store = Store(tmp_path)
    book = TaskBook(store, StepWriter(parse({"schema": 1, "shm": {"prefix": prefix}}, "test")))
    store.later(lambda: store._db.execute("DROP TABLE tasks")).result()
    with pytest.raises(Refused) as refused:
        asyncio.run(book.start(new_task("r-1", "bring me the cup", STEPS, "test", ""), b"", STEPS, 1.0, "lease"))
    assert refused.value.reason == "NOT_STORED"
    assert book.active is None
    step = ring.Reader(BlockKind.STEP, prefix).latest()
    assert step is not None
    assert int(step.data["kind"]) == StepKind.NONE


def test_tasks_events_and_audit_outlive_the_store(tmp_path: Path) -> None:
    store = Store(tmp_path)
    task = new_task("r-1", "bring me the cup", STEPS, "test", "p-1")
    store.later(lambda: store.insert_task(task, b"body")).result()
    task.state, task.sequence = task_pb2.TASK_STATE_RUNNING, 1
    store.later(lambda: store.save_task(task, task_pb2.TaskEvent(sequence=1, text_en="accepted"))).result()
    store.later(lambda: store.add_audit("nurse", "pause", task.task_id, "visit", True)).result()
    store.later(lambda: store.set_fact("stopped", "nurse")).result()
    store.close()
    again = Store(tmp_path)
    assert again.later(lambda: again.by_request("r-1")).result() == (task, b"body")
    assert again.later(lambda: again.tasks_in([task_pb2.TASK_STATE_RUNNING])).result() == [task]
    assert [e.text_en for e in again.later(lambda: again.events(task.task_id, 0)).result()] == ["accepted"]
    assert again.later(lambda: again.events(task.task_id, 1)).result() == []
    assert [(e.actor, e.detail) for e in again.later(lambda: again.audit(10, 0)).result()] == [("nurse", "visit")]
    assert again.later(lambda: again.fact("stopped")).result() == "nurse"
    again.close()


def test_a_folder_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(StoreUnusable, match=r"api\.state_dir"):
        Store(tmp_path / "file" / "state")
    (tmp_path / "tasks.sqlite").write_text("not a database, but longer than a header of one" * 10)
    with pytest.raises(StoreUnusable, match=r"tasks\.sqlite"):
        Store(tmp_path)
