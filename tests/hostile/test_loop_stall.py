"""How long the event loop stands still while a cold gigabyte is read beside a producer: seen from a third connection."""

from __future__ import annotations

import multiprocessing
import os
import statistics
import time
from collections.abc import Callable
from multiprocessing.synchronize import Event
from pathlib import Path

import pytest

from tests.hostile.wire_by_hand import Client, batch, fetch, produce
from tests.server import running_server

TOPIC = "cold"
GIGABYTE = 1 << 30
RECORD = b"g" * 1_000_000
PROBE_S = 0.002
STALL_S_MAX = 0.5
"""A stall of this length is a read, or a copy, that should not have been on the loop; the usual is a few milliseconds."""


def fill(port: int) -> None:
    """Write a gigabyte, eight batches in flight."""
    records = batch([RECORD])
    count = GIGABYTE // len(records) + 1
    with Client(port) as client:
        assert client.create_topic(TOPIC) == 0
        for number in range(count):
            client.send(produce(number, TOPIC, records))
            if number >= 8:
                assert client.answer() is not None
        for _ in range(8):
            assert client.answer() is not None


def drop_from_cache(folder: Path) -> int:
    """Make the topic's files cold; returns their bytes."""
    size = 0
    for path in folder.glob(f"data/{TOPIC}-0/*.log"):
        with path.open("rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        size += path.stat().st_size
    return size


def read_all(port: int, done: Event) -> None:
    """Fetch the topic from its start, eight megabytes at a time."""
    offset = 0
    with Client(port) as client:
        while offset * len(RECORD) < GIGABYTE - len(RECORD):
            client.send(fetch(1, TOPIC, offset, max_bytes=8 << 20, wait_ms=100))
            answer = client.answer()
            assert answer is not None
            offset += max(1, len(answer) // len(RECORD))
    done.set()


def produce_meanwhile(port: int, done: Event) -> None:
    """Produce 16 KiB batches to another topic, one after the other."""
    records = batch([b"p" * 16_000])
    with Client(port) as client:
        client.create_topic("beside")
        while not done.is_set():
            assert client.produce("beside", records).error == 0


def run_beside(port: int, targets: tuple[Callable[[int, Event], None], ...]) -> list[float]:
    """Run these in processes of their own; return what each probe of the loop took, in seconds."""
    context = multiprocessing.get_context("spawn")
    done = context.Event()
    workers = [context.Process(target=target, args=(port, done)) for target in targets]
    took: list[float] = []
    with Client(port) as probe:
        for worker in workers:
            worker.start()
        deadline = time.monotonic() + 90
        while not done.is_set() and time.monotonic() < deadline:
            began = time.perf_counter()
            assert probe.works()
            took.append(time.perf_counter() - began)
            time.sleep(PROBE_S)
    done.set()
    for worker in workers:
        worker.join(20)
        assert worker.exitcode == 0
    return took


@pytest.mark.slow
def test_the_loop_never_stalls_for_a_cold_read(tmp_path: Path, record_property: Callable[[str, object], None]) -> None:
    with running_server(tmp_path, overrides=["message.max.bytes=2097152"]) as server:
        fill(server.port)
        assert drop_from_cache(tmp_path) >= GIGABYTE
        began = time.monotonic()
        took = run_beside(server.port, (read_all, produce_meanwhile))
        seconds = time.monotonic() - began
    longest, p99 = max(took), statistics.quantiles(took, n=100)[98]
    record_property("loop_stall_ms_max", round(longest * 1000, 2))
    record_property("loop_stall_ms_p99", round(p99 * 1000, 2))
    print(
        f"cold gigabyte in {seconds:.1f} s; {len(took)} probes: p99 {p99 * 1000:.1f} ms, longest {longest * 1000:.1f} ms"
    )
    assert longest < STALL_S_MAX
