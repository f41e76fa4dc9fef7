"""`python -m bench.streams_service [--only NAME]`: many applications on one service's hosts, on one Ottla broker.

Latencies at 500 records/s, at least and exactly once; what idle and nearly idle applications cost, in processor time and
memory of driver, JVM and hosts together; how soon an application answers that is added; how soon one goes on whose host was
killed with 100,000 keys. Prints a JSON line for each figure. Times are those of a machine that does nothing else.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import psutil
from confluent_kafka import Consumer, Producer, TopicPartition

from bench import streams_plans
from bench.streams_latency import PARTITIONS
from bench.streams_topics import make_topics
from bench.systems import Ottla
from ottla.client import BlockingClient
from ottla.spark import StreamsService, ship_by_value
from ottla.wire import build_mode

__all__ = ["main"]

SECONDS, RATE = 12.0, 500
MANY = 50
WATCHED_SECONDS = 20.0
WAIT_SECONDS_MAX = 120.0
KEYS = 100_000


class Bench:
    """A service on a broker, and what is measured of it."""

    def __init__(self, bootstrap: str, folder: Path) -> None:
        self.bootstrap, self._folder = bootstrap, folder
        began_s = time.monotonic()
        self.service = StreamsService("bench", hosts=1)
        self.service.start()
        self.start_s = time.monotonic() - began_s

    def add(self, name: str, plan: str, source: str, sink: str, **more: str) -> Any:
        """Start an application."""
        topology = streams_plans.PLANS[plan](source, sink)
        given = {"application.id": name, "bootstrap.servers": self.bootstrap, "state.dir": str(self._folder / "state")}
        return self.service.add(topology, {**given, **{key.replace("_", "."): value for key, value in more.items()}})

    def topics(self, *names: str) -> None:
        """Make topics."""
        with BlockingClient(self.bootstrap) as client:
            make_topics(client, list(names))


def latency(bench: Bench, plan: str, guarantee: str) -> dict[str, float]:
    """Measure from the time of a record to that at which its result is consumed."""
    source, sink = f"in-{plan}-{guarantee}", f"out-{plan}-{guarantee}"
    bench.topics(source, sink)
    application = bench.add(f"{plan}-{guarantee}", plan, source, sink, processing_guarantee=guarantee)
    assert application.wait_running(WAIT_SECONDS_MAX), application.error
    words = (bench.bootstrap, source, sink, str(SECONDS), str(RATE))
    done = subprocess.run(
        [sys.executable, "-m", "bench.streams_latency", *words], capture_output=True, text=True, check=True, timeout=120
    )
    bench.service.end(application.settings.application_id)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def many(bench: Bench, rate: float) -> dict[str, float]:
    """Return what many applications cost that get so many records a second each."""
    name = f"many-{rate:g}"
    bench.topics(name, f"{name}-out")
    found = [bench.add(f"{name}-{each}", "windows", name, f"{name}-out") for each in range(MANY)]
    for each in found:
        assert each.wait_running(WAIT_SECONDS_MAX), each.error
    time.sleep(5)  # groups are joined, and what was started is at rest
    with _sending(bench.bootstrap, name, rate):
        before, began_s = _processor_seconds(), time.monotonic()
        time.sleep(WATCHED_SECONDS)
        spent = (_processor_seconds() - before) / (time.monotonic() - began_s)
    memory = sum(each.memory_info().rss for each in _processes()) / 2**20
    for each in found:
        bench.service.end(each.settings.application_id)
    return {"applications": MANY, "cores": round(spent, 4), "memory_mib": round(memory)}


def added(bench: Bench) -> dict[str, float]:
    """Return how many seconds pass from the call that adds an application to its first result."""
    bench.topics("added", "added-out")
    _produce(bench.bootstrap, "added", 1)
    with _consumed(bench.bootstrap, "added-out") as wait:
        began_s = time.monotonic()
        application = bench.add("added", "python", "added", "added-out")
        wait()
        took_s = time.monotonic() - began_s
    bench.service.end(application.settings.application_id)
    return {"seconds": round(took_s, 3)}


def killed(bench: Bench) -> dict[str, float]:
    """Return how many seconds pass from the kill of a host, whose state has many keys, to the next result."""
    bench.topics("killed", "killed-out")
    _produce(bench.bootstrap, "killed", KEYS)
    application = bench.add("killed", "stateful", "killed", "killed-out")
    until_s = time.monotonic() + WAIT_SECONDS_MAX
    while (found := application.status())["rows"] < KEYS or found["lag"]:
        assert time.monotonic() < until_s, found
        time.sleep(0.2)
    time.sleep(2)  # it is committed
    pid = bench.service.status()["hosts"][0]["pid"]
    with _consumed(bench.bootstrap, "killed-out") as wait:
        os.kill(pid, signal.SIGKILL)
        began_s = time.monotonic()
        _produce(bench.bootstrap, "killed", 1)
        wait()
        took_s = time.monotonic() - began_s
    bench.service.end(application.settings.application_id)
    return {"keys": KEYS, "seconds": round(took_s, 3)}


def _processes() -> list[psutil.Process]:
    own = psutil.Process()
    return [own, *(each for each in own.children(recursive=True) if "ottla.cli.main" not in each.cmdline())]


def _processor_seconds() -> float:
    return float(sum(each.cpu_times().user + each.cpu_times().system for each in _processes()))


def _produce(bootstrap: str, topic: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, "queue.buffering.max.messages": KEYS + 1})
    for number in range(count):
        producer.produce(topic, key=f"key-{number:06d}", value="some text that says little")
    producer.flush(60)


@contextmanager
def _sending(bootstrap: str, topic: str, rate: float) -> Iterator[None]:
    """Send records while the block runs."""
    ended = threading.Event()

    def send() -> None:
        producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
        while rate and not ended.wait(1 / rate):
            producer.produce(topic, key="key", value="some text that says little")
            producer.poll(0)
        producer.flush(10)

    thread = threading.Thread(target=send)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


@contextmanager
def _consumed(bootstrap: str, topic: str) -> Iterator[Callable[[], None]]:
    """Yield what waits until the topic has a record more than now."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": f"bench-{time.monotonic_ns()}"})
    places = [TopicPartition(topic, each) for each in range(PARTITIONS)]
    for each in places:
        each.offset = consumer.get_watermark_offsets(each)[1]
    consumer.assign(places)

    def wait() -> None:
        until_s = time.monotonic() + WAIT_SECONDS_MAX
        while (message := consumer.poll(0.05)) is None or message.error():
            assert time.monotonic() < until_s, f"nothing came into {topic}"

    try:
        yield wait
    finally:
        consumer.close()


