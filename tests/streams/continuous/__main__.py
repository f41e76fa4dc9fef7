"""`make chaos-streams MODE=continuous`: hosts of a service killed at named steps and in between, and the broker.

Two applications count words exactly once on two hosts, each with a repartition topic and state in changelogs, checkpoints
and a standby of each task. In the end each has every count of every word once, in order, up to what was sent. With
`--spark` hosts are tasks of a Spark cluster of two workers on this machine, and its executors are killed, too.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import tempfile
import threading
import time
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

from ottla.admin import delete_topics
from ottla.base import KafkaError, Offset, TopicPartition
from ottla.client import LATEST, BlockingClient, delete_records
from ottla.spark import session
from ottla.spark.continuous.jobs import SparkHostJobs
from ottla.spark.continuous.sessions import hosts_settings
from ottla.spark.failpoints import FOLDER
from tests.ports import free_port
from tests.server import Server, start_server
from tests.streams.continuous.hosts import ROOT, ProcessHostJobs
from tests.streams.continuous.worlds import World, counting
from tests.waiting import until

STEPS = (
    "continuous: before offsets",
    "continuous: before EndTxn",
    "continuous: after EndTxn",
    "continuous: before a checkpoint",
    "continuous: after a checkpoint",
)
RETENTION, MADE_AGAIN = "retention", "input made again"
KINDS = (*STEPS, "host", "both hosts", "pause", "broker", "damaged checkpoints", RETENTION, MADE_AGAIN)
ON_SPARK = "executor"
TRANSACTION_MS = 2_000
PAUSE_SECONDS = 3.0
"""Longer than a transaction lives."""
WORDS = 40
END_SECONDS_MAX = 180.0
OVERRIDES = (
    "group.initial.rebalance.delay.ms=0",
    "group.min.session.timeout.ms=1000",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms=500",
)


class Chaos:
    """A service that counts, what was sent, and what is done to it."""

    def __init__(self, folder: Path, rng: random.Random, *, on_spark: bool = False) -> None:
        self._folder, self._rng = folder, rng
        self._port = free_port()
        self._broker: Server = start_server(folder, port=self._port, overrides=OVERRIDES)
        self.client = BlockingClient(self._broker.bootstrap)
        self._spark = _cluster_session(folder) if on_spark else None
        jobs: Any = ProcessHostJobs() if self._spark is None else SparkHostJobs(self._spark)
        self.worst_s = 0.0
        """The longest that results were waited for."""
        self.world = World("chaos", self.client, folder / "state")
        self.world.topics("second", "second-out")
        service = self.world.service(jobs, hosts=2)
        more = {"processing_guarantee": "exactly_once_v2", "producer_transaction_timeout_ms": TRANSACTION_MS}
        more |= {"num_standby_replicas": 1, "state_checkpoint_interval_ms": 200}
        self.sources = {"chaos": Counter[str](), "second": Counter[str]()}
        self.applications = [
            service.add(counting(source), self.world.settings(application_id=f"app-{source}", **more))
            for source in self.sources
        ]
        assert all(each.wait_running(END_SECONDS_MAX) for each in self.applications)

    def feed(self) -> None:
        """Send some lines to both."""
        for source, given in self.sources.items():
            words = [f"w{self._rng.randrange(WORDS)}" for _ in range(self._rng.randint(1, 6))]
            self.world.feed(" ".join(words), partition=self._rng.randrange(2), topic=source)
            given.update(words)

    def break_something(self, kind: str) -> None:
        """Do one kind of harm, in the midst of records."""
        if kind in STEPS:
            armed = self._folder / "failpoints" / kind
            armed.write_text("one")
            until_s = time.monotonic() + END_SECONDS_MAX
            while armed.exists() and time.monotonic() < until_s:
                self.feed()
                time.sleep(0.02)
            assert not armed.exists(), f"nobody came to {kind}"
        elif kind in ("host", "both hosts"):
            pids = self._pids()
            for pid in pids if kind == "both hosts" else pids[:1]:
                os.kill(pid, signal.SIGKILL)
        elif kind == "pause":
            for pid in self._pids()[:1]:
                os.kill(pid, signal.SIGSTOP)
                threading.Timer(PAUSE_SECONDS, os.kill, (pid, signal.SIGCONT)).start()
        elif kind == "damaged checkpoints":
            for path in self._folder.glob("state/*/state/*.checkpoint"):
                data = path.read_bytes()
                path.write_bytes(data[: self._rng.randrange(len(data))])
            for pid in self._pids():
                os.kill(pid, signal.SIGKILL)
        elif kind in (RETENTION, MADE_AGAIN):
            self._lose_input(self._rng.randrange(len(self.applications)), kind)
        elif kind == ON_SPARK:
            for pid in _executors()[:1]:
                os.kill(pid, signal.SIGKILL)
        else:
            self._broker.kill()
            self._broker = start_server(self._folder, port=self._port, overrides=OVERRIDES)
        before = {source: len(self.world.read(f"{source}-out")) for source in self.sources}
        for _ in range(self._rng.randint(1, 10)):
            self.feed()
            time.sleep(self._rng.uniform(0.0, 0.1))
        began_s = time.monotonic()
        until(  # so that each harm meets hosts that work
            lambda: all(len(self.world.read(f"{source}-out")) > count for source, count in before.items()),
            "that both go on",
            seconds=END_SECONDS_MAX,
            past=(KafkaError,),
        )
        self.worst_s = max(self.worst_s, time.monotonic() - began_s)

    def _lose_input(self, number: int, kind: str) -> None:
        """Take records away that an application has not read: it is paused, and a host of chance dies meanwhile."""
        source, application = list(self.sources)[number], self.applications[number]
        self.world.await_counts(f"{source}-out", **self.sources[source])
        application.pause()
        for partition in (0, 1):
            self.world.feed(*["lost"] * self._rng.randint(1, 9), partition=partition, topic=source)
        ends = self._ends(source)
        if kind == RETENTION:
            self.client.run(delete_records(self.client.client, ends))
        else:
            assert delete_topics(self.client, [source]) == {source: None}
            until(lambda: source not in self.client.metadata().topics, "the topic's end", seconds=END_SECONDS_MAX)
            self.world.topics(source)
            for place, end in ends.items():  # more than the old one had, so that its offsets are there
                self.world.feed(*["again"] * (int(end) + 3), partition=place.partition, topic=source)
                self.sources[source]["again"] += int(end) + 3
        if self._rng.random() < 0.5:
            for pid in self._pids()[:1]:
                os.kill(pid, signal.SIGKILL)
        application.resume()

    def _ends(self, topic: str) -> dict[TopicPartition, Offset]:
        """Return where a topic's partitions end."""
        places = [TopicPartition(topic, partition) for partition in (0, 1)]
        return {each: found.offset for each, found in self.client.list_offsets(dict.fromkeys(places, LATEST)).items()}

    def _pids(self) -> list[int]:
        """Return the hosts that live, in an order of chance."""
        facts = self.world.services[0].hosts.hosts()
        until(lambda: any(each.is_ready for each in facts), "a host", seconds=END_SECONDS_MAX)
        found = [each.pid for each in facts if each.is_ready and each.pid is not None]
        self._rng.shuffle(found)
        return found

    def check(self) -> int:
        """Wait for every count; raises AssertionError where one is not there once. Returns how many there are."""
        total = 0
        for source, given in self.sources.items():
            self.world.await_counts(f"{source}-out", **given)
            counts = self.world.counts(f"{source}-out")
            for word, found in counts.items():
                assert all(a < b for a, b in pairwise(found)), f"{source}: {word}: {found}"
            total += sum(map(len, counts.values()))
        return total

    def close(self) -> None:
        """End everything."""
        self.world.close()
        self.client.close()
        if self._spark is not None:
            self._spark.stop()
        self._broker.stop()


