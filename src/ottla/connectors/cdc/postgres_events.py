"""What is PostgreSQL's own in records: `source`, and logical messages. Pure."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ottla.connect import Schema, SourceRecord
from ottla.connect.data import INT64, OPTIONAL_BYTES, OPTIONAL_INT64, OPTIONAL_STRING, STRING, Struct, joined_texts
from ottla.connectors.cdc.catalog import TableId, default_of
from ottla.connectors.cdc.column_events import same
from ottla.connectors.cdc.column_kinds import KindSettings, binary_writer, kind_of, takes_default
from ottla.connectors.cdc.events import BLOCK, INCREMENTAL, SNAPSHOT, VERSION, Dialect, Events, made, struct_schema
from ottla.connectors.cdc.settings import parts
from ottla.connectors.cdc.source_types import SourceTypes

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

__all__ = ["Messages", "Moment", "Moments", "postgres_dialect"]

_P: Final = "io.debezium.connector.postgresql"
_NAME: Final = "postgresql"
SOURCE: Final = struct_schema(
    f"{_P}.Source",
    1,
    {
        **dict.fromkeys(("version", "connector", "name"), STRING),
        "ts_ms": INT64,
        "snapshot": SNAPSHOT,
        "db": STRING,
        "sequence": OPTIONAL_STRING,
        **dict.fromkeys(("ts_us", "ts_ns"), OPTIONAL_INT64),
        **dict.fromkeys(("schema", "table"), STRING),
        **dict.fromkeys(("txId", "lsn", "xmin"), OPTIONAL_INT64),
        "origin": OPTIONAL_STRING,
        "origin_lsn": OPTIONAL_INT64,
    },
)
MESSAGE_KEY: Final = struct_schema(f"{_P}.MessageKey", 1, {"prefix": OPTIONAL_STRING})


@dataclass(slots=True)
class Moment:
    """Where and when a change was made."""

    lsn: int
    commit_us: int
    xid: int | None
    last_commit_lsn: int | None
    """None in a snapshot."""
    snapshot: str = "false"
    origin: str | None = None
    origin_lsn: int | None = None


@dataclass(frozen=True, slots=True)
class Moments:
    """Where and when changes of many rows were made: one number for all of them, or one for each."""

    lsns: NDArray[np.int64] | int
    commit_us: NDArray[np.int64] | int
    xids: NDArray[np.int64] | int | None
    last_commit_lsns: NDArray[np.int64] | int | None
    snapshot: Sequence[str] | str = "false"


def _numbers(found: Any, count: int) -> pa.Array:
    import pyarrow as pa

    return same(found, pa.int64(), count) if found is None or isinstance(found, int) else pa.array(found, pa.int64())


def _sequences(moments: Moments, count: int) -> pa.Array:
    """Return the texts of `sequence`."""
    import pyarrow as pa

    last, lsns = moments.last_commit_lsns, moments.lsns
    before = ["null"] if last is None else ['"', _texts(last), '"']
    found = joined_texts(["[", *before, ',"', _texts(lsns), '"]'])
    return same(found, pa.string(), count) if isinstance(found, str) else found


def _texts(numbers: NDArray[np.int64] | int) -> pa.Array | str:
    import pyarrow as pa

    return str(numbers) if isinstance(numbers, int) else pa.array(numbers, pa.int64()).cast(pa.string())


def _sequence(last: int | None, lsn: int) -> str:
    before = "null" if last is None else f'"{last}"'
    return f'[{before},"{lsn}"]'


def postgres_dialect(settings: Mapping[str, Any], kinds: KindSettings) -> Dialect:
    """Return what is PostgreSQL's own in records."""
    database: str = settings["database.dbname"]

    def source_values(prefix: str, moment: Moment, table: TableId | None) -> list[Any]:
        # what is read between marks stands nowhere in the log
        lsn = None if moment.snapshot == INCREMENTAL else moment.lsn
        us = moment.commit_us
        return [
            *(VERSION, _NAME, prefix, us // 1000, moment.snapshot, database),
            *(_sequence(moment.last_commit_lsn, moment.lsn), us, us * 1000),
            *(("", "") if table is None else (table.schema, table.table)),
            *(moment.xid, lsn, None, moment.origin, moment.origin_lsn),
        ]

    def source_columns(prefix: str, table: TableId, moments: Moments, count: int) -> list[pa.Array]:
        import pyarrow as pa

        us: Any = moments.commit_us
        marks = moments.snapshot
        snapshot = same(marks, pa.string(), count) if isinstance(marks, str) else pa.array(marks, pa.string())
        return [
            *(same(each, pa.string(), count) for each in (VERSION, _NAME, prefix)),
            *(_numbers(us // 1000, count), snapshot, same(database, pa.string(), count)),
            *(_sequences(moments, count), _numbers(us, count), _numbers(us * 1000, count)),
            *(same(each, pa.string(), count) for each in (table.schema, table.table)),
            *(_numbers(moments.xids, count), _numbers(moments.lsns, count), _numbers(None, count)),
            *(same(None, pa.string(), count), _numbers(None, count)),
        ]

    types = SourceTypes.of(
        parts(settings["column.propagate.source.type"]), parts(settings["datatype.propagate.source.type"])
    )
    return Dialect(
        *(_NAME, SOURCE, source_values, lambda type_: kind_of(type_, kinds)),
        lambda column, kind: default_of(column.default, kind) if takes_default(column.type) else None,
        types.parameters,
        source_columns,
    )


class Messages:
    """Makes the records of logical messages."""

    def __init__(self, events: Events, binary: str) -> None:
        self._events, self._write, self._value = events, binary_writer(binary), _message_value(binary)
        self._topic = events.topic(events.prefix, "message")

    def record(self, moment: Moment, prefix: str, content: bytes, block: Struct | None) -> SourceRecord:
        """Return the record of a logical message."""
        body = made(self._value.struct_fields[-1].schema, [prefix, self._write(content)])
        now_ms = time.time_ns() // 1_000_000
        return SourceRecord(
            topic=self._topic,
            key_schema=MESSAGE_KEY,
            key=made(MESSAGE_KEY, [prefix]),
            value_schema=self._value,
            value=made(self._value, ["m", now_ms, self._events.source(moment, None), block, body]),
            source_partition=self._events.partition,
            source_offset=None,
        )


def _message_value(binary: str) -> Schema:
    """The schema of a logical message, whose content is written as bytea is."""
    content = OPTIONAL_BYTES if binary == "bytes" else OPTIONAL_STRING
    body = struct_schema(f"{_P}.Message", 1, {"prefix": OPTIONAL_STRING, "content": content})
    fields = {"op": STRING, "ts_ms": OPTIONAL_INT64, "source": SOURCE, "transaction": BLOCK, "message": body}
    return struct_schema(f"{_P}.MessageValue", 1, fields)