def main(argv: list[str]) -> int:
    """Measure, and print a line for each figure."""
    parser = argparse.ArgumentParser(prog="python -m bench.streams_service", description=__doc__)
    parser.add_argument("--only", default="", help="figures whose name contains this")
    args = parser.parse_args(argv)
    ship_by_value(streams_plans)
    folder = Path(mkdtemp(prefix="ottla-bench-service-"))
    broker = Ottla(build_mode(), folder / "broker")
    guarantees = ("at_least_once", "exactly_once_v2")
    figures: dict[str, Callable[[Bench], dict[str, float]]] = {
        "added on a warm service": added,
        f"{MANY} idle applications": lambda bench: many(bench, 0),
        f"{MANY} applications of 10 records/s": lambda bench: many(bench, 10),
        "killed host": killed,
        **{
            f"latency, {plan}, {guarantee}": partial(latency, plan=plan, guarantee=guarantee)
            for guarantee in guarantees
            for plan in ("map", "windows")
        },
    }
    try:
        broker.start()
        bench = Bench(broker.bootstrap, folder)
        print(
            json.dumps({"figure": "service from nothing to its hosts", "seconds": round(bench.start_s, 2)}), flush=True
        )
        for name, measure in figures.items():
            if args.only in name:
                load = os.getloadavg()[0]
                print(json.dumps({"figure": name, **measure(bench), "load_before": round(load, 1)}), flush=True)
        bench.service.close()
    finally:
        broker.stop()
        shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