def _cluster_session(folder: Path) -> Any:
    """Return a session of a cluster of two workers, whose executors find this checkout."""
    path = os.pathsep.join([str(ROOT), str(ROOT / "src")])
    settings = {
        **hosts_settings("local-cluster[2,1,512]"),
        "spark.executorEnv.PYTHONPATH": path,
        f"spark.executorEnv.{FOLDER}": str(folder / "failpoints"),
        "spark.executor.memory": "512m",
    }
    found = session("chaos-continuous", master="local-cluster[2,1,512]", settings=settings, registered=False)
    until(lambda: SparkHostJobs(found).slots >= 2, "two executors", seconds=END_SECONDS_MAX)
    return found


def _executors() -> list[int]:
    """Return the executors that are descendants of this process."""
    parents, found = {os.getpid()}, []
    rows = subprocess.run(
        ["ps", "-eo", "pid,ppid,args"], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    for _ in range(4):
        for row in rows[1:]:
            pid, parent, words = row.split(None, 2)
            if int(parent) in parents:
                parents.add(int(pid))
                if "CoarseGrainedExecutorBackend" in words and int(pid) not in found and "java" in words.split()[0]:
                    found.append(int(pid))
    return found


def main() -> None:
    """Break as often as asked, and say what came of it; exits with an error where a result is not there once."""
    parser = argparse.ArgumentParser(prog="python -m tests.streams.continuous", description=__doc__)
    parser.add_argument("--rounds", type=int, default=100, metavar="N", help="how often something is broken")
    parser.add_argument("--seed", type=int, default=int(time.time()), metavar="N", help="which, and when")
    parser.add_argument("--only", choices=(*KINDS, ON_SPARK), help="one kind")
    parser.add_argument("--spark", action="store_true", help="hosts as tasks of a Spark cluster of two workers")
    parser.add_argument("--seconds", type=float, default=1e9, metavar="N", help="end after so long all the same")
    args = parser.parse_args()
    rng = random.Random(args.seed)
    print(f"seed {args.seed}", flush=True)
    done: Counter[str] = Counter()
    began_s = time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "failpoints").mkdir()
        os.environ[FOLDER] = str(folder / "failpoints")
        chaos = Chaos(folder, rng, on_spark=args.spark)
        try:
            while sum(done.values()) < args.rounds and time.monotonic() - began_s < args.seconds:
                kind = args.only or rng.choice((*KINDS, *((ON_SPARK,) if args.spark else ())))
                chaos.break_something(kind)
                done[kind] += 1
                print(f"{sum(done.values())} {dict(done)} after {time.monotonic() - began_s:.0f} s", flush=True)
            counts = chaos.check()
            until(  # a task may be on its way to a host that has come back
                lambda: {str(each.state) for each in chaos.applications} == {"RUNNING"},
                lambda: [each.status() for each in chaos.applications],
                seconds=END_SECONDS_MAX,
            )
        finally:
            chaos.close()
    print(
        f"{counts} counts, each once and in order, after {sum(done.values())} rounds; worst pause {chaos.worst_s:.1f} s"
    )


if __name__ == "__main__":
    main()
