"""A broker as a process of the tests: its settings, its folder, and how it is started, killed and started again."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from ottla.testing.kafka import Kafka
from ottla.testing.processes import READY_SECONDS, ChildProcess

__all__ = ["DEFAULTS", "OwnBroker", "broker_folder", "overrides_of", "running_broker"]

DEFAULTS: Mapping[str, str] = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "log.retention.check.interval.ms": "86400000",
}
"""What a broker of tests has for granted: nothing is waited for, and records of 1970 are kept while a test looks at them."""
LOOPBACK = "127.0.0.1"


def overrides_of(settings: Mapping[str, object], *, data: Path, listener: str) -> list[str]:
    """Return a broker's settings as `key=value`; what the tests say wins, but for where it listens and keeps its data."""
    own = {"listeners": listener, "log.dirs": str(data)}
    taken = sorted(settings.keys() & own.keys())
    if taken:
        raise ValueError(f"{', '.join(taken)}: the tests' broker chooses where it listens and keeps its data")
    return [f"{key}={value}" for key, value in {**DEFAULTS, **settings, **own}.items()]


@contextmanager
def broker_folder(folder: Path | None, *, keep: bool = False) -> Iterator[Path]:
    """Yield a folder for a broker's data: the one that is given, or one of its own, which is removed unless it is kept."""
    if folder is not None:
        absolute = folder.absolute()  # its process works in it: a relative one would mean another there
        absolute.mkdir(parents=True, exist_ok=True)
        yield absolute
        return
    made = Path(tempfile.mkdtemp(prefix="ottla-test-"))
    try:
        yield made
    finally:
        if not keep:
            shutil.rmtree(made, ignore_errors=True)


class OwnBroker:
    """A broker's process, and what tests do with it."""

    def __init__(self, folder: Path, settings: Mapping[str, object], *, ready_seconds: float = READY_SECONDS) -> None:
        """Start it on a port that the system chooses; raises StartError where it does not get ready."""
        self.folder = folder
        overrides = overrides_of(settings, data=folder / "data", listener=f"PLAINTEXT://{LOOPBACK}:0")
        arguments = [part for each in overrides for part in ("--override", each)]
        self.process = ChildProcess(
            "ottla.testing.child", ["server", "start", *arguments], folder=folder, ready_seconds=ready_seconds
        )
        self.kafka = Kafka(
            self.process.address.rpartition("/")[2],
            log_lines=lambda: self.process.lines,
            log_dropped=lambda: self.process.dropped,
        )

    def stop(self) -> None:
        """Stop it cleanly."""
        self.kafka.close()
        self.process.stop()


@contextmanager
def running_broker(
    settings: Mapping[str, object] | None = None,
    *,
    folder: Path | None = None,
    keep: bool = False,
    ready_seconds: float = READY_SECONDS,
) -> Iterator[Kafka]:
    """Run a broker until the block ends; its data is gone then, unless it is kept or the folder was given.

    Raises StartError, with what the broker printed, where it does not get ready.
    """
    with broker_folder(folder, keep=keep) as data:
        broker = OwnBroker(data, settings or {}, ready_seconds=ready_seconds)
        try:
            yield broker.kafka
        finally:
            broker.stop()
