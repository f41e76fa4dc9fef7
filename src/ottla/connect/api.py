"""What plugins are written against: connectors, tasks, their contexts, converters, transformations and predicates.

A source connector is two classes::

    class NumbersTask(SourceTask):
        def start(self, props): self.next = self.context.offset({"range": "all"}).get("n", 0)
        def poll(self):
            self.next += 1
            return [SourceRecord(topic="numbers", value=self.next, source_partition={"range": "all"},
                                 source_offset={"n": self.next})]

    class NumbersConnector(SourceConnector):
        task_class = NumbersTask

The connector is found by an entry point of the group `ottla.connect`, or in a file or folder of `plugin.path`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from ottla.base import TopicPartition
from ottla.connect.config_def import ConfigDef, ConfigValue
from ottla.connect.data.schema import Schema
from ottla.connect.data.struct import SchemaAndValue
from ottla.connect.records import ConnectRecord, SinkRecord, SourceRecord

if TYPE_CHECKING:
    from ottla.connect.batches import SourceBatch
    from ottla.connect.columns import SourceColumns

__all__ = [
    "Connector",
    "ConnectorContext",
    "Converter",
    "ErrantRecordReporter",
    "HeaderConverter",
    "Measure",
    "Offsets",
    "Plugin",
    "Predicate",
    "SinkConnector",
    "SinkTask",
    "SinkTaskContext",
    "SourceConnector",
    "SourceState",
    "SourceTask",
    "SourceTaskContext",
    "TransactionContext",
    "Transformation",
]

Offsets = Mapping[TopicPartition, int]
"""The offset to go on from, by topic partition."""


class Plugin(Protocol):
    """What every plugin class has: a version, and what it can be configured with."""

    java_name: ClassVar[str]
    """The class name in configurations: Java's where Kafka has the plugin, else `module.Class`."""

    version: ClassVar[str]
    config_def: ClassVar[ConfigDef]


