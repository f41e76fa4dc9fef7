"""Arrow batches of a sink become Kafka batches that hold the same rows, each in its partition."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.base import TopicPartition
from ottla.client.arrow.batches import Rows, TopicRows, encode_rows, groups_by_topic, milliseconds
from ottla.wire import hash_keys, iter_records, pack_batch, read_batch_header

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
blobs = st.none() | st.binary(max_size=40) | st.binary(min_size=100, max_size=200)
headers = st.none() | st.lists(st.tuples(st.text(max_size=4), st.none() | st.binary(max_size=5)), max_size=3)
rows = st.tuples(blobs, blobs, headers, st.none() | st.integers(0, 2), st.integers(0, 1 << 45))


def partition_of(key: bytes | None, asked: int | None, target: TopicRows) -> int:
    if asked is not None:
        return asked
    if key is None:
        return target.keyless_partition
    import numpy as np

    return int(hash_keys(key, np.array([0, len(key)], np.int32))[0]) % target.partition_count


@given(
    given_rows=st.lists(rows, min_size=1, max_size=30),
    columns=st.tuples(st.booleans(), st.booleans(), st.booleans(), st.booleans()),
    batch_bytes=st.sampled_from([100, 500, 100_000]),
)
@settings(max_examples=60, deadline=None)
def test_every_row_lands_once_in_its_partition_and_order(
    given_rows: list[tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]] | None, int | None, int]],
    columns: tuple[bool, bool, bool, bool],
    batch_bytes: int,
) -> None:
    keyed, headed, placed, timed = columns
    keys, values, header_lists, partitions, times = zip(*given_rows, strict=True)
    lists = [None if each is None else [{"key": k, "value": v} for k, v in each] for each in header_lists]
    target = TopicRows("t", 3, 1)
    table = Rows(
        pa.array(values, pa.binary()),
        pa.array(keys, pa.binary()) if keyed else None,
        pa.array(lists, HEADERS) if headed else None,
        pa.array(partitions, pa.int32()) if placed else None,
        pa.array(times, pa.int64()) if timed else None,
    )
    found: dict[int, list[object]] = {0: [], 1: [], 2: []}
    for encoded in encode_rows(table, target, batch_bytes=batch_bytes):
        base = encoded.timestamp_ms if encoded.timestamp_ms is not None else 9
        batch = pack_batch(
            encoded.records, count=encoded.count, timestamp_ms=base, max_timestamp_ms=encoded.max_timestamp_ms
        )
        records = list(iter_records(batch))
        found[encoded.partition.partition] += [(r.key, r.value, r.headers, r.timestamp) for r in records]
        assert read_batch_header(batch).max_timestamp == max(record.timestamp for record in records)
    expected: dict[int, list[object]] = {0: [], 1: [], 2: []}
    for key, value, header_list, asked, time in given_rows:
        used_key = key if keyed else None
        place = partition_of(used_key, asked if placed else None, target)
        expected[place].append((used_key, value, tuple(header_list or ()) if headed else (), time if timed else 9))
    assert found == expected


def test_batches_keep_to_their_size_and_a_larger_record_stands_alone() -> None:
    values = [b"x" * 100] * 50 + [b"y" * 5000] + [b"x" * 100] * 50
    batches = list(encode_rows(Rows(pa.array(values)), TopicRows("t", 1, 0), batch_bytes=1000))
    assert sum(batch.count for batch in batches) == 101
    assert [batch.count for batch in batches if len(batch.records) > 2000] == [1]
    assert all(len(batch.records) <= 2000 for batch in batches if batch.count > 1)


def test_sliced_columns_are_encoded_from_their_slice() -> None:
    whole = pa.array([b"%d" % n for n in range(10)])
    table = Rows(whole.slice(3, 4), whole.slice(5, 4))
    found = [
        (record.key, record.value)
        for encoded in encode_rows(table, TopicRows("t", 1, 0), batch_bytes=1000)
        for record in iter_records(pack_batch(encoded.records, count=encoded.count, timestamp_ms=0))
    ]
    assert found == [(b"5", b"3"), (b"6", b"4"), (b"7", b"5"), (b"8", b"6")]


def test_a_partition_that_the_topic_lacks_is_refused() -> None:
    table = Rows(pa.array([b"a"]), partition=pa.array([3], pa.int32()))
    with pytest.raises(ValueError, match="partition says 3; topic t has partitions 0 to 2"):
        list(encode_rows(table, TopicRows("t", 3, 0), batch_bytes=1000))


def test_rows_are_grouped_by_their_topic_column() -> None:
    groups = groups_by_topic(pa.array(["a", "b", "a"]))
    assert [(topic, indices.to_pylist()) for topic, indices in groups] == [("a", [0, 2]), ("b", [1])]
    with pytest.raises(ValueError, match="topic is null"):
        groups_by_topic(pa.array(["a", None]))


def test_topic_partition_names_the_batch() -> None:
    [encoded] = encode_rows(Rows(pa.array([b"a"])), TopicRows("t", 3, 2), batch_bytes=1000)
    assert encoded.partition == TopicPartition("t", 2)


def test_times_become_milliseconds_and_null_is_now() -> None:
    micros = pa.array([1_700_000_000_123_999, None], pa.timestamp("us", "UTC"))
    assert milliseconds(micros, 7).to_pylist() == [1_700_000_000_123, 7]
    assert milliseconds(pa.array([5, None], pa.int64()), 7).to_pylist() == [5, 7]
    with pytest.raises(ValueError, match="column timestamp says -1 ms"):
        milliseconds(pa.array([-1], pa.int64()), 7)
