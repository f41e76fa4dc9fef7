"""Exactly once: a copy loop whose broker and whose client are killed at random, and whose output is the input once each."""

from __future__ import annotations

import queue
import random
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.server import Server, start_server
from tests.transactions.copying import create, records

PARTITIONS = 3
RECORDS_PER_KILL = 60
TRANSACTIONS_BEFORE_A_KILL_MAX = 6
PATIENCE_S = 4.0
STARTS_MAX = 3
"""Copiers that may end by themselves for each kill: a broker that comes back can be too late for one."""
REPOSITORY = Path(__file__).resolve().parents[2]


@dataclass
class Chaos:
    """The broker, the copier, and what has been done to them."""

    folder: Path
    seed: int
    rng: random.Random
    server: Server
    copier: subprocess.Popen[str] | None = None
    lines: queue.Queue[str] = field(default_factory=queue.Queue)
    broker_kills: int = 0
    client_kills: int = 0
    starts: int = 0
    transactions: int = 0
    stuck: int = 0
    ends: list[str] = field(default_factory=list)

    def start_copier(self) -> subprocess.Popen[str]:
        """Begin to copy, on from what is committed."""
        self.starts += 1
        names = [self.server.bootstrap, "in", "out", str(PARTITIONS), "copier", str(self.rng.randrange(1 << 30))]
        self.copier = subprocess.Popen(
            [sys.executable, "-m", "tests.transactions.copier", *names],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            cwd=REPOSITORY,
        )
        self.lines = queue.Queue()
        threading.Thread(target=_read, args=(self.copier, self.lines), daemon=True).start()
        return self.copier

    def progress(self, transactions: int) -> bool:
        """Return once so many more transactions are committed; True where everything is copied."""
        left = transactions
        while left:
            if self.copier is None:
                self.start_copier()
            try:
                line = self.lines.get(timeout=PATIENCE_S)
            except queue.Empty:  # librdkafka can wait for ever to send a TxnOffsetCommit after its connection broke
                self.stuck += 1
                self.stop_copier()
                continue
            if line == "done":
                return True
            if line.isdigit():
                left -= 1
                self.transactions += 1
                continue
            self.ends.append(line)
            self.stop_copier()
        return False

    def kill(self) -> None:
        """Kill one of the two in the middle of what it does."""
        time.sleep(self.rng.random() * 0.02)
        if self.rng.random() < 0.5:
            port = self.server.port
            self.server.kill()
            self.broker_kills += 1
            self.server = start_server(self.folder, port=port)
        else:
            self.client_kills += 1
            self.stop_copier()

    def stop_copier(self) -> None:
        """Kill the copier, if it is there."""
        if self.copier is not None:
            self.copier.kill()
            self.copier.wait()
            self.copier = None


def _read(copier: subprocess.Popen[str], lines: queue.Queue[str]) -> None:
    """Hand on what a copier prints, and last that it has ended."""
    assert copier.stdout is not None
    for line in copier.stdout:
        lines.put(line.strip())
    lines.put("ended")


def fill(server: Server, count: int) -> list[list[bytes]]:
    """Write numbered records into the source; return them by partition."""
    create(server.bootstrap, "in", "out", partitions=PARTITIONS)
    writer = Producer({"bootstrap.servers": server.bootstrap, "enable.idempotence": True, "linger.ms": 5})
    written: list[list[bytes]] = [[] for _ in range(PARTITIONS)]
    for number in range(count):
        value = b"%d" % number
        writer.produce("in", value, partition=number % PARTITIONS)
        written[number % PARTITIONS].append(value)
    assert writer.flush(60) == 0
    return written


def copy_under_kills(folder: Path, kills: int, seed: int) -> Chaos:
    """Copy while killing so often; returns when everything is copied, and checks that it is there once each."""
    chaos = Chaos(folder, seed, random.Random(seed), start_server(folder))
    try:
        written = fill(chaos.server, kills * RECORDS_PER_KILL)
        for _ in range(kills):
            if chaos.progress(chaos.rng.randint(1, TRANSACTIONS_BEFORE_A_KILL_MAX)):
                break
            chaos.kill()
        while not chaos.progress(1):
            assert chaos.starts < STARTS_MAX * kills, f"it does not come to an end: {chaos.ends} (seed {seed})"
        copied: list[list[bytes]] = [[] for _ in range(PARTITIONS)]
        for partition, _, value in records(chaos.server.bootstrap, "out", partitions=PARTITIONS):
            copied[partition].append(value)
        assert copied == written, f"seed {seed}"
    finally:
        chaos.stop_copier()
        chaos.server.stop()
    return chaos


def test_ten_kills_and_the_output_is_the_input_once_each_in_order(tmp_path: Path) -> None:
    chaos = copy_under_kills(tmp_path, kills=10, seed=2)
    assert chaos.broker_kills + chaos.client_kills == 10


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_a_hundred_kills_and_the_output_is_the_input_once_each_in_order(tmp_path: Path) -> None:
    chaos = copy_under_kills(tmp_path, kills=100, seed=3)
    print(
        f"\n{chaos.broker_kills} kills of the broker, {chaos.client_kills} of the client, "
        f"{chaos.transactions} transactions, {chaos.starts} copiers begun, {len(chaos.ends)} ended by themselves, "
        f"{chaos.stuck} stuck in the client library"
    )
    assert chaos.broker_kills + chaos.client_kills == 100
