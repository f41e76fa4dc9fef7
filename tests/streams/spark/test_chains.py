"""A tree of Python steps over Arrow batches, called as Spark's workers call it."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from ottla.spark.streams.lowering.cells import FAILED, apply
from ottla.spark.streams.lowering.chain import INPUT, Chain, ChainEnd, ChainStep
from ottla.spark.streams.lowering.python import HEADERS, ShuffleRows, SinkRows
from ottla.spark.streams.state.chunks import finished_apart, runs_of
from ottla.spark.streams.state.groups import group_of
from ottla.streams import ExceptionPolicy, Function, ProcessingFailed, Serdes, operations, vectorised
from ottla.wire import hash_keys

TEXT, LONG = Serdes.string(), Serdes.long()
SKIP = ExceptionPolicy("continue", "letters")


def batch(*records: tuple[bytes | None, bytes | None]) -> pa.RecordBatch:
    count = len(records)
    columns = {
        "_key": pa.array([key for key, _ in records], pa.binary()),
        "_value": pa.array([value for _, value in records], pa.binary()),
        "timestamp": pa.array(np.arange(count) + 100),
        "headers": pa.nulls(count, HEADERS),
        "topic": pa.array(["in"] * count),
        "partition": pa.array(np.full(count, 3, np.int32)),
        "offset": pa.array(np.arange(count) + 50),
    }
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def step(operation: operations.Operation, parent: int = INPUT, branch: int | None = None) -> ChainStep:
    return ChainStep(type(operation).__name__, operation, parent, branch)


def left(chain: Chain, *records: tuple[bytes | None, bytes | None]) -> list[dict[str, Any]]:
    return [row for made in SinkRows(chain)([batch(*records)]) for row in made.to_pylist()]


def python(call: Any) -> Function:
    return Function.of(call)


def test_results_go_on_behind_a_record_that_raises() -> None:
    failures: list[int] = []
    found, bad = apply(lambda value: 10 // value, ([5, 0, 2, 0],), lambda at, error: failures.append(at))
    assert (found, bad, failures) == ([2, FAILED, 5, FAILED], True, [1, 3])


def test_bytes_that_no_step_looks_at_are_not_decoded() -> None:
    upper = step(operations.MapValues(python(str.upper), TEXT))
    chain = Chain(LONG, TEXT, (upper,), (ChainEnd("sink", 0, LONG, TEXT, topic="out"),))
    [row] = left(chain, (b"no long", b"a"))
    assert (row["key"], row["value"], row["timestamp"], row["topic"]) == (b"no long", b"A", 100, "out")


def test_several_ends_share_the_steps_above_them() -> None:
    calls: list[str] = []
    noted = step(operations.Peek(python(calls.append)))
    ends = (ChainEnd("one", 0, TEXT, TEXT, topic="one"), ChainEnd("two", 0, TEXT, TEXT, topic="two"))
    rows = left(Chain(TEXT, TEXT, (noted,), ends), (b"k", b"v"))
    assert ([row["topic"] for row in rows], calls) == (["one", "two"], ["v"])


def test_a_record_that_fails_is_told_once_though_two_ends_need_it() -> None:
    ends = (ChainEnd("one", 0, TEXT, LONG, topic="one"), ChainEnd("two", 0, TEXT, LONG, topic="two"))
    number = step(operations.MapValues(python(int), LONG))
    rows = left(Chain(TEXT, TEXT, (number,), ends, processing=SKIP), (b"k", b"x"), (b"k", b"7"))
    assert [row["topic"] for row in rows] == ["one", "two", "letters", None]
    assert (rows[3]["key"], rows[3]["partition"]) == (b"MapValues", 1)


def divided_by_zero(value: int) -> float:
    return value / 0


@pytest.mark.parametrize("what", ["serde", "function", "pair", "sink"])
def test_a_failure_names_the_step_and_the_record(what: str) -> None:
    operation: Any = {
        "serde": operations.Filter(python(lambda value: value > 0)),
        "function": operations.Filter(python(divided_by_zero)),
        "pair": operations.Map(python(lambda key, value: value), key=TEXT, value=LONG),
        "sink": operations.MapValues(python(str), LONG),
    }[what]
    chain = Chain(TEXT, LONG, (step(operation),), (ChainEnd("sink", 0, TEXT, LONG, topic="out"),), source="source")
    value = b"short" if what == "serde" else bytes(8)
    name = {"serde": "source", "sink": "sink"}.get(what, type(operation).__name__)
    with pytest.raises(ProcessingFailed, match=rf"step {name} failed with record in-3@50[:,] ") as caught:
        left(chain, (b"k", value))
    if what == "function":
        line = divided_by_zero.__code__.co_firstlineno + 1
        assert f"@50, in divided_by_zero at {__file__}:{line}: ZeroDivisionError" in str(caught.value)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_a_handler_of_one_s_own_decides_for_each_record() -> None:
    policy = ExceptionPolicy("fail", None, lambda record, error: "continue" if record.offset == 50 else "fail")
    number = step(operations.MapValues(python(int), LONG))
    chain = Chain(TEXT, TEXT, (number,), (ChainEnd("sink", 0, TEXT, LONG, topic="out"),), processing=policy)
    with pytest.raises(ProcessingFailed, match="in-3@51"):
        left(chain, (b"k", b"x"), (b"k", b"y"))


def test_a_vectorised_result_of_another_length_is_refused() -> None:
    half = step(operations.MapValues(python(vectorised(lambda values: values[:1])), TEXT))
    chain = Chain(TEXT, TEXT, (half,), (ChainEnd("sink", 0, TEXT, TEXT, topic="out"),))
    with pytest.raises(ValueError, match="step MapValues: expected 2 results"):
        left(chain, (b"a", b"x"), (b"b", b"y"))


def test_entries_go_to_kafka_s_partition_of_their_key_and_number_what_a_record_became() -> None:
    twice = step(operations.FlatMap(python(lambda key, value: [("Alice", value), ("Bob", value)]), TEXT, TEXT))
    chain = Chain(TEXT, TEXT, (twice,), (ChainEnd("entry", 0, TEXT, TEXT),))
    chunks: dict[int, list[bytes]] = {}
    for made in ShuffleRows(chain, 2, 7, by_key=True)([batch((b"k", b"v"))]):
        for row in made.to_pylist():
            chunks.setdefault(row["group"], []).append(row["chunk"])
    found = [
        (edge, record.key, record.offset) for each in chunks.values() for edge, rows in runs_of(each) for record in rows
    ]
    assert sorted(found) == [(2, b"Alice", 50), (2, b"Bob", 50)]
    hashed = hash_keys(b"AliceBob", np.array([0, 5, 8], np.int32))
    assert set(chunks) == {group_of(int(each) % 7) for each in hashed}


def test_dead_letters_of_a_prefix_pass_by_the_state() -> None:
    number = step(operations.MapValues(python(int), LONG))
    chain = Chain(TEXT, TEXT, (number,), (ChainEnd("entry", 0, TEXT, LONG),), processing=SKIP)
    rows = [
        row["chunk"]
        for made in ShuffleRows(chain, 0, 4, by_key=False)([batch((b"k", b"x"), (b"k", b"7"))])
        for row in made.to_pylist()
    ]
    records, finished = finished_apart(rows)
    assert [record.offset for _, run in runs_of(records) for record in run] == [51]
    [letters] = finished
    assert pa.ipc.open_stream(letters).read_all().column("topic").to_pylist() == ["letters", None]


@dataclass(frozen=True)
class Order:
    cents: int
    tags: list[str] = field(default_factory=list)
    note: str | None = None


@dataclass(frozen=True)
class Priced:
    euros: float


def test_a_vectorised_function_gets_dataclasses_as_structs_and_may_return_structs() -> None:
    def price(orders: pa.StructArray) -> pa.StructArray:
        assert orders.type == pa.struct([("cents", pa.int64()), ("tags", pa.list_(pa.string())), ("note", pa.string())])
        return pa.StructArray.from_arrays([pa.compute.divide(orders.field("cents").cast(pa.float64()), 100)], ["euros"])

    map_values = step(operations.MapValues(python(vectorised(price)), Serdes.json(Priced)))
    chain = Chain(TEXT, Serdes.json(Order), (map_values,), (ChainEnd("s", 0, TEXT, Serdes.json(Priced), topic="out"),))
    assert [row["value"] for row in left(chain, (b"a", b'{"cents": 250}'))] == [b'{"euros":2.5}']
    twice = step(operations.MapValues(python(lambda priced: Priced(priced.euros * 2)), Serdes.json(Priced)), parent=0)
    chain = replace(chain, steps=(map_values, twice), ends=(replace(chain.ends[0], after=1),))
    assert [row["value"] for row in left(chain, (b"a", b'{"cents": 250}'))] == [b'{"euros":5.0}']
