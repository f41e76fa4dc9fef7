"""Copying a topic in transactions on three brokers while what coordinates and leads dies: each record once in the end."""

from __future__ import annotations

import queue
import subprocess
import sys
import threading
from pathlib import Path

from confluent_kafka import Producer

from ottla.client import CoordinatorKind
from tests.chaos.world import World
from tests.compat.brokers import coordinator, create, mend
from tests.transactions.copying import records

__all__ = ["copy_through"]

REPOSITORY = Path(__file__).resolve().parents[2]
PARTITIONS = 2
COUNT = 400
PATIENCE_S = 45.0
STARTS_MAX = 5
"""Copiers that may end by themselves: librdkafka gives up what it cannot mend, and whoever runs it begins it again."""


class Copier:
    """`tests.transactions.copier` as a process that is begun again where it ends or is stuck."""

    def __init__(self, world: World, source: str, target: str, name: str) -> None:
        self._arguments = [world.bootstrap, source, target, str(PARTITIONS), name, "7"]
        self._process: subprocess.Popen[str] | None = None
        self._lines: queue.Queue[str] = queue.Queue()
        self.starts = 0
        self.ends: list[str] = []

    def progress(self, transactions: int) -> bool:
        """Return once so many more transactions are committed; True where everything is copied."""
        left = transactions
        while left:
            if self._process is None:
                self._start()
            try:
                line = self._lines.get(timeout=PATIENCE_S)
            except queue.Empty:
                line = "ended: nothing for too long"
            if line == "done":
                return True
            if line.isdigit():
                left -= 1
            else:
                self.ends.append(line)
                self.stop()
        return False

    def _start(self) -> None:
        self.starts += 1
        assert self.starts <= STARTS_MAX, self.ends
        command = [sys.executable, "-m", "tests.transactions.copier", *self._arguments]
        self._process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=REPOSITORY
        )
        self._lines = queue.Queue()
        threading.Thread(target=_read, args=(self._process, self._lines), daemon=True).start()

    def stop(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


def _read(process: subprocess.Popen[str], lines: queue.Queue[str]) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        lines.put(line.strip())
    lines.put("ended: the process")


def copy_through(world: World, name: str, deaths: tuple[str, ...], *, count: int = COUNT) -> Copier:
    """Copy numbered records while brokers die; AssertionError where one is missing, or there twice."""
    source, target = f"{name}-in", f"{name}-out"
    create(world, source, PARTITIONS)
    create(world, target, PARTITIONS)
    writer = Producer({"bootstrap.servers": world.bootstrap, "acks": "all", "enable.idempotence": True})
    for number in range(count):
        writer.produce(source, b"%d" % number, partition=number % PARTITIONS)
    assert writer.flush(30) == 0
    copier = Copier(world, source, target, name)
    try:
        is_done = copier.progress(3)
        for what in deaths:
            if is_done:
                break
            victim = _victim(world, what, name, target)
            world.kill(victim)
            is_done = copier.progress(3)
            mend(world, source, target, "__transaction_state", "__consumer_offsets")
        while not is_done:
            is_done = copier.progress(50)
    finally:
        copier.stop()
    found = records(world.bootstrap, target, partitions=PARTITIONS)
    by_partition = [[int(value) for index, _, value in found if index == wanted] for wanted in range(PARTITIONS)]
    assert by_partition == [list(range(wanted, count, PARTITIONS)) for wanted in range(PARTITIONS)], copier.ends
    return copier


def _victim(world: World, what: str, name: str, target: str) -> int:
    match what:
        case "transactions":
            return coordinator(world, name, CoordinatorKind.TRANSACTION)
        case "group":
            return coordinator(world, name)
        case "leader":
            found = world.leader_of(target)
        case _:
            found = world.controller()
    assert found is not None, f"there is no {what}"
    return found
