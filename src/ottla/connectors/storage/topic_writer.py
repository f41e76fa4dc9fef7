"""One topic partition on its way into files: which are open, when they end, and what may be committed.

All open files of a topic partition end together, in the order of records, and what begins a file depends on the records
alone (unless the clock is asked). So whoever begins again at the last committed offset makes the same files with the same
names, and what was stored before is only stored once more: each record is there exactly once.

Offsets may go back while a task runs: a worker reads again from the last commit after a failure, and a partition whose
leader was elected uncleanly, and has lost its end, is read again from where it has something. What comes then is written as
by a task that begins there, for it need not be what was there before. Only the same batch that is put once more, because it
was broken off with a RetriableError, is known to hold what was taken (`begin`, `break_off`).
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from ottla.base import TopicPartition
from ottla.connect import DataError, RetriableError, Schema, SinkColumns, SinkRecord, Struct, data
from ottla.connectors.storage.formats import Encoder, FileFormat, Output
from ottla.connectors.storage.names import Names, Part
from ottla.connectors.storage.partitioners import ByPartition, Partitioner
from ottla.connectors.storage.projection import Compatibility, ends_file, projected
from ottla.connectors.storage.rotation import Rotation, RotationRules
from ottla.connectors.storage.timestamps import TimestampOf

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["HEADERS_SCHEMA", "Held", "Store", "StoredFile", "TopicWriter", "Upload", "WriterPlan", "offset_of"]

log = logging.getLogger(__name__)

HEADERS_SCHEMA = data.SchemaBuilder.array(
    data.SchemaBuilder.struct().field("key", data.STRING).field("value", data.OPTIONAL_STRING).build()
).build()
"""Of the headers of one record in a file: names, and values as text."""

_HEADER = HEADERS_SCHEMA.value_schema
UPLOADS_WAITING_MAX = 64
"""How many ended files of a partition may wait for their upload before records do."""


@dataclass(frozen=True, slots=True)
class Held:
    """What a file holds: the offsets of its first and its last record, and how many records."""

    first: int
    last: int
    records: int


class Upload(Protocol):
    """A file that is ended and on its way."""

    def done(self) -> bool:
        """Return whether it is stored; raises what went wrong, RetriableError where it may go well later."""
        ...

    def wait(self) -> None:
        """Return when it is stored; raises what went wrong."""
        ...


class StoredFile(Output, Protocol):
    """A file of a store that is written. Nobody sees it before it is whole."""

    def check(self) -> None:
        """Raise what storing the first pieces ran into, which `write` keeps to itself."""
        ...

    def commit(self, held: Held) -> Upload:
        """End the file."""
        ...

    def abort(self) -> None:
        """Throw it away."""
        ...


class Store(Protocol):
    """Where files are kept under names."""

    def create(self, key: str) -> StoredFile:
        """Begin a file; one of the same name is replaced when this one is ended."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class WriterPlan:
    """How records become files, the same for all topic partitions of a task."""

    names: Names
    partitioner: Partitioner
    timestamp_of: TimestampOf
    rules: RotationRules
    compatibility: Compatibility
    value: FileFormat
    keys: FileFormat | None = None
    headers: FileFormat | None = None
    on_null: str = "fail"
    """`fail`, `ignore` or `write`: the key goes to a file of its own, as nothing else is there."""

    tombstone_path: str = "tombstone"


@dataclass(slots=True)
class _Open:
    """The file of one part of the records of one directory."""

    file: StoredFile
    encoder: Encoder
    first: int
    """The offset of its first record."""
    last: int = -1
    records: int = 0

    def count(self, last: int, records: int = 1) -> None:
        """Note records that it was given, up to an offset."""
        self.last = last
        self.records += records


@dataclass(slots=True)
class _Group:
    """The open files of one directory: values, and keys and headers beside them."""

    schema: Schema | None
    parts: dict[str, _Open] = field(default_factory=dict)
    key_schema: Schema | None = None


