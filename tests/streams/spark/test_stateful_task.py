"""The worker's side of a stage, without Spark: what is folded, in which order it is worked through, what is kept."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pyspark")

import pyarrow as pa
from pyspark import cloudpickle

from ottla.spark.streams.state import chunks as state_chunks
from ottla.spark.streams.state import task as state_task
from ottla.spark.streams.state.chunks import blocks_of, fold_entries, fold_results, runs_of, unfold
from ottla.spark.streams.state.groups import group_of, task_of
from ottla.spark.streams.state.task import KEEPER, StateMismatch, TaskPlan, TaskProcessor, check_keeper, keeper, work
from ottla.streams import Output, ProcessingError, ProcessRecord, PunctuationType, Record, StoreChange, Topology
from ottla.streams import operations as op
from tests.streams.engine.plans import STRING, Backend, sink, source, step, topology
from tests.streams.spark.entry_files import In, new_executor, plan_of, with_tasks, write_batch
from tests.streams.spark.test_stateful_stages import aggregate, records

PLAN = plan_of(aggregate(), tasks=1, block_entries=16)


def chunks_of(folder: Path, rows: Sequence[In]) -> dict[int, list[bytes]]:
    """Return the chunks of each task."""
    from pyarrow import parquet

    write_batch(folder, 0, rows)
    found: dict[int, list[bytes]] = {}
    for batch in parquet.read_table(folder / "00000.parquet").to_batches(max_chunksize=7):
        for folded in fold_entries([batch]):
            for group, chunk in zip(
                folded.column("group").to_pylist(), folded.column("chunk").to_pylist(), strict=True
            ):
                found.setdefault(task_of(group), []).append(chunk)
    return found


class Timers:
    def __init__(self, now_ms: int = 0) -> None:
        self.now_ms = now_ms

    def getCurrentProcessingTimeInMs(self) -> int:
        return self.now_ms


class State(dict[tuple[str], tuple[bytes]]):
    """Spark's MapState; counts what is read."""

    reads = 0

    def getValue(self, key: tuple[str]) -> tuple[bytes] | None:
        self.reads += 1
        return self.get(key)

    def updateValue(self, key: tuple[str], value: tuple[bytes]) -> None:
        self[key] = value

    def removeKey(self, key: tuple[str]) -> None:
        self.pop(key, None)


class Handle:
    def __init__(self, state: State) -> None:
        self.state = state
        self.timers: list[int] = []

    def registerTimer(self, expiry_ms: int) -> None:
        self.timers.append(expiry_ms)

    def getMapState(self, *_: Any) -> State:
        return self.state


class ChunkRow:
    def __init__(self, chunk: bytes | None) -> None:
        self.chunk = chunk


def run_batch(state: State, chunks: Sequence[bytes], start: str = "start", plan: TaskPlan = PLAN) -> list[Any]:
    """Run a batch of task 0 as Spark would, and return what it leaves."""
    processor = TaskProcessor(start, cloudpickle.dumps(plan))
    processor.init(Handle(state))
    return [row.chunk for row in processor.handleInputRows((group_of(0),), map(ChunkRow, chunks), Timers())]


def test_the_hash_of_a_group_is_its_task() -> None:
    assert [task_of(group_of(task)) for task in range(10_000)] == list(range(10_000))
    # what Spark 4.3's `hash` answered for these
    assert [group_of(task) for task in range(4)] == [-1693959553, -1910889132, -1382833682, -876271479]


@given(
    st.lists(
        st.tuples(st.integers(0, 1), st.sampled_from("ab"), st.integers(0, 2), st.integers(0, 9)),
        min_size=1,
        max_size=60,
    )
)
def test_the_order_is_that_of_a_merge_of_the_partitions_heads(
    tmp_path_factory: pytest.TempPathFactory, given: list[tuple[int, str, int, int]]
) -> None:
    queues: dict[tuple[int, str, int], list[Record]] = {}
    rows = []
    for edge, topic, partition, timestamp in given:
        queue = queues.setdefault((edge, topic, partition), [])
        queue.append(Record(b"k", None, timestamp, (), topic, partition, len(queue)))
        rows.append(In(0, queue[-1], edge))
    (chunks,) = chunks_of(tmp_path_factory.mktemp("rows"), rows).values()
    found = [(edge, record) for edge, records in runs_of(chunks) for record in records]
    assert found == list(heads_first(queues))


def heads_first(queues: dict[tuple[int, str, int], list[Record]]) -> Iterator[tuple[int, Record]]:
    """Take the smallest head again and again, as PartitionGroup does."""
    left = {name: list(records) for name, records in sorted(queues.items())}
    while any(left.values()):
        name = min((name for name in left if left[name]), key=lambda name: (left[name][0].timestamp, name))
        yield name[0], left[name].pop(0)


