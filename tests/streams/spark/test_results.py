"""Results of Spark's aggregate become the records of topics: keys, windows, numbers, the changelog and the steps behind."""

from __future__ import annotations

import struct
from typing import Any

import pyarrow as pa
import pytest

from ottla.spark.streams.lowering.chain import Chain, ChainEnd, ChainStep
from ottla.spark.streams.lowering.python import SinkRows, key_hashes
from ottla.spark.streams.lowering.results import Results
from ottla.streams import TimeWindowedSerde, operations, serde_of

NUMBERS: list[int | None] = [0, -1, 1 << 40, None]
KEYS = [b"a", b"", b"key", b"z"]
TIMES = [1, 2, 3, 4]


def rows(values: pa.Array, starts: list[int] | None = None) -> pa.RecordBatch:
    columns = {"_base": pa.array(KEYS, pa.binary()), "_value": values, "timestamp": pa.array(TIMES, pa.int64())}
    if starts is not None:
        columns["_start"] = pa.array(starts, pa.int64())
    return pa.RecordBatch.from_pydict(columns)


def big(number: int | None) -> bytes | None:
    return None if number is None else struct.pack(">q", number)


def made(results: Results, batch: pa.RecordBatch) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for each in results([batch]) for row in each.to_pylist()]


def doubled(key: Any) -> SinkRows:
    chain = Chain(
        key,
        serde_of("long"),
        (ChainStep("to-stream", operations.TableToStream()),),
        (ChainEnd("sink", 0, key, serde_of("long"), None, "out", None, 3),),
    )
    return SinkRows(chain)


def test_results_by_key_go_to_the_changelog_and_to_the_steps_behind() -> None:
    found = made(Results("log", 4, doubled(serde_of("bytes"))), rows(pa.array(NUMBERS, pa.int64())))
    bare = [(key, big(number), at, None, None) for key, number, at in zip(KEYS, NUMBERS, TIMES, strict=True)]
    assert found == [("log", *each) for each in bare] + [("out", *each) for each in bare]


def test_windows_lie_where_their_key_lies_and_say_when_they_begin() -> None:
    starts = [0, 60_000, 120_000, 1 << 41]
    serde = TimeWindowedSerde(serde_of("bytes"), 60_000)
    found = made(Results("log", 4, doubled(serde)), rows(pa.array(NUMBERS, pa.int64()), starts))
    hashes = key_hashes(pa.array(KEYS, pa.binary())).tolist()
    keys = [key + struct.pack(">q", start) for key, start in zip(KEYS, starts, strict=True)]
    parts = list(zip(keys, map(big, NUMBERS), TIMES, hashes, strict=True))
    assert found == [("log", key + bytes(4), value, at, None, hashed % 4) for key, value, at, hashed in parts] + [
        ("out", key, value, at, None, hashed % 3) for key, value, at, hashed in parts
    ]


@pytest.mark.parametrize("values", [[b"one", None, b"", b"2"]])
def test_values_that_are_bytes_already_stay_as_they_are_and_nothing_has_to_follow(values: list[bytes | None]) -> None:
    batch = rows(pa.array(values, pa.binary()))
    assert [each[2] for each in made(Results("log", 1, None), batch)] == values
    assert made(Results(None, 1, None), batch) == []
    assert made(Results("log", 1, None), batch.slice(0, 0)) == []
