"""A host of the SQL server killed under its queries: how soon their results go on, and whether each is there once.

Results are read with `isolation.level=read_committed` by `confluent-kafka`, while records are produced at a fixed rate. A
query has gone on when every partition has given the result of a record that was produced after the kill.
"""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import psutil
from confluent_kafka import OFFSET_BEGINNING, Consumer, Message, Producer, TopicPartition

from bench.sql_server import Server
from bench.streams_topics import PARTITIONS

__all__ = ["Kill", "Outcome", "host_pids"]

RATE, KEYS = 500, 200
BEFORE_SECONDS, AFTER_SECONDS = 4.0, 10.0
END_SECONDS_MAX = 60.0
FORKED = "ottla.spark.fork_server"
"""In the command line of all processes that stem from the fork server, the hosts among them."""


@dataclass(frozen=True)
class Outcome:
    """What a kill led to."""

    seconds: float
    """From the kill until every partition went on."""
    lost: int
    """Records whose results are missing."""
    doubled: int
    """Results that are there again."""


def host_pids(server: Server) -> list[int]:
    """Return the processes of the server's hosts: the last in the line of those that were forked."""
    forked = [each for each in server.processes() if FORKED in each.cmdline()]
    return sorted(each.pid for each in forked if not each.children())


@dataclass
class Kill:
    """One query whose host is killed. `source` has `PARTITIONS` partitions, as has `sink`."""

    server: Server
    source: str
    sink: str
    is_table: bool
    """Whether results are counts by key, of which the last one tells how many records there were."""
    every: bool = False
    """Whether all hosts are killed at once; then Spark has to start them anew before anything goes on."""
    _sent: Counter[str] = field(default_factory=Counter)
    _found: Counter[str] = field(default_factory=Counter)
    _went_on_s: dict[int, float] = field(default_factory=dict)
    _killed_s: float = float("inf")

    def run(self) -> Outcome:
        """Produce, kill a host in the middle of it, and account for every record."""
        stop = threading.Event()
        sender = threading.Thread(target=self._send, daemon=True)
        reader = threading.Thread(target=self._read, args=(stop,), daemon=True)
        reader.start()
        sender.start()
        killed = self._hosts_to_kill()
        self._killed_s = time.time()
        for each in killed:
            each.kill()
        sender.join()
        until_s = time.monotonic() + END_SECONDS_MAX
        while sum(self._found.values()) < sum(self._sent.values()) and time.monotonic() < until_s:
            time.sleep(0.05)
        time.sleep(1.0)  # for what might come twice
        stop.set()
        reader.join()
        went_on = len(self._went_on_s) == PARTITIONS
        seconds = max(self._went_on_s.values()) - self._killed_s if went_on else float("inf")
        return Outcome(seconds, (self._sent - self._found).total(), (self._found - self._sent).total())

    def _hosts_to_kill(self) -> list[psutil.Process]:
        """Return, after a while, the host that has worked most in it; or all."""
        hosts = [psutil.Process(each) for each in host_pids(self.server)]
        assert hosts, "the server has no hosts to kill"
        before = {each.pid: sum(each.cpu_times()[:2]) for each in hosts}
        time.sleep(BEFORE_SECONDS)
        busiest = max(hosts, key=lambda each: sum(each.cpu_times()[:2]) - before[each.pid])
        return hosts if self.every else [busiest]

    def _send(self) -> None:
        producer = Producer({"bootstrap.servers": self.server.bootstrap, "linger.ms": 0, "acks": "all"})
        began_s = time.time()
        for number in range(int((BEFORE_SECONDS + AFTER_SECONDS) * RATE)):
            wait_s = began_s + number / RATE - time.time()
            if wait_s > 0:
                time.sleep(wait_s)
            name = f"key-{number % KEYS:03d}" if self.is_table else f"record-{number:06d}"
            self._sent[name] += 1
            value = json.dumps({"ITEM": "fig", "QTY": 9, "PRICE": 1.5, "NOTE": "as usual"})
            producer.produce(self.source, key=name, value=value)
            producer.poll(0)
        producer.flush(30)

    def _read(self, stop: threading.Event) -> None:
        consumer = Consumer(
            {
                "bootstrap.servers": self.server.bootstrap,
                "group.id": f"kill-{time.monotonic_ns()}",
                "isolation.level": "read_committed",
            }
        )
        consumer.assign([TopicPartition(self.sink, each, OFFSET_BEGINNING) for each in range(PARTITIONS)])
        note: Callable[[Message], None] = self._note_count if self.is_table else self._note
        while not stop.is_set():
            message = consumer.poll(0.2)
            if message is not None and not message.error():
                if message.timestamp()[1] >= self._killed_s * 1000:
                    self._went_on_s.setdefault(message.partition() or 0, time.time())
                note(message)
        consumer.close()

    def _note(self, message: Message) -> None:
        self._found[(message.key() or b"").decode()] += 1

    def _note_count(self, message: Message) -> None:
        """A count that goes backwards, or says more than was sent, shows in what is lost and doubled at the end."""
        self._found[(message.key() or b"").decode()] = json.loads(message.value() or b"")["N"]
