"""`python -m bench.mirror --out FILE`: MirrorMaker 2 beside Kafka's own, from one Ottla broker to another.

A topic of two partitions is filled, and mirrored by one process after the other, each to a cluster of its own. Counted are
the records from the first that has arrived to the last, and the processor time of the mirroring process and its children.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psutil

from bench.systems import Ottla
from ottla.client import LATEST, BlockingClient, NewTopic, create_topics
from ottla.wire import build_mode
from tests import peer

__all__ = ["main"]

PARTITIONS, TASKS = 2, 2
SIZES = {100: 3_000_000, 1000: 600_000}
"""Records, by their bytes."""
SECONDS_MAX = 300.0
PROPERTIES = """
clusters = A, B
A.bootstrap.servers = {source}
B.bootstrap.servers = {target}
A->B.enabled = true
B->A.enabled = false
emit.heartbeats.enabled = false
emit.checkpoints.enabled = false
topics = {topic}
tasks.max = {tasks}
replication.factor = 1
checkpoints.topic.replication.factor = 1
heartbeats.topic.replication.factor = 1
offset-syncs.topic.replication.factor = 1
offset.storage.replication.factor = 1
status.storage.replication.factor = 1
config.storage.replication.factor = 1
"""


def main(argv: Sequence[str]) -> int:
    """Run it; returns 0 when it ran."""
    parser = argparse.ArgumentParser(prog="python -m bench.mirror", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("bench-mirror.json"))
    parser.add_argument("--size", type=float, default=1.0, help="records as a share of the usual; 0.1 for a trial")
    args = parser.parse_args(argv)
    if reason := peer.missing():
        print(reason)
        return 1
    rows = []
    for size, count in SIZES.items():
        rows += _case(size, int(count * args.size))
    args.out.write_text(json.dumps(rows, indent=1) + "\n")
    return 0


def _case(size: int, count: int) -> list[dict[str, Any]]:
    rows = []
    with TemporaryDirectory(prefix="ottla-bench-mirror-") as name:
        folder = Path(name)
        source = Ottla(build_mode(), folder / "source")
        source.start()
        try:
            topic = f"of-{size}"
            _fill(source.bootstrap, topic, size, count)
            for system in ("kafka", "ottla"):
                target = Ottla(build_mode(), folder / system)
                target.start()
                try:
                    path = folder / f"{system}.properties"
                    path.write_text(
                        PROPERTIES.format(source=source.bootstrap, target=target.bootstrap, topic=topic, tasks=TASKS)
                    )
                    found = _mirrored(_command(system, path), folder / f"{system}.log", target.bootstrap, topic, count)
                finally:
                    target.stop()
                row = {"system": system, "bytes": size, "records": count, **found}
                print(
                    f"{size} B, {system}: {row['per_s']:,.0f} records/s, {row['cpu_per_million']:.2f} processor s per "
                    f"million, {row['memory_mb']:.0f} MiB, first record after {row['first_s']:.1f} s "
                    f"(load {os.getloadavg()[0]:.1f})",
                    flush=True,
                )
                rows.append(row)
        finally:
            source.stop()
    return rows


def _fill(bootstrap: str, topic: str, size: int, count: int) -> None:
    with BlockingClient(bootstrap) as client:
        client.run(create_topics(client.client, [NewTopic(topic, PARTITIONS, 1)]))
    words = ["--topic", topic, "--num-records", str(count), "--record-size", str(size), "--throughput", "-1"]
    given = ["--producer-props", f"bootstrap.servers={bootstrap}"]
    peer.tool("producer-perf", *words, *given)


def _command(system: str, path: Path) -> list[str]:
    if system == "kafka":
        return peer.java(*peer.FULL_SPEED, "-Xmx2g", "org.apache.kafka.connect.mirror.MirrorMaker", str(path))
    return [sys.executable, "-m", "ottla.cli.main", "connect-mirror-maker", str(path)]


def _mirrored(command: list[str], log: Path, bootstrap: str, topic: str, count: int) -> dict[str, float]:
    began = time.monotonic()
    with log.open("wb") as out, BlockingClient(bootstrap) as client:
        process = subprocess.Popen(command, stdout=out, stderr=out)
        try:
            first: tuple[float, int, float] | None = None
            while True:
                now, done = time.monotonic(), _arrived(client, f"A.{topic}")
                if first is None and done:
                    first = now, done, _processor_s(process.pid)
                if done >= count:
                    break
                if now - began > SECONDS_MAX or process.poll() is not None:
                    raise RuntimeError(f"{done} of {count} records: {log.read_text()[-2000:]}")
                time.sleep(0.02)
            assert first is not None
            cpu_s, memory = _processor_s(process.pid) - first[2], _memory(process.pid)
            rows = count - first[1]
            return {
                "per_s": rows / max(now - first[0], 1e-3),
                "cpu_per_million": cpu_s / max(rows, 1) * 1e6,
                "memory_mb": memory / 2**20,
                "first_s": first[0] - began,
            }
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)


def _arrived(client: BlockingClient, topic: str) -> int:
    places = client.metadata([topic]).partitions_of(topic)
    return (
        sum(int(each.offset) for each in client.list_offsets(dict.fromkeys(places, LATEST)).values()) if places else 0
    )


def _tree(pid: int) -> list[psutil.Process]:
    root = psutil.Process(pid)
    return [root, *root.children(recursive=True)]


def _processor_s(pid: int) -> float:
    found = 0.0
    for each in _tree(pid):
        try:
            times = each.cpu_times()
        except psutil.Error:
            continue  # it has just ended
        found += times.user + times.system
    return found


def _memory(pid: int) -> float:
    found = 0
    for each in _tree(pid):
        try:
            found += each.memory_info().rss
        except psutil.Error:
            continue
    return float(found)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
