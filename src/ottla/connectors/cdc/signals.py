"""Signals: what a running connector is asked for, by rows of a table, lines of a file, or records of a topic.

A signal has an id, a type and data, which is JSON: `execute-snapshot`, `stop-snapshot`, `pause-snapshot`,
`resume-snapshot`, `log`.
"""

from __future__ import annotations

import json
import logging
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ottla.connect import ConnectError, DataError, PatternError, compile_java

__all__ = ["CHANNELS", "KAFKA_OFFSET", "KEPT", "FileChannel", "KafkaChannel", "Request", "Signal", "requests_of"]

log = logging.getLogger(__name__)
CHANNELS: Final = ("source", "file", "kafka")
KAFKA_OFFSET: Final = "signal_kafka_offset"
"""The name in source offsets of the next record of the topic of signals."""
KEPT: Final = ("incremental_snapshot_", "blocking_snapshot_", "signal_kafka_")
"""What the names begin with of what signals have left in source offsets."""
ANSWER_SECONDS_MAX = 10.0
MOST = 100
"""Signals that are taken at once."""
INCREMENTAL, BLOCKING = "incremental", "blocking"


@dataclass(frozen=True, slots=True)
class Signal:
    """One signal."""

    id: str
    type: str
    data: Mapping[str, Any]

    @classmethod
    def of(cls, id_: Any, type_: Any, data: Any) -> Signal:
        """Take what a row or a line says, data as JSON or read already; raises DataError for what is no signal."""
        try:
            found = json.loads(data) if isinstance(data, str) and data.strip() else data
        except (ValueError, RecursionError) as error:
            raise DataError(f"The data of signal {id_} are no JSON: {error}") from error
        if not isinstance(type_, str) or not isinstance(found or {}, dict):
            raise DataError(f"Signal {id_} has no type that is a text, or data that are no object of JSON")
        return cls(str(id_), type_, found or {})

    @classmethod
    def parsed(cls, text: str | bytes) -> Signal:
        """Take an object of JSON, which is given an id where it has none; raises DataError for what is no signal."""
        try:
            row = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise DataError(str(error)) from error
        if not isinstance(row, dict):
            raise DataError("it is no object of JSON")
        return cls.of(row.get("id") or uuid.uuid4(), row.get("type"), row.get("data"))


@dataclass(frozen=True, slots=True)
class Request:
    """A table that is to be read: its name, which rows, by which column where it is not to be the key."""

    table: str
    condition: str | None = None
    surrogate: str | None = None


def requests_of(signal: Signal, tables: Sequence[str]) -> list[Request]:
    """Return the tables that a signal asks for, of those that are captured: by regular expressions of whole names.

    Raises DataError for a signal that names none.
    """
    data = signal.data
    names = data.get("data-collections")
    if not isinstance(names, list) or not names:
        raise DataError(f"Signal {signal.id} names no data-collections: a list of schema.table")
    if not isinstance(data.get("additional-conditions") or [], list):
        raise DataError(f"Signal {signal.id} has additional-conditions that are no list of data-collection and filter")
    conditions = _conditions(data)
    surrogate = data.get("surrogate-key")
    found: dict[str, Request] = {}
    for each in names:
        for table in tables:
            if _is(each, table) and table not in found:
                condition = next((filter_ for name, filter_ in conditions if name is None or _is(name, table)), None)
                found[table] = Request(table, condition, surrogate if isinstance(surrogate, str) else None)
    return list(found.values())


def _conditions(data: Mapping[str, Any]) -> list[tuple[str | None, str]]:
    """Return the conditions of tables, by their names; None is for all (`additional-condition`)."""
    found: list[tuple[str | None, str]] = [
        (each.get("data-collection"), each["filter"])
        for each in data.get("additional-conditions") or ()
        if isinstance(each, dict) and isinstance(each.get("filter"), str)
    ]
    if isinstance(data.get("additional-condition"), str):
        found.append((None, data["additional-condition"]))
    return found