def test_results_come_out_as_they_went_in() -> None:
    outputs = [
        Output("sink", "a", b"k", None, 1, (("h", b"1"), ("n", None)), 3),
        Output("sink", "b", None, b"v", 2),
    ]
    changes = [StoreChange("store", b"k", b"v", 3)]
    chunks = list(fold_results(outputs, changes, task=5, changelogs={"store": "app-store-changelog"}))
    import pyarrow

    (batch,) = unfold([pyarrow.record_batch({"chunk": pyarrow.array([None, *chunks], pyarrow.binary())})])
    assert [tuple(row.values()) for row in batch.to_pylist()] == [
        ("a", b"k", None, 1, [{"key": "h", "value": b"1"}, {"key": "n", "value": None}], 3),
        ("b", None, b"v", 2, [], None),
        ("app-store-changelog", b"k", b"v", 3, [], 5),
    ]


def test_results_of_many_bytes_are_several_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_chunks, "CHUNK_BYTES", 10)
    values = [b"12345", b"12345", b"1", b"x" * 20, None, b""]
    chunks = list(fold_results([Output("s", "t", b"", each, 1) for each in values], [], task=0, changelogs={}))
    tables = [pa.ipc.open_stream(each).read_all() for each in chunks]
    found = [each.column("value").to_pylist() for each in tables]
    assert found == [[b"12345", b"12345"], [b"1"], [b"x" * 20], [None, b""]]
    assert list(fold_results([], [], task=0, changelogs={})) == []


def test_records_of_more_bytes_than_arrow_joins_keep_their_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (chunks,) = chunks_of(tmp_path, records(200, keys=60, tasks=1)[::-1]).values()
    as_they_are = list(runs_of(chunks))
    monkeypatch.setattr(state_chunks, "JOINED_BYTES_MAX", 0)
    assert list(runs_of(chunks)) == as_they_are


def _joined(_key: str, value: str, joined: str) -> str:
    if value == "bad":
        raise ValueError(value)
    return joined + value


TEXTS = st.sampled_from([b"a", b"", b"bad", b"longer", b"\xff\xfe", None])
ARRIVING = st.tuples(
    st.sampled_from([b"k1", b"k2", b"", b"\xc3\x28", None]),
    TEXTS,
    st.integers(0, 9),
    st.integers(0, 2),
    st.sampled_from([(), (("h", b"1"),), (("n", None),)]),
)
AGGREGATES = {
    "count": aggregate(),
    "functions": aggregate(op.Aggregator("aggregate", initializer=str, adder=_joined), STRING),
    "reduce": aggregate(op.Aggregator("reduce", adder=lambda one, other: _joined("", other, one)), STRING),
}


@pytest.mark.parametrize("skips", [False, True], ids=["fails", "skips"])
@pytest.mark.parametrize("name", AGGREGATES)
@given(batches=st.lists(st.lists(ARRIVING, min_size=1, max_size=30), min_size=1, max_size=3))
def test_columns_leave_what_single_records_leave(
    tmp_path_factory: pytest.TempPathFactory, name: str, skips: bool, batches: list[list[tuple[Any, ...]]]
) -> None:
    offset = iter(range(10_000))
    given_: list[list[bytes]] = []
    for batch in batches:
        rows = [
            In(0, Record(key, value, time, headers, "in", partition, next(offset)))
            for key, value, time, partition, headers in batch
        ]
        given_ += chunks_of(tmp_path_factory.mktemp("rows"), rows).values()
    columns, alone = (_left(AGGREGATES[name], given_, column_rows_min=rows, skip_failing=skips) for rows in (1, 0))
    assert columns == alone


def _left(topology: Topology, batches: list[list[bytes]], **settings: Any) -> Any:
    """Return the rows and counts that batches leave, and the state; or the error of the one that failed."""
    plan, backend, found = plan_of(topology, tasks=1, block_entries=4, **settings), Backend(), list[Any]()
    executor = new_executor(plan, 0, backend)
    for chunks in batches:
        try:
            work(executor, plan, chunks)
        except ProcessingError as error:
            return found, str(error)
        outputs, changes, progress = executor.finish_batch()
        folded = fold_results(outputs, changes, task=0, changelogs=plan.changelogs)
        rows = [row for chunk in folded for row in pa.ipc.open_stream(chunk).read_all().to_pylist()]
        found.append(([{**row, "headers": row["headers"] or []} for row in rows], progress))
    return found, dict(backend)


