"""Record batches: building, reading, stamping, and what admission refuses."""

from __future__ import annotations

import random
from dataclasses import replace
from struct import pack_into

import pytest
from crc32c import crc32c

from ottla.base import ErrorCode, KafkaError
from ottla.wire import (
    BATCH_OVERHEAD,
    BatchRules,
    Codec,
    ControlType,
    Record,
    RecordsRefused,
    admit_batch,
    build_batch,
    control_type,
    crc_is_valid,
    end_transaction_marker,
    iter_batches,
    iter_records,
    read_batch_header,
    read_varlong,
    recompress_batch,
    stamp_batch,
    stamp_log_append_time,
    validate_batches,
    varint,
    walk_records,
)

NOW = 1_700_000_000_000
RULES = BatchRules(walk=True)
RECORDS = [
    Record(0, NOW, b"k", b"v"),
    Record(1, NOW - 5, None, None, (("h", b"1"), ("none", None), ("é", b""))),
    Record(2, NOW + 7, b"", b"x" * 300),
]


def seal(batch: bytearray) -> bytearray:
    """Renew the checksum after a test has damaged what it covers."""
    pack_into(">I", batch, 17, crc32c(memoryview(batch)[21:]))
    return batch


def code_of(batch: bytearray, rules: BatchRules = RULES) -> ErrorCode:
    with pytest.raises(KafkaError) as refused:
        admit_batch(batch, rules, NOW)
    return refused.value.code


@pytest.mark.parametrize("codec", list(Codec))
def test_records_come_back_as_they_were_built(codec: Codec) -> None:
    batch = build_batch(RECORDS, codec=codec, base_offset=0)
    assert list(iter_records(batch)) == RECORDS
    header = read_batch_header(batch)
    assert (header.codec, header.record_count, header.max_timestamp) == (codec, 3, NOW + 7)
    assert (header.size, header.base_timestamp, header.next_offset) == (len(batch), NOW, 3)
    assert crc_is_valid(batch, 0, header)


def test_varints_hold_every_width_of_64_bits() -> None:
    rng = random.Random(1)
    values = [0, 1, -1, 63, -64, 64, 2**31 - 1, -(2**31), 2**63 - 1, -(2**63)]
    values += [rng.getrandbits(rng.randrange(1, 64)) * rng.choice((1, -1)) for _ in range(2000)]
    for value in values:
        encoded = varint(value)
        assert read_varlong(b"?" + encoded, 1) == (value, 1 + len(encoded))
    with pytest.raises(KafkaError, match="too long"):
        read_varlong(b"\xff" * 9 + b"\x02", 0)


def test_a_stamped_batch_keeps_its_checksum_and_gets_its_place() -> None:
    batch = build_batch(RECORDS)
    stamp_batch(memoryview(batch), 0, 1 << 40, 9)
    header = read_batch_header(batch)
    assert (header.base_offset, header.partition_leader_epoch, header.last_offset) == (1 << 40, 9, (1 << 40) + 2)
    assert crc_is_valid(batch, 0, header)


def test_log_append_time_is_every_records_time() -> None:
    batch = build_batch(RECORDS)
    stamp_log_append_time(batch, 0, 42)
    assert crc_is_valid(batch, 0, read_batch_header(batch))
    assert [record.timestamp for record in iter_records(batch)] == [42, 42, 42]


def test_a_batch_cut_off_by_the_end_is_left_out() -> None:
    first, second = build_batch(RECORDS), build_batch(RECORDS, base_offset=3)
    buffer = first + second[:-1]
    assert [pos for _, pos in iter_batches(buffer)] == [0]
    assert [record.offset for record in iter_records(first + second)] == list(range(6))
    assert len(list(iter_records(buffer))) == 3
    with pytest.raises(KafkaError) as refused:
        validate_batches(buffer)
    assert refused.value.code is ErrorCode.CORRUPT_MESSAGE


def test_kept_offsets_survive_as_compaction_needs_them() -> None:
    records = [Record(100, NOW, b"a", b"1"), Record(107, NOW, b"b", b"2")]
    batch = build_batch(records, base_offset=100, keep_offsets=True)
    assert list(iter_records(batch)) == records
    assert read_batch_header(batch).next_offset == 108


@pytest.mark.parametrize("codec", list(Codec))
def test_recompression_keeps_records_and_header(codec: Codec) -> None:
    batch = build_batch(RECORDS, codec=Codec.GZIP, producer_id=5, producer_epoch=1, base_sequence=9, transactional=True)
    again = recompress_batch(batch, codec)
    before, after = read_batch_header(batch), read_batch_header(again)
    assert after.codec is codec
    assert crc_is_valid(again, 0, after)
    ignored = {"batch_length": 0, "crc": 0, "attributes": 0}
    assert before._replace(**ignored) == after._replace(**ignored)
    assert list(iter_records(again)) == RECORDS
    batch[-1] ^= 1
    with pytest.raises(KafkaError, match="corrupt"):
        recompress_batch(batch, codec)


