"""`ottla demo`: real text, word count on Spark from topic to topic, every count compared with a plain Python count."""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ottla.cli.local.ports import why_not_free
from ottla.cli.options import Options
from ottla.cli.streams_process import standard_error_to

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

__all__ = ["main", "run"]

INPUT_TOPIC = "streams-plaintext-input"
OUTPUT_TOPIC = "streams-wordcount-output"
PARTITIONS = 4
FIRST_PORT = 9092
PORTS_TRIED_MAX = 100
READY_SECONDS_MAX = 30.0
STOP_SECONDS_MAX = 30.0
READ_SECONDS_MAX = 60.0
TOP_WORDS = 10
ROWS_PER_BATCH = 200_000
COUNTING_LOOK_SECONDS = 0.05
DIFFERENCES_SHOWN_MAX = 5
# The word of Kafka's WordCountDemo: what is left between runs of characters outside [A-Za-z0-9_].
WORD = re.compile(r"[a-z0-9_]+")


class DemoError(Exception):
    """The demo cannot go on; its text is the one line that the user sees."""


@dataclass(frozen=True)
class Broker:
    """The broker that the demo started: its process, address and folder."""

    process: subprocess.Popen[bytes]
    bootstrap: str
    folder: Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the demo's own arguments."""
    parser.add_argument(
        "--file", metavar="PATH", help="a text file or a folder of them (default: Python's own library)"
    )
    parser.add_argument("--keep", action="store_true", help="leave the broker and its topics running at the end")


def main(argv: list[str] | None = None) -> int:
    """Run the demo on its own; `FILE` and `KEEP` in the environment stand for the two arguments."""
    parser = Options("demo", "Count the words of real text on Spark, from topic to topic, and compare every count.")
    add_arguments(parser)
    args = parser.parse(sys.argv[1:] if argv is None else argv)
    args.file = args.file or os.environ.get("FILE") or None
    args.keep = args.keep or os.environ.get("KEEP", "") not in {"", "0"}
    return run(args)


def run(args: argparse.Namespace) -> int:
    """Run the demo; returns 0 when every count is equal, else 1."""
    from rich.console import Console

    from ottla.spark import check_spark

    check_spark()
    console = Console(highlight=False)
    return run_demo(console, "demo", lambda: _demo(console, source_files(args.file), keep=args.keep))


def run_demo(console: Console, name: str, run: Callable[[], int]) -> int:
    """Run a demonstration and return its exit code: 1 with the reason where it cannot go on, 130 where it is interrupted.

    SIGTERM is taken as Ctrl-C is, so that all parts are ended.
    """
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        return run()
    except DemoError as error:
        console.print(f"[red]{name}: {error}[/red]", soft_wrap=True)
        return 1
    except KeyboardInterrupt:
        console.print(f"{name}: interrupted")
        sys.stdout.flush()
        os._exit(130)  # all parts are ended, but for a Spark that is starting: a thread would wait for it


def _interrupt(signal_number: int, frame: object) -> None:
    raise KeyboardInterrupt


def source_files(path: str | None) -> list[Path]:
    """Return the text files to feed: the one named, those in the folder named, or Python's standard library's sources."""
    if path is None:
        root = Path(sysconfig.get_paths()["stdlib"])
        files = sorted(file for file in root.rglob("*.py") if "site-packages" not in file.parts)
    else:
        root = Path(path)
        if not root.exists():
            raise DemoError(f"{path} does not exist; FILE names a text file or a folder")
        files = [root] if root.is_file() else sorted(file for file in root.rglob("*") if file.is_file())
    if not files:
        raise DemoError(f"{root} holds no files")
    return files


def lines_of(files: Iterable[Path]) -> Iterator[str]:
    """Yield each line of the files that is not blank; a file that is not text is left out."""
    for file in files:
        data = file.read_bytes()
        if b"\0" not in data[:8192]:
            for line in data.decode("utf-8", "replace").splitlines():
                if line.strip():
                    yield line


def _demo(console: Console, files: list[Path], *, keep: bool) -> int:
    folder = Path(tempfile.mkdtemp(prefix="ottla-demo-"))
    broker: Broker | None = None
    kept = False
    try:
        broker = start_broker(console, folder)
        create_topics(broker)
        lines = feed(console, broker, files)
        counted = count_on_spark(console, broker, folder, lines)
        equal = compare(console, counted, plain_count(console, files))
        if keep:
            kept = True
            tell_how_to_look_around(console, broker)
        return 0 if equal else 1
    finally:
        if not kept:
            if broker is not None:
                stop_broker(broker)
            shutil.rmtree(folder, ignore_errors=True)


def free_port() -> int:
    """Return 9092, or the next port of 127.0.0.1 that nothing listens on."""
    for port in range(FIRST_PORT, FIRST_PORT + PORTS_TRIED_MAX):
        if why_not_free(port) is None:
            return port
    raise DemoError(f"no free port from {FIRST_PORT} to {FIRST_PORT + PORTS_TRIED_MAX - 1} on 127.0.0.1")


