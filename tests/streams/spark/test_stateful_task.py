"""The worker's side of a stage, without Spark: what is folded, in which order it is worked through, what is kept."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pyspark")

from ottla.spark import state_task
from ottla.spark.state_chunks import fold_entries, fold_results, runs_of, unfold
from ottla.spark.state_groups import group_of, task_of
from ottla.spark.state_task import KEEPER, StateMismatch, TaskProcessor, check_keeper, keeper
from ottla.streams import Output, Record, StoreChange
from tests.streams.spark.entry_files import In, plan_of, with_tasks, write_batch
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
    def getCurrentProcessingTimeInMs(self) -> int:
        return 0


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

    def getMapState(self, *_: Any) -> State:
        return self.state


class ChunkRow:
    def __init__(self, chunk: bytes) -> None:
        self.chunk = chunk


def run_batch(state: State, chunks: Sequence[bytes], start: str = "start") -> list[Any]:
    """Run a batch of task 0 as Spark would, and return what it leaves."""
    from pyspark import cloudpickle

    processor = TaskProcessor(start, cloudpickle.dumps(PLAN))
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
