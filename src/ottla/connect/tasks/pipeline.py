"""A record's way between a connector's values and a topic's bytes: transformations, converters, and what is done on errors.

The usual way costs one `try` per step; only what fails is tried again step by step, from where it failed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from types import NoneType
from typing import Any

from ottla.connect import ColumnsConverter, ConnectError, Header, SinkRecord, SourceRecord, Stage, error_policy
from ottla.connect.tasks.error_handler import ErrorHandler, SkippedError
from ottla.connect.tasks.plugins import TaskPlugins
from ottla.connect.tasks.submitted import Submitted

__all__ = ["FailedSource", "Headers", "RawRecord", "SinkPipeline", "SourcePipeline", "converts_columns"]

Headers = list[tuple[str, bytes | None]]
SourceRow = tuple[SourceRecord, bytes | None, bytes | None, Headers | None]


@dataclass(frozen=True, slots=True)
class FailedSource:
    """A source record that failed, as reports see it."""

    record: SourceRecord
    submitted: Submitted | None = None
    """What waits for it to be settled, where it has been sent already and was refused."""

    @property
    def origin(self) -> tuple[None, None, None]:
        """See `Failed`."""
        return None, None, None

    def describe(self) -> str:
        """See `Failed`."""
        each = self.record
        return (
            f"{{source key = '{each.key!r}', source key schema = '{each.key_schema!r}', source value = '{each.value!r}', "
            f"source value schema = '{each.value_schema!r}', topic = '{each.topic}', partition = {each.partition}, "
            f"timestamp = {each.timestamp}, source partition = {dict(each.source_partition)}, "
            f"source offset = {dict(each.source_offset or {})}, headers = {list(each.headers)}}}"
        )


@dataclass(slots=True, eq=False)
class RawRecord:
    """A topic's record as its bytes, as reports see it and dead letters repeat it."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    timestamp_type: str
    key: bytes | None
    value: bytes | None
    headers: Headers

    @property
    def origin(self) -> tuple[str, int, int]:
        """See `Failed`."""
        return self.topic, self.partition, self.offset

    def describe(self) -> str:
        """See `Failed`."""
        return (
            f"{{topic='{self.topic}', partition={self.partition}, offset={self.offset}, timestamp={self.timestamp}, "
            f"timestampType={'CreateTime' if self.timestamp_type == 'CREATE_TIME' else 'LogAppendTime'}}}"
        )


def converts_columns(converter: Any) -> bool:
    """Return whether a converter knows columns."""
    return isinstance(converter, ColumnsConverter)


class _Chain:
    """Transformations one by one, each with its own retries."""

    def __init__(self, stages: Iterable[Stage], handler: ErrorHandler) -> None:
        self._stages = tuple(stages)
        self._handler = handler

    def apply(self, record: Any, failed: Any) -> Any:
        """Return the record behind all of them, None where one dropped it; raises as `ErrorHandler.again`."""
        for stage in self._stages:
            try:
                record = stage.apply(record)
            except Exception as error:  # a transformation may raise anything
                record = self._again(error, stage, record, failed)
            if record is None:
                return None
        return record

    def _again(self, error: Exception, stage: Stage, record: Any, failed: Any) -> Any:
        return self._handler.again(
            error, error_policy.Processing.TRANSFORMATION, stage.transformation, lambda: stage.apply(record), failed
        )


_LASTING = (str, int, float, bool, bytes, NoneType)
"""Kinds of values that nobody can change."""