def start_broker(console: Console, folder: Path) -> Broker:
    """Start `ottla server start` on a free port with its data in `folder`; returns when it says that it is ready."""
    console.print("Starting a broker, then Spark; the first counts are there in some seconds")
    port = free_port()
    if port != FIRST_PORT:
        console.print(f"Port {FIRST_PORT} is taken, so the broker uses {port}")
    started = time.monotonic()
    output = folder / "broker.log"
    command = [sys.executable, "-m", "ottla.cli.main", "server", "start"]
    for override in (f"listeners=PLAINTEXT://127.0.0.1:{port}", f"log.dirs={folder / 'data'}"):
        command += ["--override", override]
    with output.open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, start_new_session=True)
    broker = Broker(process, f"127.0.0.1:{port}", folder)
    try:
        while not re.search(rb"^ready ", output.read_bytes(), re.MULTILINE):
            if process.poll() is not None or time.monotonic() - started > READY_SECONDS_MAX:
                raise DemoError(f"the broker did not start: {output.read_text().strip()}")
            time.sleep(0.01)
    except BaseException:
        stop_broker(broker)
        raise
    console.print(f"Ottla is ready on {broker.bootstrap} after {time.monotonic() - started:.2f} s")
    return broker


def stop_broker(broker: Broker) -> None:
    """Stop the broker, cleanly if it lets itself be."""
    broker.process.terminate()
    try:
        broker.process.wait(STOP_SECONDS_MAX)
    except subprocess.TimeoutExpired:
        broker.process.kill()
        broker.process.wait()


def create_topics(broker: Broker) -> None:
    """Create the two topics of Kafka's WordCountDemo, the output compacted."""
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    topics = [
        NewTopic(INPUT_TOPIC, num_partitions=PARTITIONS, replication_factor=1),
        NewTopic(OUTPUT_TOPIC, num_partitions=PARTITIONS, replication_factor=1, config={"cleanup.policy": "compact"}),
    ]
    for topic, future in admin.create_topics(topics).items():
        try:
            future.result(READY_SECONDS_MAX)
        except KafkaException as error:
            raise DemoError(f"topic {topic} could not be created: {error}") from error


def progress_bar(console: Console, unit: str) -> Progress:
    """Return a progress bar that stays silent where there is no terminal."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn(unit),
        TimeElapsedColumn(),
    )
    return Progress(*columns, console=console, disable=not console.is_terminal, transient=True)


def feed(console: Console, broker: Broker, files: list[Path]) -> int:
    """Produce every line as one record; returns their number."""
    from confluent_kafka import Producer

    failures: list[str] = []

    def delivered(error: object, message: object) -> None:
        if error is not None:
            failures.append(str(error))

    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap,
            "linger.ms": 20,
            "batch.size": 1 << 18,
            "queue.buffering.max.messages": 500_000,
            "compression.type": "lz4",
            "delivery.report.only.error": True,
        }
    )
    size = sum(file.stat().st_size for file in files)
    console.print(f"Feeding {len(files)} files, {size / 1e6:.1f} MB, to {INPUT_TOPIC}")
    started, count = time.monotonic(), 0
    with progress_bar(console, "files") as progress:
        for file in progress.track(files, description="Feeding"):
            for line in lines_of([file]):
                _produce(producer, line.encode("utf-8", "replace"), delivered)
                count += 1
        if producer.flush(READ_SECONDS_MAX):
            failures.append("the broker did not acknowledge every record")
    if failures:
        raise DemoError(f"{len(failures)} records failed: {failures[0]}")
    seconds = time.monotonic() - started
    console.print(f"Fed {count:,} records in {seconds:.1f} s: {count / seconds:,.0f} records/s")
    return count


def _produce(producer: object, value: bytes, delivered: object) -> None:
    """Produce one record; where the client's queue is full, wait until it has room."""
    while True:
        try:
            producer.produce(INPUT_TOPIC, value=value, on_delivery=delivered)  # type: ignore[attr-defined]
            return
        except BufferError:
            producer.poll(0.1)  # type: ignore[attr-defined]


