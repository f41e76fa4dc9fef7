"""Columns of whole Fetch answers are what the records say, one by one, in both designs."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.base import ErrorCode, KafkaError, Millis, Offset, ProducerEpoch, ProducerId
from ottla.wire import (
    Codec,
    ColumnDecoder,
    Columns,
    Record,
    build_batch,
    end_transaction_marker,
    frame_records,
    hash_keys,
    iter_records,
    next_offset,
    pack_batch,
)

np = pytest.importorskip("numpy")
Row = tuple[int, int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]


@pytest.fixture(params=["numpy", "walk"])
def decoder(request: pytest.FixtureRequest) -> ColumnDecoder:
    if request.param == "walk":
        pytest.importorskip("librt.vecs", reason="the compiled walk needs librt, which comes with mypy")
    return ColumnDecoder(with_headers=True, compiled=request.param == "walk")


def rows_of(columns: Sequence[Columns]) -> list[Row]:
    """Read columns back one row at a time."""
    found: list[Row] = []
    for block in columns:
        headers = iter(_pairs(block))
        for index in range(len(block)):
            key = _slice(block.data, block.key_bounds, index, bool(block.key_nulls[index]))
            value = _slice(block.data, block.value_bounds, index, bool(block.value_nulls[index]))
            assert block.headers is not None
            mine = tuple(next(headers) for _ in range(int(block.headers.counts[index])))
            found.append((int(block.offsets[index]), int(block.timestamps_ms[index]), key, value, mine))
    return found


def _slice(data: bytes, bounds: Sequence[int], index: int, null: bool) -> bytes | None:
    start, end = int(bounds[2 * index]), int(bounds[2 * index + 1])
    assert not null or start == end
    return None if null else data[start:end]


def _pairs(block: Columns) -> list[tuple[str, bytes | None]]:
    headers = block.headers
    assert headers is not None
    keys = [_slice(block.data, headers.key_bounds, index, False) for index in range(len(headers.value_nulls))]
    return [
        ((key or b"").decode(), _slice(block.data, headers.value_bounds, index, bool(headers.value_nulls[index])))
        for index, key in enumerate(keys)
    ]


def rows_by_reader(records: bytes) -> list[Row]:
    return [(r.offset, r.timestamp, r.key, r.value, r.headers) for r in iter_records(records)]


payloads = st.none() | st.binary(max_size=20) | st.binary(min_size=60, max_size=300)
records = st.builds(
    Record,
    timestamp=st.integers(0, 1 << 45).map(Millis),
    key=payloads,
    value=payloads,
    headers=st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=70)), max_size=3).map(tuple),
)


@pytest.mark.parametrize("codec", list(Codec))
@given(batches=st.lists(st.lists(records, min_size=1, max_size=8), min_size=1, max_size=4))
@settings(max_examples=12, deadline=None)
def test_columns_equal_the_records_read_one_by_one(codec: Codec, batches: list[list[Record]]) -> None:
    data, offset = b"", 0
    for number, batch in enumerate(batches):
        used = codec if number % 2 else Codec.NONE  # compressed and plain batches side by side
        data += bytes(build_batch(batch, base_offset=offset, codec=used))
        offset += len(batch) + 3  # a gap, as compaction and control batches leave
    for compiled in designs():
        decoded = ColumnDecoder(with_headers=True, compiled=compiled).decode(data, start=Offset(0))
        assert rows_of(decoded.columns) == rows_by_reader(data)
        assert decoded.next_offset == offset - 3 == next_offset(data, Offset(0))


def designs() -> list[bool]:
    try:
        import librt.vecs  # noqa: F401
    except ImportError:
        return [False]
    return [False, True]


def plain(values: Sequence[bytes], base_offset: int = 0, **options: object) -> bytes:
    rows = [Record(timestamp=Millis(1_000 + index), value=value) for index, value in enumerate(values)]
    return bytes(build_batch(rows, base_offset=base_offset, **options))  # type: ignore[arg-type]


def test_long_runs_of_equal_sizes_and_their_ends_are_found(decoder: ColumnDecoder) -> None:
    values = [b"a" * 70] * 1000 + [b"b" * 71] * 3 + [b"c" * 70] * 20 + [b""] * 100 + [b"d" * 9000] * 40
    data = plain(values)
    assert rows_of(decoder.decode(data, start=Offset(0)).columns) == rows_by_reader(data)


def test_only_the_offsets_asked_for_are_returned(decoder: ColumnDecoder) -> None:
    data = plain([b"%d" % n for n in range(10)]) + plain([b"%d" % n for n in range(10, 20)], base_offset=10)
    decoded = decoder.decode(data, start=Offset(4), end=Offset(13))
    assert [row[0] for row in rows_of(decoded.columns)] == list(range(4, 13))
    assert decoded.next_offset == 13
    assert [row[3] for row in rows_of(decoder.decode(data, start=Offset(4)).columns)] == [
        b"%d" % n for n in range(4, 20)
    ]


def test_a_batch_cut_off_by_the_end_is_left_for_the_next_fetch(decoder: ColumnDecoder) -> None:
    whole, cut = plain([b"a", b"b"]), plain([b"c"], base_offset=2)
    for length in (0, 5, 30, len(cut) - 1):
        decoded = decoder.decode(whole + cut[:length], start=Offset(0))
        assert (len(rows_of(decoded.columns)), decoded.next_offset) == (2, 2)
        assert next_offset(whole + cut[:length], Offset(0)) == 2
    assert decoder.decode(cut[:-1], start=Offset(2)).next_offset == 2


def test_log_append_time_is_every_records_timestamp(decoder: ColumnDecoder) -> None:
    decoded = decoder.decode(plain([b"a", b"b"]) + plain([b"c"], 2, log_append_time=77), start=Offset(0))
    assert [(row[1], row[3]) for row in rows_of(decoded.columns)] == [(1_000, b"a"), (1_001, b"b"), (77, b"c")]
    assert [bool(flag) for flag in decoded.columns[0].log_append_time] == [False, False, True]


def test_control_batches_and_aborted_transactions_are_not_shown(decoder: ColumnDecoder) -> None:
    one, two = ProducerId(1), ProducerId(2)

    def transactional(value: bytes, offset: int, producer: int) -> bytes:
        return plain([value], offset, producer_id=producer, producer_epoch=0, base_sequence=0, transactional=True)

    def marker(offset: int, producer: ProducerId, *, commit: bool) -> bytes:
        ids = {"producer_id": producer, "producer_epoch": ProducerEpoch(0), "coordinator_epoch": 0}
        return bytes(end_transaction_marker(commit=commit, timestamp=Millis(0), base_offset=offset, **ids))  # type: ignore[arg-type]

    data = (
        transactional(b"aborted", 0, one)
        + transactional(b"kept", 1, two)
        + marker(2, one, commit=False)
        + transactional(b"kept too", 3, one)
        + marker(4, one, commit=True)
        + marker(5, two, commit=True)
    )
    decoded = decoder.decode(data, start=Offset(0), aborted=[(one, Offset(0))])
    assert [row[3] for row in rows_of(decoded.columns)] == [b"kept", b"kept too"]
    assert decoded.next_offset == 6
    assert [row[3] for row in rows_of(decoder.decode(data, start=Offset(0)).columns)] == [
        b"aborted",
        b"kept",
        b"kept too",
    ]


def test_a_wrong_checksum_is_corruption(decoder: ColumnDecoder) -> None:
    data = bytearray(plain([b"a", b"b"]))
    data[-1] ^= 1
    with pytest.raises(KafkaError) as caught:
        decoder.decode(data, start=Offset(0))
    assert caught.value.code is ErrorCode.CORRUPT_MESSAGE


@given(position=st.integers(0, 400), byte=st.integers(0, 255), delete=st.booleans(), count=st.integers(-2, 2))
@settings(max_examples=60, deadline=None)
def test_malformed_records_are_an_error_and_never_more(position: int, byte: int, delete: bool, count: int) -> None:
    rows = [Record(key=b"k" * (n % 3), value=b"v" * n, headers=(("h", b"x"),) * (n % 2)) for n in range(8)]
    payload = bytearray(bytes(build_batch(rows))[61:])
    if delete:
        del payload[position % len(payload) :]
    else:
        payload[position % len(payload)] = byte
    data = bytes(pack_batch(payload, count=8 + count, timestamp_ms=0))
    outcomes = []
    for compiled in designs():
        try:
            decoded = ColumnDecoder(with_headers=True, compiled=compiled).decode(data, start=Offset(0))
            found = [(row[0], row[2], row[3]) for row in _readable(decoded.columns)]
            outcomes.append(found)
        except KafkaError as error:
            assert error.code is ErrorCode.INVALID_RECORD
            outcomes.append([])
    assert all(outcome == outcomes[0] for outcome in outcomes)


def _readable(columns: Sequence[Columns]) -> list[Row]:
    """Read columns whose headers may hold any bytes for a key."""
    without = [Columns(*(getattr(block, name) for name in Columns.__slots__[:-1]), None) for block in columns]
    return [
        (
            int(block.offsets[index]),
            0,
            _slice(block.data, block.key_bounds, index, bool(block.key_nulls[index])),
            _slice(block.data, block.value_bounds, index, bool(block.value_nulls[index])),
            (),
        )
        for block in without
        for index in range(len(block))
    ]


@given(rows=st.lists(st.tuples(payloads, payloads), min_size=1, max_size=30), keyed=st.booleans())
@settings(max_examples=25, deadline=None)
def test_framed_columns_are_the_records_that_the_builder_makes(
    rows: list[tuple[bytes | None, bytes | None]], keyed: bool
) -> None:
    def lengths(values: list[bytes | None]) -> object:
        return np.array([-1 if value is None else len(value) for value in values], np.int64)

    keys = [key if keyed else None for key, _ in rows]
    values = [value for _, value in rows]
    prefix, middle = frame_records(
        key_lengths=lengths(keys) if keyed else None,  # type: ignore[arg-type]
        value_lengths=lengths(values),  # type: ignore[arg-type]
        offset_deltas=np.arange(len(rows)),
        header_lengths=None,
    )
    joined = b""
    for index, (key, value) in enumerate(zip(keys, values, strict=True)):
        joined += prefix.data[prefix.offsets[index] : prefix.offsets[index + 1]] + (key or b"")
        if middle is not None:
            joined += middle.data[middle.offsets[index] : middle.offsets[index + 1]]
        joined += (value or b"") + b"\x00"
    expected = build_batch([Record(timestamp=Millis(5), key=k, value=v) for k, v in zip(keys, values, strict=True)])
    assert pack_batch(joined, count=len(rows), timestamp_ms=5) == expected


@pytest.mark.parametrize(
    ("key", "expected"),
    # murmur2 as in Kafka's own UtilsTest, without the sign
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_keys_hash_as_in_kafka(key: bytes, expected: int) -> None:
    data = b"other" + key + b"abc"
    offsets = np.array([0, 5, 5 + len(key), len(data)], np.int32)
    hashed = hash_keys(data, offsets)
    assert int(hashed[1]) == expected & 0x7FFFFFFF
    assert int(hashed[2]) == 479470107


def test_no_records_at_all_are_no_columns(decoder: ColumnDecoder) -> None:
    decoded = decoder.decode(b"", start=Offset(7))
    assert (decoded.columns, decoded.next_offset) == ([], 7)


def test_columns_say_what_each_row_has(decoder: ColumnDecoder) -> None:
    records = [
        Record(key=b"k", value=None, headers=(("a", b"1"), ("b", None))),
        Record(key=None, value=b"v"),
        Record(key=b"", value=b"", headers=(("é", b""),)),
    ]
    [columns] = decoder.decode(bytes(build_batch(records)), start=Offset(0)).columns
    assert columns.keys() == [b"k", None, b""]
    assert columns.values() == [None, b"v", b""]
    assert columns.header_pairs() == [(("a", b"1"), ("b", None)), (), (("é", b""),)]
    assert columns.rows(1, 2).keys() == [None]
    assert columns.rows(1, 2).header_pairs() is None
    assert columns.rows(2, 3).header_pairs() == [(("é", b""),)]