def test_columns_of_more_bytes_than_arrow_joins_are_blocks_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (chunks,) = chunks_of(tmp_path, records(200, keys=60, tasks=1)[::-1]).values()
    monkeypatch.setattr(state_chunks, "JOINED_BYTES_MAX", 0)
    monkeypatch.setattr(state_chunks, "SLICE_ROWS", 70)
    blocks = list(blocks_of(chunks))
    assert [len(block) for _, block in blocks] == [70, 70, 60]
    records_ = [record for _, run in runs_of(chunks) for record in run]
    assert [block.record(row) for _, block in blocks for row in range(len(block))] == records_
    assert [record for _, block in blocks for record in block.records()] == records_


def test_a_worker_that_did_the_last_batch_reads_only_the_token(tmp_path: Path) -> None:
    state = State()
    (chunks,) = chunks_of(tmp_path, records(200, keys=60, tasks=1)).values()
    run_batch(state, chunks)
    state.reads = 0
    run_batch(state, chunks)
    assert state.reads == 1


def test_a_worker_whose_batch_was_not_committed_reads_the_state_again(tmp_path: Path) -> None:
    state = State()
    (chunks,) = chunks_of(tmp_path, records(200, keys=60, tasks=1)).values()
    run_batch(state, chunks)
    committed = State(state)
    first = run_batch(state, chunks)
    again = run_batch(committed, chunks)
    assert again == first
    assert committed.reads > 1


def test_a_batch_in_columns_leaves_the_same_chunks_when_it_is_done_again(tmp_path: Path) -> None:
    plan, state = plan_of(aggregate(), tasks=1, block_entries=16, column_rows_min=1), State()
    (chunks,) = chunks_of(tmp_path, records(200, keys=60, tasks=1)).values()
    run_batch(state, chunks, "columns", plan)
    committed = State(state)
    first = run_batch(state, chunks, "columns", plan)
    assert run_batch(committed, chunks, "columns", plan) == first
    assert committed.reads > 1 and len(first) > 1


class Ticker:
    """A processor that forwards the time every ten seconds."""

    def init(self, context: Any) -> None:
        self.context = context
        context.schedule(timedelta(seconds=10), PunctuationType.WALL_CLOCK_TIME, self.tick)

    def process(self, record: Any) -> None:
        """Records lead to nothing."""

    def tick(self, now_ms: int) -> None:
        self.context.forward(ProcessRecord("tick", str(now_ms), now_ms))


def test_the_clock_wakes_a_task_once_whether_or_not_records_came(tmp_path: Path) -> None:
    ticking = topology(source(), step("ticker", op.Process(Ticker), "source"), sink("ticker"))
    data = cloudpickle.dumps(replace(plan_of(ticking, tasks=1), wall_clock=True))
    (chunks,) = chunks_of(tmp_path, records(4, keys=4, tasks=1)).values()
    state, key = State(), (group_of(0),)

    def batch(now_ms: int, *rows: bytes | None, expired: bool) -> tuple[int, list[int]]:
        """Run a batch as Spark does, rows first, then timers; return how often time was told, and the timers set."""
        processor, handle, timers = TaskProcessor("clock", data), Handle(state), Timers(now_ms)
        processor.init(handle)
        left = list(processor.handleInputRows(key, map(ChunkRow, rows), timers)) if rows else []
        if expired:
            left += processor.handleExpiredTimer(key, timers, None)
        return sum(row.chunk is not None for row in left), handle.timers

    assert batch(1_000, None, expired=False) == (0, [11_000])
    assert batch(9_000, chunks[0], expired=False) == (0, [11_000])
    assert batch(12_000, chunks[0], expired=True) == (1, [21_000])
    assert batch(21_500, expired=True) == (1, [31_000])


def test_another_start_of_the_query_begins_with_its_own_functions(tmp_path: Path) -> None:
    state = State()
    (chunks,) = chunks_of(tmp_path, records(50, keys=60, tasks=1)).values()
    run_batch(state, chunks)
    state.reads = 0
    run_batch(state, chunks, start="another")
    assert state.reads > 1


def test_executors_that_are_kept_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_task, "WARM_TASKS", 2)
    (chunks,) = chunks_of(tmp_path, records(10, keys=60, tasks=1)).values()
    for number in range(4):
        run_batch(State(), chunks, start=f"bounded-{number}")
    assert len(state_task._warm) == 2


def test_state_of_another_shape_is_refused() -> None:
    assert check_keeper(keeper(2, b"token"), with_tasks(PLAN, 2), 0) == b"token"
    with pytest.raises(StateMismatch, match="kept for 2 tasks"):
        check_keeper(keeper(2, b"token"), with_tasks(PLAN, 4), 0)
    with pytest.raises(StateMismatch, match="has 2 tasks, and a record or state came for task 2"):
        check_keeper(None, with_tasks(PLAN, 2), 2)


def test_blobs_names_never_meet_the_keepers() -> None:
    state = State()
    run_batch(state, [], start="names")
    assert KEEPER in {name for (name,) in state}
    assert all(name == KEEPER or not name.startswith("/") for (name,) in state)
