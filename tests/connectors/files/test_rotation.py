"""Each line of a log arrives once and in order, whatever rotates the log meanwhile, and whenever the task starts again."""

from __future__ import annotations

import gzip
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ottla.connectors.files import FolderSourceTask, followed_log
from tests.connectors.contexts import Store, polled, started, until
from tests.connectors.files.rotating import line

QUICK = {"scan.interval.ms": "1", "poll.interval.ms": "1"}


def follow(pattern: Path | str, store: Store | None = None, **more: str) -> FolderSourceTask:
    return started(FolderSourceTask(), {"topic": "lines", "paths": str(pattern), **QUICK, **more}, store)


def values(records: list[Any]) -> list[str]:
    return [each.value for each in records]


@pytest.mark.parametrize("how", ["rename", "gzip", "timed"])
def test_a_log_that_its_writer_rotates_is_read_once_and_in_order(tmp_path: Path, how: str) -> None:
    count, path = 12_000, tmp_path / "app.log"
    task = follow(tmp_path / "app*", **{"scan.interval.ms": "200"})
    writer = subprocess.Popen([sys.executable, "-m", "tests.connectors.files.rotating", how, str(path), str(count)])
    try:
        found = values(until(task, lambda records: len(records) >= count))
    finally:
        writer.wait(30)
    assert len(list(tmp_path.iterdir())) > (1 if how == "timed" else 10), "nothing was rotated"
    assert found + values(polled(task)) == [line(number) for number in range(count)]


class Log:
    """A log with a writer and a rotation that act one after the other, in one process."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "app.log"
        self.written: list[str] = []
        self.file = self.path.open("ab", buffering=0)
        self.half = b""

    def write(self, random: random.Random) -> None:
        text = b""
        for _ in range(random.randrange(1, 60)):
            made = f"{len(self.written):06d} " + "x" * random.randrange(40)
            self.written.append(made)
            text += made.encode() + b"\n"
        cut = random.randrange(len(text)) if random.random() < 0.3 else len(text)
        self.file.write(self.half + text[:cut])
        self.half = text[cut:]

    def settle(self) -> None:
        self.file.write(self.half)
        self.half = b""

    def _shift(self, first: Callable[[str], object]) -> None:
        self.settle()
        for number in range(40, 0, -1):
            for suffix in ("", ".gz"):
                old = f"{self.path}.{number}{suffix}"
                if os.path.exists(old):
                    os.rename(old, f"{self.path}.{number + 1}{suffix}")
        first(f"{self.path}.1")

    def rename(self, _: random.Random) -> None:
        self._shift(lambda target: os.rename(self.path, target))
        self.file = self.path.open("ab", buffering=0)

    def compress(self, _: random.Random) -> None:
        self._shift(lambda target: packed(self.path, target + ".gz"))
        self.file = self.path.open("ab", buffering=0)

    def compress_later(self, _: random.Random) -> None:
        for number in range(40, 0, -1):
            if os.path.exists(f"{self.path}.{number}"):
                packed(f"{self.path}.{number}", f"{self.path}.{number}.gz")
                return

    def copy_and_truncate(self, _: random.Random) -> None:
        self._shift(lambda target: shutil.copy2(self.path, target))
        os.truncate(self.path, 0)


def packed(source: str | Path, target: str) -> None:
    with open(source, "rb") as file, gzip.open(target, "wb") as made:
        shutil.copyfileobj(file, made)
    shutil.copystat(source, target)
    os.unlink(source)


@pytest.mark.parametrize("seed", range(12))
def test_no_line_is_lost_doubled_or_moved_by_any_order_of_writing_rotation_and_restarts(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(followed_log, "COPY_WAIT_S", 0.1)
    chance = random.Random(seed)
    log, store = Log(tmp_path), Store()
    pattern = tmp_path / ("app*" if seed % 3 else "app.log")
    log.write(chance)
    log.settle()
    task, found, kept = begun(pattern, store)
    acts = [log.rename, log.compress, log.compress_later, log.copy_and_truncate]
    for _ in range(60):
        what = chance.random()
        if what < 0.5:
            log.write(chance)
        elif what < 0.65:
            chance.choice(acts)(chance)
        elif what < 0.95:
            if records := once(task):
                found += values(records)
                if chance.random() < 0.6:
                    store.take(records)
                    kept = len(found)
        else:  # killed: what was not stored is read again
            task, found = follow(pattern, store), found[:kept]
    log.settle()
    found += values(until(task, lambda records: len(found) + len(records) >= len(log.written)))
    assert found == log.written, f"seed {seed}"


def begun(pattern: Path, store: Store) -> tuple[FolderSourceTask, list[str], int]:
    """Return a task that has seen the log once, for it cannot know what was rotated out of its patterns before."""
    task = follow(pattern, store)
    records = until(task, bool)
    store.take(records)
    return task, values(records), len(records)


def once(task: FolderSourceTask) -> list[Any]:
    """Look once, without waiting for more."""
    task.wait_s = 0.0
    try:
        return polled(task)
    finally:
        del task.wait_s


def all_of(task: FolderSourceTask, log: Log, found: list[str]) -> list[str]:
    return found + values(until(task, lambda records: len(found) + len(records) >= len(log.written)))


def test_a_log_truncated_and_then_removed_before_the_next_look_is_not_taken_for_what_it_held_before(
    tmp_path: Path,
) -> None:
    """Its second content was compressed too: it was read once from the open file, and once from the compressed one."""
    chance = random.Random(78)
    log = Log(tmp_path)
    log.write(chance)
    log.settle()
    task, found, _ = begun(log.path, Store())
    for act in (log.write, log.copy_and_truncate, log.compress_later, log.write, log.compress, log.write):
        act(chance)
    log.settle()
    assert all_of(task, log, found) == log.written


def test_a_log_copied_truncated_and_removed_before_it_was_read_at_all_comes_after_its_copy(tmp_path: Path) -> None:
    """Its age was that of its first sight, when it was empty: so what it held last was read before what it held first."""
    chance = random.Random(32)
    log = Log(tmp_path)
    log.write(chance)
    log.settle()
    task, found, _ = begun(tmp_path / "app*", Store())
    log.rename(chance)
    assert once(task) == []
    for act in (log.write, log.copy_and_truncate, log.write, log.compress, log.write):
        act(chance)
    log.settle()
    assert all_of(task, log, found) == log.written