class Converter(Protocol):
    """Turns keys and values into bytes and back."""

    java_name: ClassVar[str]
    version: ClassVar[str]
    config_def: ClassVar[ConfigDef]

    def configure(self, props: Mapping[str, Any], *, is_key: bool) -> None:
        """Take the settings below the worker's or connector's `key.converter.` or `value.converter.`."""
        ...

    def from_connect(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        """Return a value's bytes, None for a tombstone; raises DataError."""
        ...

    def to_connect(self, topic: str, data: bytes | None) -> SchemaAndValue:
        """Return the value of bytes; raises DataError."""
        ...


class HeaderConverter(Protocol):
    """Turns header values into bytes and back."""

    java_name: ClassVar[str]
    version: ClassVar[str]
    config_def: ClassVar[ConfigDef]

    def configure_header(self, props: Mapping[str, Any]) -> None:
        """Take the settings below `header.converter.`."""
        ...

    def from_header(self, topic: str, key: str, schema: Schema | None, value: Any) -> bytes | None:
        """Return a header value's bytes; raises DataError."""
        ...

    def to_header(self, topic: str, key: str, data: bytes | None) -> SchemaAndValue:
        """Return the value of a header's bytes; raises DataError."""
        ...


class Transformation(Protocol):
    """Makes one record of another, or None to drop it."""

    java_name: ClassVar[str]
    version: ClassVar[str]
    config_def: ClassVar[ConfigDef]

    def configure(self, props: Mapping[str, Any]) -> None:
        """Take the settings; raises ConfigError."""
        ...

    def apply(self, record: Any) -> Any:
        """Return the record to go on with, or None; raises DataError where it cannot be made."""
        ...


class Predicate(Protocol):
    """Says of a record whether a transformation is for it."""

    java_name: ClassVar[str]
    version: ClassVar[str]
    config_def: ClassVar[ConfigDef]

    def configure(self, props: Mapping[str, Any]) -> None:
        """Take the settings; raises ConfigError."""
        ...

    def test(self, record: ConnectRecord) -> bool:
        """Return whether it holds."""
        ...


class ConnectorContext(Protocol):
    """What a running connector may ask of its worker."""

    def request_task_reconfiguration(self) -> None:
        """Ask for `task_configs` to be called again, because the outside has changed."""
        ...

    def raise_error(self, error: BaseException) -> None:
        """Make the connector FAILED."""
        ...


class TransactionContext(Protocol):
    """How a source task sets the bounds of its transactions (`transaction.boundary=connector`)."""

    def commit(self, record: SourceRecord | None = None) -> None:
        """End the transaction with this batch, or behind this record of it."""
        ...

    def abort(self, record: SourceRecord | None = None) -> None:
        """Throw away the transaction that this batch, or this record of it, ends."""
        ...


class SourceTaskContext(Protocol):
    """What a source task may ask of its worker."""

    @property
    def configs(self) -> Mapping[str, str]:
        """The task's configuration, with what config providers have put in by now."""
        ...

    def offset(self, partition: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the last offset stored for a source partition; empty where there is none."""
        ...

    @property
    def transaction(self) -> TransactionContext | None:
        """The transaction's bounds, None where the worker sets them."""
        ...

    @property
    def takes_columns(self) -> bool:
        """Whether `SourceColumns` are worth making: neither converters nor transformations want single records."""
        ...


class ErrantRecordReporter(Protocol):
    """Where a sink task hands in records that it cannot store, to be treated as `errors.tolerance` says."""

    def report(self, record: SinkRecord, error: BaseException) -> None:
        """Report a record; raises ConnectError where errors are not tolerated."""
        ...


class SinkTaskContext(Protocol):
    """What a sink task may ask of its worker."""

    @property
    def configs(self) -> Mapping[str, str]:
        """The task's configuration, with what config providers have put in by now."""
        ...

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """The partitions whose records this task gets."""
        ...

    def seek(self, offsets: Offsets) -> None:
        """Go on from these offsets at the next poll."""
        ...

    def timeout(self, ms: int) -> None:
        """After a RetriableError, ask again this much later."""
        ...

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Get no records of these partitions for a while."""
        ...

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Get records of these partitions again."""
        ...

    def request_commit(self) -> None:
        """Ask for offsets to be committed soon."""
        ...

    @property
    def errant_records(self) -> ErrantRecordReporter | None:
        """Where to report records, None where nothing is configured for them."""
        ...


class Connector:
    """The part of a connector that runs once: it divides the work among tasks. Subclass one of the two below."""

    java_name: ClassVar[str] = ""
    version: ClassVar[str] = "1.0"
    config_def: ClassVar[ConfigDef] = ConfigDef()
    task_class: ClassVar[type[Any]]

    context: ConnectorContext

    def start(self, props: Mapping[str, str]) -> None:
        """Begin with this configuration; what it raises makes the connector FAILED."""
        self.props = dict(props)

    def stop(self) -> None:
        """End, and let go of everything."""

    def task_configs(self, tasks_max: int) -> Sequence[Mapping[str, str]]:
        """Return one configuration for each task, `tasks_max` at most; one task with the connector's own by default."""
        return [self.props]

    def no_tasks(self) -> str | None:
        """Say why it is right that it wants no task now, as where it is switched off or has found nothing yet.

        None where that is no answer to expect of it; asked behind `task_configs` that gave none.
        """
        return None

    def validate(self, props: Mapping[str, str | None]) -> dict[str, ConfigValue]:
        """Return what is wrong with a configuration; beyond its keys, where a subclass knows more."""
        return self.config_def.validate(props)


class SourceConnector(Connector):
    """A connector that reads from elsewhere into topics."""

    def exactly_once_support(self, props: Mapping[str, str]) -> bool | None:
        """Return whether the tasks resume exactly at the offsets stored; None where the connector does not say."""
        return None

    def can_define_transactions(self, props: Mapping[str, str]) -> bool:
        """Return whether the tasks set transactions' bounds through their context."""
        return False

    def alter_offsets(
        self, props: Mapping[str, str], offsets: Sequence[tuple[Mapping[str, Any], Mapping[str, Any] | None]]
    ) -> bool:
        """Look at (partition, offset) pairs that an operator wants stored; raise to refuse, True where it checked."""
        return False


class SinkConnector(Connector):
    """A connector that writes topics elsewhere."""

    def alter_offsets(self, props: Mapping[str, str], offsets: Mapping[TopicPartition, int | None]) -> bool:
        """Look at offsets that an operator wants committed; raise to refuse, True where it did something itself."""
        return False


@dataclass(frozen=True, slots=True)
class Measure:
    """Metrics of a task's own, as one MBean: `kafka.connect.mirror:type=MirrorSourceConnector,topic=…`."""

    domain: str
    type: str
    labels: Mapping[str, str]
    values: Mapping[str, float]
    """By the attributes' names, in Kafka's spelling: `record-age-ms-max`."""
    prefix: str = ""
    """How their names begin where the rules that people use write others than domain and type give."""


@dataclass(frozen=True, slots=True)
class SourceState:
    """What a source task knows of its source, for whoever asks whether it moves."""

    facts: Mapping[str, Any] = field(default_factory=dict)
    """What is shown, in the source's own words: `{"lsn": …, "server_lsn": …, "behind_bytes": …}`. JSON has to hold it."""
    waiting: int = 0
    """Records that the source is known to have and the task has not returned; 0 where it cannot know."""
    oldest_ms: int | None = None
    """When the oldest of them was made, in milliseconds since 1970; None where it is not known."""
    trouble: str | None = None
    """Why the source, or a part of it, cannot be read now, where the task tries again by itself; None where it can."""
    warnings: Sequence[str] = ()
    """What is not told while all else is, and stays so until somebody does something: a table that is refused, and why."""
    moved: object = None
    """Whatever changes as the task reads on, also without returning records: a place in a log, rows of a snapshot."""


class SourceTask:
    """A share of a source connector's work. `context` is set before `start`."""

    context: SourceTaskContext

    def start(self, props: Mapping[str, str]) -> None:
        """Begin; `context.offset` says where the last run came to."""
        self.props = dict(props)

    def poll(
        self,
    ) -> SourceColumns | Sequence[SourceRecord | SourceColumns | SourceBatch] | None:
        """Return records, or None where there are none now; may wait a little, not for ever.

        Many records of one topic and schema can be returned as `SourceColumns`, which costs far less for each; those of
        another cluster's topic as `SourceBatch`, which costs nothing for each.
        """
        raise NotImplementedError

    def commit(self) -> None:
        """Called when offsets up to the last poll's are stored."""

    def commit_record(self, record: SourceRecord, offset: int | None) -> None:
        """Called when a record is in its topic, at that offset; None where a transformation dropped it."""

    def commit_batch(self, batch: SourceBatch, first: int, count: int, offset: int | None) -> None:
        """Called when `count` records of a batch, from the one at `first` on, are in their topic, from that offset on."""

    def measures(self) -> Sequence[Measure]:
        """Return what the task measures itself; asked about once a second, and shown by the worker (KIP-877)."""
        return ()

    def source_state(self) -> SourceState:
        """Return what the task knows of its source; asked about once a second between two polls, and quick."""
        return SourceState()

    def stop(self) -> None:
        """End; may be called while `poll` waits."""


class SinkTask:
    """A share of a sink connector's work. `context` is set before `start`."""

    context: SinkTaskContext

    def start(self, props: Mapping[str, str]) -> None:
        """Begin."""
        self.props = dict(props)

    def open(self, partitions: Sequence[TopicPartition]) -> None:
        """Called when records of these partitions come from now on."""

    def put(self, records: Sequence[SinkRecord]) -> None:
        """Take records; RetriableError asks for the same ones again."""
        raise NotImplementedError

    def flush(self, offsets: Offsets) -> None:
        """Make everything put so far durable."""

    def pre_commit(self, offsets: Offsets) -> Offsets:
        """Return the offsets that may be committed: by default all, after `flush`."""
        self.flush(offsets)
        return offsets

    def close(self, partitions: Sequence[TopicPartition]) -> None:
        """Called when no more records of these partitions come."""

    def stop(self) -> None:
        """End, and let go of everything."""
