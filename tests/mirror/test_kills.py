"""Two clusters mirror each other while brokers and the mirror are killed: nothing acknowledged is lost, and order holds."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Producer

from ottla.base import Offset, TopicPartition
from ottla.client import BlockingClient
from tests.mirror.test_mirroring import QUICK, make, read
from tests.ports import free_port
from tests.server import Server, start_server
from tests.waiting import until

SEED, KILLS = 7, 9
PLACE = TopicPartition("both", 0)
SIDES = ("east", "west")


class Mirror:
    """The mirroring process, started again after each kill."""

    def __init__(self, path: Path) -> None:
        self._path, self._log = path, path.with_suffix(".log").open("ab")
        self.start()

    def start(self) -> None:
        command = [sys.executable, "-m", "ottla.cli.main", "connect-mirror-maker", str(self._path)]
        self.process = subprocess.Popen(command, stdout=self._log, stderr=self._log)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


class Writing:
    """Writes numbers to one side, each until it is acknowledged, and commits how far a reader would be."""

    def __init__(self, bootstrap: str) -> None:
        self.acknowledged: list[int] = []
        self._ended = threading.Event()
        settings = {"bootstrap.servers": bootstrap, "enable.idempotence": True, "log_level": 0, "linger.ms": 1}
        self._producer = Producer({**settings, "message.timeout.ms": 120_000})
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        number = 0
        while not self._ended.wait(0.002):
            number += 1
            mine = number

            def settled(error: object, _message: object, mine: int = mine) -> None:
                assert error is None, error
                self.acknowledged.append(mine)

            self._producer.produce("both", str(number), on_delivery=settled)
            self._producer.poll(0)

    def end(self) -> None:
        self._ended.set()
        self._thread.join()
        assert self._producer.flush(100) == 0


@contextmanager
def cluster(folder: Path) -> Iterator[list[Server]]:
    """A broker at a port of its own, in a list whose element is another one after a kill."""
    folder.mkdir()
    found = [start_server(folder, port=free_port())]
    try:
        yield found
    finally:
        found[0].kill()


@pytest.mark.slow  # Spark, nine kills and a minute; make nightly
def test_clusters_that_mirror_each_other_lose_nothing_when_parts_are_killed(tmp_path: Path) -> None:
    drawn = random.Random(SEED)
    with cluster(tmp_path / "east") as east, cluster(tmp_path / "west") as west:
        servers = dict(zip(SIDES, (east, west), strict=True))
        given = {
            **QUICK,
            "clusters": "east,west",
            **{f"{side}.bootstrap.servers": servers[side][0].bootstrap for side in SIDES},
            "east->west.enabled": "true",
            "west->east.enabled": "true",
            "topics": "both",
            "offset.lag.max": "10",
            **{f"{kind}.storage.replication.factor": "1" for kind in ("config", "offset", "status")},
            **{f"{side}.{name}": value for side in SIDES for name, value in FAST.items()},
        }
        path = tmp_path / "mm2.properties"
        path.write_text("".join(f"{key}={value}\n" for key, value in given.items()))
        clients = {side: BlockingClient(servers[side][0].bootstrap) for side in SIDES}
        for client in clients.values():
            make(client, "both", 1)
        mirror = Mirror(path)
        writing = {side: Writing(servers[side][0].bootstrap) for side in SIDES}
        try:
            for _ in range(KILLS):
                before = {side: _mirrored(clients, side) for side in SIDES}
                until(lambda before=before: all(_mirrored(clients, each) > before[each] for each in SIDES), "progress")
                _commit(clients, writing)
                what = drawn.choice(("mirror", *SIDES))
                if what == "mirror":
                    mirror.kill()
                    mirror.start()
                else:
                    port, folder = servers[what][0].port, servers[what][0].folder
                    servers[what][0].kill()
                    servers[what][0] = start_server(folder, port=port)
            for each in writing.values():
                each.end()
            for side in SIDES:
                _check_arrived(clients, side, writing[side].acknowledged)
        finally:
            mirror.kill()
            for each in writing.values():
                each.end()
            for client in clients.values():
                client.close()


FAST = {
    "heartbeat.interval.ms": "300",
    "session.timeout.ms": "6000",
    "scheduled.rebalance.max.delay.ms": "200",
    "offset.flush.interval.ms": "300",
}


def _mirrored(clients: dict[str, BlockingClient], side: str) -> int:
    other = SIDES[1 - SIDES.index(side)]
    try:
        return len(_numbers(clients[other], f"{side}.both"))
    except Exception:  # the broker is just started again
        return 0


def _numbers(client: BlockingClient, topic: str) -> list[int]:
    return [int(each.value or b"0") for each in read(client, topic)]


def _commit(clients: dict[str, BlockingClient], writing: dict[str, Writing]) -> None:
    for side in SIDES:
        offset = max(1, len(writing[side].acknowledged) // 2)
        clients[side].commit_offsets("readers", {PLACE: Offset(offset)})


def _check_arrived(clients: dict[str, BlockingClient], side: str, acknowledged: list[int]) -> None:
    """All that one side has acknowledged is on the other, each for the first time in its order; so are groups' places."""
    other, wanted = SIDES[1 - SIDES.index(side)], set(acknowledged)
    until(lambda: wanted <= set(_numbers(clients[other], f"{side}.both")), lambda: len(wanted))
    first = list(dict.fromkeys(_numbers(clients[other], f"{side}.both")))
    assert first == sorted(first)
    _check_translated(clients, side, other)


def _check_translated(clients: dict[str, BlockingClient], side: str, other: str) -> None:
    """Whoever goes on at the other cluster misses nothing: no record behind its place there was unread here."""
    remote = TopicPartition(f"{side}.both", 0)

    def synced() -> bool:
        return remote in clients[other].committed_offsets("readers")

    until(synced, lambda: clients[other].committed_offsets("readers"))
    upstream = clients[side].committed_offsets("readers")[PLACE].offset
    translated = clients[other].committed_offsets("readers")[remote].offset
    unread = set(_numbers(clients[side], "both")[int(upstream) :])
    assert unread <= set(_numbers(clients[other], f"{side}.both")[int(translated) :])