def count_on_spark(console: Console, broker: Broker, folder: Path, records: int) -> dict[str, int]:
    """Count the input topic's words with Spark into the output topic; return what that topic then holds."""
    from ottla.cli.commands.word_count import topology
    from ottla.spark import StreamsApplication

    settings = {"application.id": "demo", "bootstrap.servers": broker.bootstrap, "state.dir": str(folder / "state")}
    counting = StreamsApplication(
        topology(INPUT_TOPIC, OUTPUT_TOPIC),
        {**settings, "max.records.per.batch": ROWS_PER_BATCH, "execution": "micro-batch"},
    )
    console.print("Starting Spark, which takes some seconds, and so does its first batch")
    try:
        with console.status("Starting Spark"), standard_error_to(folder / "spark.log"):
            counting.start()
        started = time.monotonic()
        rows = 0
        with progress_bar(console, "records") as bar:
            task = bar.add_task("Counting on Spark", total=records)
            while rows < records and not counting.state.is_final:
                time.sleep(COUNTING_LOOK_SECONDS)
                rows = counting.status()["rows"]
                bar.update(task, completed=rows)
        seconds = time.monotonic() - started
    finally:
        counting.close()
    if counting.error is not None:
        raise DemoError(counting.error.reason)
    console.print(f"Spark counted {rows:,} records in {seconds:.1f} s: {rows / seconds:,.0f} rows/s")
    if rows != records:
        raise DemoError(f"Spark read {rows:,} records of {records:,}")
    return read_counts(broker)


def read_counts(broker: Broker) -> dict[str, int]:
    """Return the last count of each word in the output topic, read to its end."""
    from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "ottla-demo", "enable.auto.commit": False})
    counts: dict[str, int] = {}
    try:
        ends = {
            partition: consumer.get_watermark_offsets(TopicPartition(OUTPUT_TOPIC, partition), READ_SECONDS_MAX)[1]
            for partition in range(PARTITIONS)
        }
        pending = {partition for partition, end in ends.items() if end > 0}
        consumer.assign([TopicPartition(OUTPUT_TOPIC, partition, OFFSET_BEGINNING) for partition in sorted(pending)])
        deadline = time.monotonic() + READ_SECONDS_MAX
        while pending:
            if time.monotonic() > deadline:
                raise DemoError(f"{OUTPUT_TOPIC} could not be read to its end within {READ_SECONDS_MAX:.0f} s")
            for message in consumer.consume(10_000, timeout=1):
                if message.error() is not None:
                    raise DemoError(f"{OUTPUT_TOPIC} could not be read: {message.error()}")
                key, value, offset, partition = message.key(), message.value(), message.offset(), message.partition()
                assert key is not None and value is not None and offset is not None and partition is not None
                counts[key.decode()] = int.from_bytes(value, "big", signed=True)
                if offset + 1 >= ends[partition]:
                    pending.discard(partition)
    finally:
        consumer.close()
    return counts


def plain_count(console: Console, files: list[Path]) -> Counter[str]:
    """Count the words of the same lines in plain Python."""
    counts: Counter[str] = Counter()
    with progress_bar(console, "files") as progress:
        for file in progress.track(files, description="Counting in plain Python"):
            for line in lines_of([file]):
                counts.update(WORD.findall(line.lower()))
    return counts


def compare(console: Console, counted: dict[str, int], expected: Counter[str]) -> bool:
    """Show the top words of both counts and say whether every count is equal."""
    from rich.table import Table

    table = Table("word", title=f"The {TOP_WORDS} most frequent of {len(expected):,} words")
    table.add_column("Spark, from the topic", justify="right")
    table.add_column("plain Python", justify="right")
    for word, count in expected.most_common(TOP_WORDS):
        table.add_row(word, f"{counted.get(word, 0):,}", f"{count:,}")
    console.print(table)
    different = [word for word in expected.keys() | counted.keys() if counted.get(word) != expected.get(word)]
    if not different:
        console.print(f"[green]All {len(expected):,} counts are equal[/green]")
        return True
    console.print(f"[red]{len(different):,} of {len(expected):,} counts differ[/red]")
    for word in sorted(different)[:DIFFERENCES_SHOWN_MAX]:
        console.print(f"  {word!r}: {counted.get(word)} from Spark, {expected.get(word)} in plain Python")
    return False


def tell_how_to_look_around(console: Console, broker: Broker) -> None:
    """Say what is still running and how to use and stop it."""
    at = f"--bootstrap-server {broker.bootstrap}"
    long_values = (
        "--property print.key=true --value-deserializer org.apache.kafka.common.serialization.LongDeserializer"
    )
    console.print("\nThe broker is still running. To look around:", highlight=False)
    for command in (
        f"ottla topics {at} --describe",
        f"ottla console-consumer {at} --topic {INPUT_TOPIC} --from-beginning --max-messages 10",
        f"ottla console-consumer {at} --topic {OUTPUT_TOPIC} --from-beginning --max-messages 10 {long_values}",
        f"ottla get-offsets {at} --topic {OUTPUT_TOPIC}",
    ):
        console.print(f"  .venv/bin/{command}", soft_wrap=True, markup=False)
    stop = f"kill {broker.process.pid}; rm -r {broker.folder}"
    console.print(f"To stop it and remove its data:\n  {stop}", soft_wrap=True)


if __name__ == "__main__":
    from ottla.cli.main import main as ottla

    sys.exit(ottla(["demo", *sys.argv[1:]]))