def _is(name: Any, table: str) -> bool:
    """Whether a name, or a regular expression, is a table's."""
    text = str(name).replace('"', "")
    if text == table:
        return True
    try:
        return compile_java(f"(?i){text}").fullmatch(table) is not None
    except PatternError:
        return False


class FileChannel:
    """Takes signals from a file, a JSON object a line: `{"id": …, "type": …, "data": {…}}`; what was read is removed."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)

    def taken(self) -> list[Signal]:
        """Return the signals that are there; a line that is none is passed over, and said."""
        try:
            text = self._path.read_text()
            if not text:
                return []
            self._path.write_text("")
        except FileNotFoundError:
            return []
        except (OSError, UnicodeError) as error:
            log.warning("Signals cannot be read: %s", error)
            return []
        found = []
        for line in filter(str.strip, text.splitlines()):
            try:
                found.append(Signal.parsed(line))
            except DataError as error:
                log.warning("A line of %s is no signal: %s", self._path, error)
        return found


class KafkaChannel:
    """Takes signals from a topic of one partition: values as in the file, under the key `topic.prefix`.

    The place is part of the source's offsets; the first time it is the topic's end.
    """

    def __init__(self, settings: Mapping[str, Any], offset: Mapping[str, Any], more: Mapping[str, Any]) -> None:
        """`more` are properties of librdkafka's; raises ConnectError where the brokers are not there."""
        from confluent_kafka import Consumer, KafkaException, TopicPartition

        self._prefix: str = settings["topic.prefix"]
        topic = settings["signal.kafka.topic"] or f"{self._prefix}-signal"
        self._consumer = Consumer(
            {
                "bootstrap.servers": settings["signal.kafka.bootstrap.servers"],
                "group.id": settings["signal.kafka.groupId"],
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "allow.auto.create.topics": True,
                **more,
            }
        )
        place, kept = TopicPartition(topic, 0), offset.get(KAFKA_OFFSET)
        try:
            self._next: int = kept if isinstance(kept, int) else self._end_of(place)
        except KafkaException as error:
            self._consumer.close()
            raise ConnectError(
                f"The topic of signals {topic} cannot be asked for its end, where a new connector begins ({error}): "
                "signal.kafka.bootstrap.servers has to name brokers that answer, and signal.consumer.* how to log in"
            ) from error
        self._consumer.assign([TopicPartition(topic, 0, self._next)])

    def _end_of(self, place: Any) -> int:
        """Return where a topic ends, 0 of one that is not there; raises KafkaException where nobody says."""
        from confluent_kafka import KafkaError, KafkaException

        try:
            return int(self._consumer.get_watermark_offsets(place, timeout=ANSWER_SECONDS_MAX)[1])
        except KafkaException as error:
            missing = (KafkaError._UNKNOWN_PARTITION, KafkaError._UNKNOWN_TOPIC, KafkaError.UNKNOWN_TOPIC_OR_PART)
            if error.args[0].code() not in missing:
                raise
            log.warning("The topic of signals %s is not there yet: %s", place.topic, error)
            return 0

    def offset(self) -> dict[str, Any]:
        """Return the place as a part of a source offset."""
        return {KAFKA_OFFSET: self._next}

    def taken(self) -> list[Signal]:
        """Return the signals that have come; a record that is none is passed over, and said."""
        found = []
        for each in self._consumer.consume(MOST, 0.0):
            if (error := each.error()) is not None:
                log.warning("Signals cannot be read: %s", error)
                continue
            self._next = each.offset() + 1  # type: ignore[operator]
            if (each.key() or b"") != self._prefix.encode():
                continue
            try:
                found.append(Signal.parsed(each.value() or b"null"))
            except DataError as wrong:
                log.warning("Record %s of the topic of signals is no signal: %s", each.offset(), wrong)
        return found

    def close(self) -> None:
        """Hang up."""
        self._consumer.close()
