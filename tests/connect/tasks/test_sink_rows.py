"""A sink's records: those that are converted together are the ones that each set of bytes makes by itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.base import ErrorCode, Millis, Offset, TopicPartition
from ottla.client import Fetched
from ottla.connect import DataError, SinkRecord, SinkTask
from ottla.connect.converters import JsonConverter, SimpleHeaderConverter, StringConverter
from ottla.connect.tasks.fetcher import FetchedRecords
from ottla.connect.tasks.pipeline import SinkPipeline
from ottla.connect.tasks.plugins import TaskPlugins
from ottla.connect.tasks.sink_rows import Portion, RowReader
from ottla.wire import Record, build_batch

PARTITION = TopicPartition("t", 3)
STRING = b'{"schema":{"type":"string","optional":false},"payload":"%d"}'


class Skipping:
    """Leaves out what fails, as `errors.tolerance=all` does, and keeps what failed."""

    def __init__(self) -> None:
        self.failed: list[tuple[int, str]] = []

    def again(self, error: Exception, stage: Any, plugin: Any, operation: Any, failed: Any) -> Any:
        from ottla.connect.tasks.error_handler import SkippedError

        assert isinstance(error, DataError)
        self.failed.append((failed.offset, stage.name))
        raise SkippedError


def json() -> JsonConverter:
    found = JsonConverter()
    found.configure({}, is_key=False)
    return found


def fetched(*batches: Sequence[Record]) -> FetchedRecords:
    data, offset = bytearray(), 0
    for each in batches:
        data += build_batch(each, base_offset=Offset(offset))
        offset += len(each)
    end = Offset(offset)
    answer = Fetched(PARTITION, Offset(0), ErrorCode.NONE, end, end, Offset(0), (), memoryview(bytes(data)))
    return FetchedRecords(answer)


def portions(answer: FetchedRecords, value: Any, *, together: bool = True, poll_records: int = 500) -> list[Portion]:
    """Return what a task is given of an answer; one by one where not `together`."""
    equipment = TaskPlugins(None, StringConverter(), value, SimpleHeaderConverter(), ())  # type: ignore[arg-type]
    handler = Skipping()
    pipeline = SinkPipeline(equipment, handler)  # type: ignore[arg-type]
    if not together:
        equipment = TaskPlugins(None, StringConverter(), OneByOne(value), SimpleHeaderConverter(), ())  # type: ignore[arg-type]
    reader = RowReader(SinkTask(), equipment, pipeline, poll_records=poll_records)
    found = []
    while (portion := reader.portion(answer)) is not None:
        answer.advance(portion.rows)
        found.append(portion)
    return found


class OneByOne:
    """A converter that knows no columns."""

    def __init__(self, converter: Any) -> None:
        self.from_connect, self.to_connect = converter.from_connect, converter.to_connect


def records(found: Sequence[Portion]) -> list[SinkRecord]:
    return [each for portion in found for each in portion.records]


def row(key: bytes | None, value: bytes | None, headers: tuple[Any, ...] = (), timestamp: int = 5) -> Record:
    return Record(key=key, value=value, headers=headers, timestamp=Millis(timestamp))


def texts(count: int) -> list[Record]:
    return [row(f"k{number}".encode(), f"v{number}".encode(), (), 1_000 + number) for number in range(count)]


@pytest.mark.parametrize("poll_records", [1, 7, 500, 2_500, 10_000])
@pytest.mark.parametrize("count", [1, 31, 32, 4_321])
def test_a_block_is_put_in_polls_of_the_size_asked_for_each_record_once(count: int, poll_records: int) -> None:
    if poll_records == 1 and count > 32:
        count = 70
    found = portions(fetched(texts(count)), StringConverter(), poll_records=poll_records)
    assert [each.offset for each in records(found)] == list(range(count))
    assert all(len(each) == each.rows == poll_records for each in found[:-1])
    assert [each.next_offset for each in found] == [min((n + 1) * poll_records, count) for n in range(len(found))]
    assert records(found) == records(portions(fetched(texts(count)), StringConverter(), together=False))


def test_the_bytes_of_each_record_are_there_for_whoever_reports_it() -> None:
    found = portions(fetched(texts(100), texts(40)), StringConverter(), poll_records=30)
    raws = [(raw.offset, raw.key, raw.value) for portion in found for raw in portion.raws]
    assert raws == [(n, f"k{n % 100}".encode(), f"v{n % 100}".encode()) for n in range(140)]


def test_one_broken_record_among_many_is_left_out_alone() -> None:
    values = [STRING % number for number in range(3_000)]
    values[2_500] = b"{"
    answer = fetched([row(None, each) for each in values])
    found = records(portions(answer, json()))
    assert [each.offset for each in found] == [number for number in range(3_000) if number != 2_500]
    assert [each.value for each in found] == [str(number) for number in range(3_000) if number != 2_500]


ANY = st.none() | st.sampled_from([b"", b"x", b"\xff", STRING % 1, b'{"schema":null,"payload":1}', b"{", b'"a\\n"'])
BODY = st.builds(row, ANY, ANY, st.sampled_from([(), (("h", b"1"),), (("h", None),)]), st.sampled_from([-1, 0, 9]))


@given(st.lists(BODY, min_size=1, max_size=3), st.booleans(), st.integers(1, 90))
def test_together_is_as_one_by_one(few: list[Record], is_json: bool, poll_records: int) -> None:
    values = [*texts(40), *few, *few] if not is_json else [*few, *[row(None, STRING % n, (), n) for n in range(40)]]
    made = json if is_json else StringConverter
    found, wanted = (
        records(portions(fetched(values), made(), together=each, poll_records=poll_records)) for each in (True, False)
    )
    assert found == wanted
    assert [repr(each) for each in found] == [repr(each) for each in wanted]