@dataclass(slots=True)
class _Prepared:
    """A record that can be written."""

    topic: str
    path: str
    timestamp_ms: int | None
    pieces: list[tuple[str, Schema | None, Any]]
    """Part, schema and what the part's format has made of it."""


class TopicWriter:
    """Writes one topic partition. `report` is called with what cannot be written; it raises where that ends the task."""

    def __init__(
        self,
        plan: WriterPlan,
        store: Store,
        place: TopicPartition,
        *,
        now_ms: Callable[[], int],
        report: Callable[[SinkRecord, DataError], None],
    ) -> None:
        self._plan, self._store, self._report = plan, store, report
        self._place = place
        self._rotation = Rotation(plan.rules, now_ms)
        self._open: dict[tuple[str, str], _Group] = {}
        self._uploads: deque[tuple[int, list[Upload]]] = deque()
        self._position: int | None = None
        """The offset behind the last record taken; one before it begins a new stretch."""

        self._taken: int | None = None
        """The offset behind the last record that was taken of this batch, None before the first."""

        self._broken_off: tuple[int, int] | None = None
        """Of a batch that comes again: its first offset, and up to which it was taken."""

        self._skipped = 0
        """Up to where a batch that came again is skipped."""

        self._committed: int | None = None
        self._formats = {Part.VALUE: plan.value}
        if plan.keys is not None:
            self._formats[Part.KEYS] = plan.keys
        if plan.headers is not None:
            self._formats[Part.HEADERS] = plan.headers

    def begin(self, first: int) -> None:
        """Begin a batch, by its first offset: one that was broken off is taken from where that happened."""
        self._skipped = 0
        if self._broken_off is not None and self._broken_off[0] == first:
            self._skipped = self._broken_off[1]
        self._taken, self._broken_off = None, None

    def break_off(self, first: int) -> None:
        """Remember how much of a batch was taken, for it is to be put again."""
        self._broken_off = first, max(self._taken or 0, self._skipped)

    def put(self, record: SinkRecord) -> None:
        """Take a record; RetriableError where earlier files cannot be stored now, and the record is not taken."""
        offset = offset_of(record)
        if offset < self._skipped:
            return
        if self._position is not None and offset < self._position:
            self._go_back(offset, self._position)
        self._make_room()
        try:
            prepared = self._prepared(record)
        except DataError as error:
            self._report(record, error)
            prepared = None
        if prepared is not None:
            self._write(prepared, offset)
        self._position = self._taken = offset + 1
        if self._rotation.is_full():
            self.end_files()

    def _go_back(self, offset: int, position: int) -> None:
        """Begin a new stretch at an offset before what was taken; RetriableError where that cannot be done now.

        Files that begin at it or behind it are thrown away, for what they hold comes again or is no longer in the topic.
        Those that begin before are ended: their first records do not come again.
        """
        self._store_ended()  # else an upload of the old stretch could replace one of the same name of the new stretch
        log.warning("%s goes on at offset %d, before %d: files begin anew there", self._place, offset, position)
        for group in self._open.values():
            for part in [part for part, opened in group.parts.items() if opened.first >= offset]:
                group.parts.pop(part).file.abort()
        self._position = offset
        self.end_files()
        if self._committed is not None:
            self._committed = min(self._committed, offset)

    def put_columns(self, columns: SinkColumns) -> None:
        """Take rows as `put` takes records, many at once where nothing of them is asked but the value."""
        rows = columns.values
        if not self._takes_blocks() or rows.null_count:
            for record in columns.records():
                self.put(record)
            return
        begin = self._first_new(columns)
        if begin < len(rows) and self._position is not None:
            first: int = columns.offsets[begin].as_py()
            if first < self._position:
                self._go_back(first, self._position)
        while begin < len(rows):
            self._make_room()
            if self._rotation.is_due():
                self.end_files()
            count = min(len(rows) - begin, self._rotation.room)
            self._put_block(columns, rows.slice(begin, count), begin)
            begin += count
            if self._rotation.is_full():
                self.end_files()

    def _takes_blocks(self) -> bool:
        plan = self._plan
        alone = plan.keys is None and plan.headers is None
        return alone and plan.rules.interval_ms <= 0 and isinstance(plan.partitioner, ByPartition)

    def _first_new(self, columns: SinkColumns) -> int:
        if not self._skipped:
            return 0
        offsets = columns.offsets
        low, high = 0, len(offsets)
        while low < high:
            middle = (low + high) // 2
            if offsets[middle].as_py() < self._skipped:
                low = middle + 1
            else:
                high = middle
        return low

    def _put_block(self, columns: SinkColumns, rows: pa.Array, begin: int) -> None:
        group = self._open.get((columns.topic, path := f"partition={columns.partition}"))
        same = group is None or ends_file(Compatibility.NONE, group.schema, columns.schema) is False
        block = self._plan.value.block(rows) if same else None
        last = begin + len(rows)
        if block is None:
            part = SinkColumns(
                topic=columns.topic,
                partition=columns.partition,
                values=rows,
                schema=columns.schema,
                offsets=columns.offsets.slice(begin, len(rows)),
                timestamps=columns.timestamps.slice(begin, len(rows)),
                timestamp_type=columns.timestamp_type,
            )
            for record in part.records():
                self.put(record)
            return
        offset: int = columns.offsets[begin].as_py()
        group = self._group(columns.topic, path, columns.schema)
        opened = self._part(group, columns.topic, path, (Part.VALUE, columns.schema), offset)
        opened.file.write(block)
        self._rotation.add(None, path, len(rows))
        self._position = self._taken = columns.offsets[last - 1].as_py() + 1
        opened.count(self._position - 1, len(rows))

    def _prepared(self, record: SinkRecord) -> _Prepared | None:
        """Return what is written of a record, None where nothing is; raises DataError for what cannot be.

        Where time or another directory ends the files, they end here: the record's schema is compared with its file's.
        """
        plan, topic = self._plan, record.topic or ""
        if record.value is None and plan.on_null == "ignore":
            return None
        without_value = record.value is None and plan.on_null == "write"
        if record.value is None and not without_value:
            raise DataError("The record has a null value; behavior.on.null.values says what is done with it")
        path = plan.tombstone_path if without_value else plan.partitioner.encode(record)
        timestamp_ms = plan.timestamp_of(record) if plan.rules.interval_ms > 0 else None
        if self._rotation.ends_before(timestamp_ms, path):
            self.end_files()
        pieces: list[tuple[str, Schema | None, Any]] = []
        if not without_value:
            pieces.append(self._value_piece(record, topic, path))
        elif record.key is None or plan.keys is None:
            raise DataError("The record has no value and no key that is written, so that nothing of it would be there")
        if plan.keys is not None:
            if record.key is None:
                raise DataError("The record has no key, and store.kafka.keys=true writes keys")
            pieces.append((Part.KEYS, record.key_schema, plan.keys.convert(topic, record.key_schema, record.key)))
        if plan.headers is not None:
            pieces.append((Part.HEADERS, HEADERS_SCHEMA, self._headers(record, topic)))
        return _Prepared(topic, path, timestamp_ms, pieces)

    def _value_piece(self, record: SinkRecord, topic: str, path: str) -> tuple[str, Schema | None, Any]:
        schema, value, group = record.value_schema, record.value, self._open.get((topic, path))
        compatibility = self._plan.compatibility
        current = None if group is None else group.schema
        if group is not None and current != schema and not ends_file(compatibility, current, schema):
            assert current is not None and schema is not None
            schema, value = current, projected(schema, value, current)
        return Part.VALUE, schema, self._plan.value.convert(topic, schema, value)

    def _headers(self, record: SinkRecord, topic: str) -> Any:
        assert self._plan.headers is not None and _HEADER is not None
        listed = [
            _header_struct(each.key, None if each.value is None else _text(each.schema, each.value))
            for each in record.headers
        ]
        return self._plan.headers.convert(topic, HEADERS_SCHEMA, listed)

    def _write(self, prepared: _Prepared, offset: int) -> None:
        topic, path = prepared.topic, prepared.path
        if self._changes_schema(prepared):
            self.end_files()
        of_value = next((schema for part, schema, _ in prepared.pieces if part == Part.VALUE), None)
        group = self._group(topic, path, of_value)
        for part, schema, piece in prepared.pieces:
            if part == Part.KEYS:
                group.key_schema = schema
            opened = self._part(group, topic, path, (part, schema), offset)
            opened.encoder.add(piece)
            opened.count(offset)
        self._rotation.add(prepared.timestamp_ms, path)

    def _changes_schema(self, prepared: _Prepared) -> bool:
        group = self._open.get((prepared.topic, prepared.path))
        if group is None:
            return False
        for part, schema, _ in prepared.pieces:
            if part == Part.VALUE and schema != group.schema:
                return True
            if part == Part.KEYS and schema != group.key_schema:
                return True
        return False

    def _group(self, topic: str, path: str, schema: Schema | None) -> _Group:
        group = self._open.get((topic, path))
        if group is None:
            group = self._open[topic, path] = _Group(schema)
        return group

    def _part(self, group: _Group, topic: str, path: str, kind: tuple[str, Schema | None], offset: int) -> _Open:
        part, schema = kind
        opened = group.parts.get(part)
        if opened is None:
            form = self._formats[part]
            ending, origin = part + form.extension, self._place.topic
            key = self._plan.names.key(topic, self._place.partition, offset, path=path, ending=ending, origin=origin)
            file = self._store.create(key)
            opened = group.parts[part] = _Open(file, form.encoder(schema, file, key), offset)
        return opened

    def tick(self) -> None:
        """End the files if the clock says so; raises what storing earlier ones ran into."""
        self._make_room()
        for group in self._open.values():
            for opened in group.parts.values():
                opened.file.check()
        if self._rotation.is_due():
            self.end_files()

    def end_files(self) -> None:
        """End all open files and send them off."""
        uploads = []
        for group in self._open.values():
            for opened in group.parts.values():
                opened.encoder.finish()
                uploads.append(opened.file.commit(Held(opened.first, opened.last, opened.records)))
        self._open = {}
        self._rotation.reset()
        assert self._position is not None
        self._uploads.append((self._position, uploads))

    def _make_room(self) -> None:
        """Forget files that are stored; wait for the first where too many are not. Raises what one ran into."""
        while self._uploads:
            offset, uploads = self._uploads[0]
            if len(self._uploads) >= UPLOADS_WAITING_MAX:
                for each in uploads:
                    each.wait()
            if not all(each.done() for each in uploads):
                return
            self._committed = offset
            self._uploads.popleft()

    def stored_offset(self, consumed: int) -> int | None:
        """Wait for the files that are ended, and return the offset up to which all is stored; None where nothing is new.

        `consumed` is the offset up to which records were given, those included that transformations dropped. A file that
        cannot be stored now is tried again with the next records.
        """
        try:
            self._store_ended()
        except RetriableError as error:
            log.warning("Offsets behind a file that could not be stored yet are not committed: %s", error)
        if not self._uploads and not self._open:
            return consumed
        return None if self._committed is None else min(self._committed, consumed)

    def _store_ended(self) -> None:
        """Wait for the files that are ended; raises what storing them ran into."""
        while self._uploads:
            offset, uploads = self._uploads[0]
            for each in uploads:
                each.wait()
            self._committed = offset
            self._uploads.popleft()

    def close(self) -> None:
        """Throw away what is open: its records come again."""
        for group in self._open.values():
            for opened in group.parts.values():
                opened.file.abort()
        self._open = {}
        self._rotation.reset()


def _header_struct(key: str, value: str | None) -> Struct:
    """Return a header as it stands in files."""
    assert _HEADER is not None
    made = Struct(_HEADER)
    made.values[:] = key, value
    return made


def _text(schema: Schema | None, value: Any) -> str | None:
    return data.to_text(value) if schema is None else data.convert_to(data.OPTIONAL_STRING, schema, value)


def offset_of(record: SinkRecord) -> int:
    """Return the offset that a record was read from."""
    return record.offset if record.original_offset is None else record.original_offset