class SourcePipeline:
    """From source records to keys, values and headers in bytes."""

    def __init__(self, equipment: TaskPlugins, handler: ErrorHandler) -> None:
        self._key, self._value, self._headers = equipment.key, equipment.value, equipment.headers
        self._from_key, self._from_value = equipment.key.from_connect, equipment.value.from_connect
        self._chain = _Chain(equipment.stages, handler)
        self._has_stages = bool(equipment.stages)
        self._handler = handler
        self._known_headers: tuple[str, object, Headers] | None = None
        """Of the record before: topic, headers, and what they became; many tasks give each record the same."""

    def row(self, original: SourceRecord) -> SourceRow | None:
        """Return a record behind its transformations and its bytes, None where it is left out.

        Raises ConnectError where the task ends over it, StoppingError.
        """
        record = original
        try:
            if self._has_stages:
                found = self._chain.apply(original, FailedSource(original))
                if found is None:
                    return None
                record = found
            topic = record.topic
            if topic is None:
                raise ConnectError(f"A record has no topic: {original!r}")
            headers = self._converted_headers(original, record) if record.headers else None
            try:
                key = self._from_key(topic, record.key_schema, record.key)
            except Exception as error:  # a converter may raise anything
                key = self._again(
                    error, error_policy.Processing.KEY_CONVERTER, original, topic, record.key_schema, record.key
                )
            try:
                return record, key, self._from_value(topic, record.value_schema, record.value), headers
            except Exception as error:  # a converter may raise anything
                stage = error_policy.Processing.VALUE_CONVERTER
                value = self._again(error, stage, original, topic, record.value_schema, record.value)
                return record, key, value, headers
        except SkippedError:
            return None

    def _again(
        self,
        error: Exception,
        stage: error_policy.Processing,
        original: SourceRecord,
        topic: str,
        schema: Any,
        value: Any,
    ) -> bytes | None:
        converter = self._key if stage is error_policy.Processing.KEY_CONVERTER else self._value
        return self._handler.again(
            error, stage, converter, lambda: converter.from_connect(topic, schema, value), FailedSource(original)
        )

    def _converted_headers(self, original: SourceRecord, record: SourceRecord) -> Headers:
        known = self._known_headers
        if known is not None and known[1] is record.headers and known[0] == record.topic:
            return known[2]
        found = self._newly_converted_headers(original, record)
        if all(type(each.value) in _LASTING for each in record.headers):
            self._known_headers = record.topic or "", record.headers, found
        return found

    def headers(self, topic: str, headers: Iterable[Header]) -> Headers:
        """Return the bytes of headers that many records have; raises whatever the converter does."""
        convert = self._headers.from_header
        return [(each.key, convert(topic, each.key, each.schema, each.value)) for each in headers]

    def _newly_converted_headers(self, original: SourceRecord, record: SourceRecord) -> Headers:
        def convert() -> Headers:
            return self.headers(record.topic or "", record.headers)

        try:
            return convert()
        except Exception as error:  # a converter may raise anything
            failed = FailedSource(original)
            return self._handler.again(error, error_policy.Processing.HEADER_CONVERTER, self._headers, convert, failed)


class SinkPipeline:
    """From a topic's bytes to sink records."""

    def __init__(self, equipment: TaskPlugins, handler: ErrorHandler) -> None:
        self._key, self._value, self._headers = equipment.key, equipment.value, equipment.headers
        self._to_key, self._to_value = equipment.key.to_connect, equipment.value.to_connect
        self._chain = _Chain(equipment.stages, handler)
        self._has_stages = bool(equipment.stages)
        self._handler = handler

    def record(self, raw: RawRecord) -> SinkRecord | None:
        """Return the record of some bytes behind its transformations, None where it is left out.

        Raises ConnectError where the task ends over it, StoppingError.
        """
        try:
            try:
                key_schema, key = self._to_key(raw.topic, raw.key)
            except Exception as error:  # a converter may raise anything
                key_schema, key = self._again(error, error_policy.Processing.KEY_CONVERTER, raw)
            try:
                value_schema, value = self._to_value(raw.topic, raw.value)
            except Exception as error:  # a converter may raise anything
                value_schema, value = self._again(error, error_policy.Processing.VALUE_CONVERTER, raw)
            headers = self._converted_headers(raw) if raw.headers else ()
            made = SinkRecord(
                topic=raw.topic,
                partition=raw.partition,
                key_schema=key_schema,
                key=key,
                value_schema=value_schema,
                value=value,
                timestamp=None if raw.timestamp < 0 else raw.timestamp,
                headers=headers,
                offset=raw.offset,
                timestamp_type=raw.timestamp_type,
            )
            if not self._has_stages:
                return made
            found: SinkRecord | None = self._chain.apply(made, raw)
            return found
        except SkippedError:
            return None

    def _again(self, error: Exception, stage: error_policy.Processing, raw: RawRecord) -> Any:
        is_key = stage is error_policy.Processing.KEY_CONVERTER
        converter, data = (self._key, raw.key) if is_key else (self._value, raw.value)
        return self._handler.again(error, stage, converter, lambda: converter.to_connect(raw.topic, data), raw)

    def _converted_headers(self, raw: RawRecord) -> tuple[Header, ...]:
        def convert() -> tuple[Header, ...]:
            found = ((name, self._headers.to_header(raw.topic, name, data)) for name, data in raw.headers)
            return tuple(Header(name, each.value, each.schema) for name, each in found)

        try:
            return convert()
        except Exception as error:  # a converter may raise anything
            return self._handler.again(error, error_policy.Processing.HEADER_CONVERTER, self._headers, convert, raw)
