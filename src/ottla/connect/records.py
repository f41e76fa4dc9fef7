"""Records between a connector and the worker: topic, key and value with their schemas, headers, and where they come from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, NamedTuple

from ottla.connect.data.schema import Schema

__all__ = ["ConnectRecord", "Header", "SinkRecord", "SourceRecord"]


class Header(NamedTuple):
    """A record's header, with a schema where the value has one."""

    key: str
    value: Any
    schema: Schema | None = None


@dataclass(slots=True, kw_only=True)
class ConnectRecord:
    """What is common to both directions. A record is never changed: `replace` makes another.

    It is not frozen only because making a frozen one takes twice as long, and every transformation makes one.
    """

    names: ClassVar[tuple[str, ...]] = ()

    topic: str | None
    partition: int | None = None
    key_schema: Schema | None = None
    key: Any = None
    value_schema: Schema | None = None
    value: Any = None
    timestamp: int | None = None
    """Milliseconds since 1970."""

    headers: tuple[Header, ...] = ()

    def replace(self, **changes: Any) -> Any:
        """Return this record with some fields changed."""
        made = object.__new__(type(self))
        for name in self.names:
            setattr(made, name, changes[name] if name in changes else getattr(self, name))
        return made

    def header(self, key: str) -> Header | None:
        """Return the last header of that key."""
        return next((each for each in reversed(self.headers) if each.key == key), None)


@dataclass(slots=True, kw_only=True)
class SourceRecord(ConnectRecord):
    """A record that a source task has read; `source_offset` says where in `source_partition` reading goes on behind it."""

    java_name: ClassVar[str] = "org.apache.kafka.connect.source.SourceRecord"

    source_partition: Mapping[str, Any] = field(default_factory=dict)
    source_offset: Mapping[str, Any] | None = field(default_factory=dict)
    """None where reading cannot go on right behind this record: a later one of its partition has the offset for both."""


@dataclass(slots=True, kw_only=True)
class SinkRecord(ConnectRecord):
    """A record of a topic, to be put somewhere.

    `offset` and the partition are the topic's; the `original_…` say where a record was that transformations moved.
    """

    java_name: ClassVar[str] = "org.apache.kafka.connect.sink.SinkRecord"

    offset: int
    timestamp_type: str = "CREATE_TIME"
    original_topic: str | None = None
    original_partition: int | None = None
    original_offset: int | None = None

    def __post_init__(self) -> None:
        if self.original_topic is None:
            self.original_topic = self.topic
            self.original_partition = self.partition
            self.original_offset = self.offset


for _kind in (ConnectRecord, SourceRecord, SinkRecord):
    _kind.names = tuple(each.name for each in fields(_kind))