def test_sequences_wrap_after_the_largest_int32() -> None:
    header = read_batch_header(build_batch(RECORDS, producer_id=1, producer_epoch=0, base_sequence=2**31 - 1))
    assert header.last_sequence == 1


def test_transaction_markers_are_control_batches() -> None:
    batch = end_transaction_marker(commit=True, producer_id=7, producer_epoch=2, coordinator_epoch=3, timestamp=NOW)
    header = read_batch_header(batch)
    (record,) = iter_records(batch)
    assert header.is_control and header.is_transactional and header.producer_id == 7
    assert control_type(record.key) == ControlType.COMMIT
    assert record.value == b"\x00\x00\x00\x00\x00\x03"
    assert code_of(batch) is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("codec", list(Codec))
def test_a_sound_batch_is_admitted_unchanged(codec: Codec) -> None:
    batch = build_batch(RECORDS, codec=codec)
    before = bytes(batch)
    assert admit_batch(memoryview(batch), RULES, NOW) == read_batch_header(before)
    assert batch == before


DAMAGE = {
    "a wrong checksum": (lambda b: b.__setitem__(-1, b[-1] ^ 1), ErrorCode.CORRUPT_MESSAGE),
    "a length below the header's": (lambda b: pack_into(">i", b, 8, 40), ErrorCode.CORRUPT_MESSAGE),
    "a negative length": (lambda b: pack_into(">i", b, 8, -1), ErrorCode.CORRUPT_MESSAGE),
    "a length beyond the end": (lambda b: pack_into(">i", b, 8, len(b)), ErrorCode.INVALID_RECORD),
    "bytes after the batch": (lambda b: b.extend(b"x"), ErrorCode.INVALID_RECORD),
    "a second batch": (lambda b: b.extend(bytes(b)), ErrorCode.INVALID_RECORD),
    "magic 1": (lambda b: b.__setitem__(16, 1), ErrorCode.INVALID_RECORD),
    "magic 3": (lambda b: b.__setitem__(16, 3), ErrorCode.CORRUPT_MESSAGE),
    "nothing": (lambda b: b.clear(), ErrorCode.INVALID_RECORD),
    "a base offset": (lambda b: pack_into(">q", b, 0, 1), ErrorCode.INVALID_RECORD),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_damaged_batches_get_kafkas_codes(kind: str) -> None:
    damage, code = DAMAGE[kind]
    batch = build_batch(RECORDS)
    damage(batch)
    assert code_of(batch) is code


SEALED_DAMAGE = {
    "no records": (57, ">i", 0, ErrorCode.INVALID_RECORD),
    "a count that is not the offsets'": (57, ">i", 4, ErrorCode.INVALID_RECORD),
    "a negative offset range": (23, ">i", -1, ErrorCode.INVALID_RECORD),
    "the control bit": (21, ">h", 0x20, ErrorCode.INVALID_RECORD),
    "a delete horizon": (21, ">h", 0x40, ErrorCode.INVALID_RECORD),
    "log append time": (21, ">h", 0x08, ErrorCode.INVALID_TIMESTAMP),
    "a codec that is none": (21, ">h", 0x05, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
    "a codec that was not used": (21, ">h", 0x04, ErrorCode.INVALID_RECORD),
    "a producer without sequence": (43, ">q", 8, ErrorCode.INVALID_RECORD),
}


@pytest.mark.parametrize("kind", SEALED_DAMAGE)
def test_headers_that_lie_under_a_right_checksum_get_kafkas_codes(kind: str) -> None:
    at, form, value, code = SEALED_DAMAGE[kind]
    batch = build_batch(RECORDS)
    pack_into(form, batch, at, value)
    assert code_of(seal(batch)) is code


def test_a_compacted_topic_refuses_records_without_key_and_names_them() -> None:
    batch = build_batch(RECORDS)
    with pytest.raises(RecordsRefused) as refused:
        admit_batch(batch, BatchRules(require_keys=True), NOW)
    assert refused.value.code is ErrorCode.INVALID_RECORD
    assert [index for index, _ in refused.value.record_errors] == [1]


def test_timestamps_out_of_bounds_are_refused_and_named() -> None:
    batch = build_batch(RECORDS)
    for rules, indexes in (
        (BatchRules(timestamp_before_max_ms=4), [1]),
        (BatchRules(timestamp_after_max_ms=6), [2]),
        (BatchRules(timestamp_after_max_ms=6, walk=True), [2]),
    ):
        with pytest.raises(RecordsRefused) as refused:
            admit_batch(batch, rules, NOW)
        assert refused.value.code is ErrorCode.INVALID_TIMESTAMP
        assert [index for index, _ in refused.value.record_errors] == indexes
    admit_batch(batch, BatchRules(timestamp_before_max_ms=5, timestamp_after_max_ms=7, walk=True), NOW)
    bounded = replace(BatchRules(log_append_time=True), timestamp_before_max_ms=0, timestamp_after_max_ms=0)
    assert admit_batch(batch, bounded, NOW).is_log_append_time


def test_records_without_a_timestamp_pass_every_bound() -> None:
    batch = build_batch([Record(value=b"v")])
    admit_batch(batch, BatchRules(timestamp_before_max_ms=0, timestamp_after_max_ms=0), NOW)


def test_a_header_that_lies_about_its_largest_timestamp_is_corrected() -> None:
    batch = build_batch(RECORDS)
    pack_into(">q", batch, 35, NOW + 99)
    header = admit_batch(seal(batch), RULES, NOW)
    assert header.max_timestamp == NOW + 7
    assert crc_is_valid(batch, 0, header)


def test_a_topic_with_log_append_time_stamps_the_batch() -> None:
    batch = build_batch(RECORDS)
    header = admit_batch(memoryview(batch), BatchRules(log_append_time=True), NOW + 1000)
    assert header.is_log_append_time and header.max_timestamp == NOW + 1000
    assert crc_is_valid(batch, 0, header)
    assert {record.timestamp for record in iter_records(batch)} == {NOW + 1000}


def test_a_decompression_bomb_is_refused_within_its_limit() -> None:
    batch = build_batch([Record(value=bytes(10 << 20))], codec=Codec.ZSTD)
    assert code_of(batch, BatchRules(walk=True, decompressed_bytes_max=1 << 20)) is ErrorCode.MESSAGE_TOO_LARGE


def test_walk_counts_timestamps_and_missing_keys() -> None:
    batch = build_batch(RECORDS)
    assert walk_records(bytes(batch[BATCH_OVERHEAD:]), 0, 3) == (-5, 7, 1)


def test_every_damaged_byte_of_records_is_refused_or_harmless() -> None:
    rng = random.Random(3)
    records = [Record(n, NOW + n, b"key%d" % n, bytes(n), (("h", b"v"),) * (n % 3)) for n in range(80)]
    sound = bytes(build_batch(records)[BATCH_OVERHEAD:])
    assert walk_records(sound, 0, 80)[2] == -1
    for _ in range(3000):
        damaged = bytearray(sound)
        for _ in range(rng.randrange(1, 3)):
            damaged[rng.randrange(len(damaged))] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
        cut = bytes(damaged[: rng.randrange(len(damaged))] if rng.random() < 0.2 else damaged)
        for count in (80, 79, 81, 2**31 - 1):
            try:
                walk_records(cut, 0, count)
            except KafkaError as error:
                assert error.code is ErrorCode.INVALID_RECORD


def walked(data: bytes | memoryview, count: int) -> tuple[int, int, int] | str:
    try:
        return walk_records(data, 0, count)
    except KafkaError as error:
        return str(error)


def test_a_walk_by_windows_finds_what_a_walk_of_the_whole_finds() -> None:
    rng = random.Random(5)
    sizes = (0, 1, 30, 63, 64, 100, 5000, 9000, 70_000, 200_000)
    for _ in range(60):
        records = [
            Record(
                offset=n,
                timestamp=NOW + rng.choice((0, -3, 70, 9000, -9000, 10**7)),
                key=rng.choice((None, b"", b"k" * 10, b"k" * 63, b"k" * 64, b"k" * 300)),
                value=rng.choice((None, bytes(rng.choice(sizes)))),
                headers=rng.choice(((), (), (("h", b"v"),), (("h", None), ("i", bytes(200))))),
            )
            for n in range(rng.choice((1, 5, 200)))
        ]
        sound = bytes(build_batch(records)[BATCH_OVERHEAD:])
        times = [each.timestamp - records[0].timestamp for each in records]
        keyless = next((n for n, each in enumerate(records) if each.key is None), -1)
        assert walk_records(sound, 0, len(records)) == (min(times), max(times), keyless)
        assert walk_records(memoryview(sound), 0, len(records)) == (min(times), max(times), keyless)
        damaged = bytearray(sound)
        damaged[rng.randrange(len(damaged))] ^= 1 << rng.randrange(8)
        for data in (sound[: rng.randrange(len(sound))], bytes(damaged), sound + b"\0"):
            whole, by_windows = walked(data, len(records)), walked(memoryview(data), len(records))
            assert isinstance(whole, str) == isinstance(by_windows, str)
            assert isinstance(whole, str) or whole == by_windows
