"""`ottla dump-log` prints what Kafka's DumpLogSegments prints, byte for byte."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from struct import pack

import pytest

from ottla.base import Millis, Offset
from ottla.cli.main import main
from ottla.wire import (
    Codec,
    Record,
    build_batch,
    encode_coordinator_key,
    encode_coordinator_value,
    encode_metadata_record,
    stamp_batch,
)
from ottla.wire.messages.consumer_group_member_metadata_key import ConsumerGroupMemberMetadataKey
from ottla.wire.messages.consumer_group_member_metadata_value import ConsumerGroupMemberMetadataValue
from ottla.wire.messages.feature_level_record import FeatureLevelRecord
from ottla.wire.messages.offset_commit_key import OffsetCommitKey
from ottla.wire.messages.offset_commit_value import OffsetCommitValue
from ottla.wire.messages.share_snapshot_key import ShareSnapshotKey
from ottla.wire.messages.share_snapshot_value import ShareSnapshotValue, StateBatch
from ottla.wire.messages.transaction_log_key import TransactionLogKey
from ottla.wire.messages.transaction_log_value import PartitionsSchema, TransactionLogValue
from tests import peer


def write_log(folder: Path) -> Path:
    """Write a segment with plain, compressed, idempotent and control batches; return its path."""
    records = [
        Record(
            timestamp=Millis(1_700_000_000_000), key=b"k", value="grün".encode(), headers=(("a", b"1"), ("n", None))
        ),
        Record(timestamp=Millis(1_700_000_000_005), value=b"second"),
        Record(timestamp=Millis(1_700_000_000_001), key=b"gone", value=None),
    ]
    batches = [
        build_batch(records),
        build_batch(records, codec=Codec.ZSTD, producer_id=7, producer_epoch=1, base_sequence=2**31 - 2),
        build_batch(records[:1], codec=Codec.LZ4),
    ]
    data, offset = bytearray(), 0
    for batch in batches:
        placed = bytearray(batch)
        stamp_batch(placed, 0, Offset(offset), 3)
        data += placed
        offset += 3
    path = folder / "00000000000000000000.log"
    path.write_bytes(data)
    return path


def test_batches_and_records_are_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_log(tmp_path)
    assert main(["dump-log", "--files", str(path), "--print-data-log"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == [f"Dumping {path}", "Log starting offset: 0"]
    assert lines[2].startswith("baseOffset: 0 lastOffset: 2 count: 3") and lines[2].endswith("isvalid: true")
    assert lines[3].endswith("sequence: -1 headerKeys: [a,n] key: k payload: grün")
    assert "baseSequence: 2147483646 lastSequence: 0 producerId: 7" in lines[6]
    assert "compresscodec: zstd" in lines[6] and "Non-consecutive" not in lines[-1]


def test_a_torn_tail_and_a_changed_byte_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_log(tmp_path)
    data = bytearray(path.read_bytes())
    data[70] ^= 1
    path.write_bytes(data[:-5])
    assert main(["dump-log", "--files", str(path)]) == 0
    out = capsys.readouterr().out
    assert "isvalid: false" in out and "invalid bytes at the end of 00000000000000000000.log" in out


def test_metadata_records_are_decoded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    value = encode_metadata_record(FeatureLevelRecord(name="metadata.version", feature_level=30), 0)
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(build_batch([Record(timestamp=Millis(1), value=value)]))
    assert main(["dump-log", "--files", str(path), "--cluster-metadata-decoder", "--output", "json"]) == 0
    record = json.loads(capsys.readouterr().out.splitlines()[-1])
    data = {"name": "metadata.version", "featureLevel": 30}
    assert record["payload"] == {"type": "FEATURE_LEVEL_RECORD", "version": 0, "data": data}


def test_a_missing_file_is_one_line_and_exit_code_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["dump-log", "--files", str(tmp_path / "00000000000000000000.log")]) == 1
    assert "No such file" in capsys.readouterr().err


@pytest.mark.peer
@pytest.mark.parametrize(
    "flags", [[], ["--deep-iteration"], ["--print-data-log"], ["--print-data-log", "--skip-record-metadata"]]
)
def test_a_log_is_printed_as_kafka_prints_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], flags: list[str]
) -> None:
    path = write_log(tmp_path)
    assert main(["dump-log", "--files", str(path), *flags]) == 0
    assert capsys.readouterr().out == peer.tool("dump-log", "--files", str(path), *flags).stdout


def offsets_records() -> list[Record]:
    key = OffsetCommitKey(group="g", topic="t", partition=2)
    value = OffsetCommitValue(offset=5, metadata="m", commit_timestamp=9, topic_id=b"\1" * 16)
    member_key = ConsumerGroupMemberMetadataKey(group_id="g", member_id="m")
    member = ConsumerGroupMemberMetadataValue(client_id="c", client_host="/h", rebalance_timeout_ms=1)
    return [
        Record(timestamp=Millis(1), key=encode_coordinator_key(key), value=encode_coordinator_value(value, 4)),
        Record(timestamp=Millis(1), key=encode_coordinator_key(key), value=encode_coordinator_value(value, 1)),
        Record(timestamp=Millis(1), key=encode_coordinator_key(key), value=None),
        Record(timestamp=Millis(1), key=encode_coordinator_key(member_key), value=encode_coordinator_value(member, 0)),
        Record(timestamp=Millis(1), key=b"\x7f\0", value=b"of a later version"),
    ]


def transaction_records() -> list[Record]:
    key = encode_coordinator_key(TransactionLogKey(transactional_id="x"))
    value = TransactionLogValue(
        producer_id=1,
        previous_producer_id=1,
        transaction_partitions=[PartitionsSchema(topic="t", partition_ids=[0, 1])],
        client_transaction_version=2,
    )
    return [
        Record(timestamp=Millis(1), key=key, value=encode_coordinator_value(value, 1)),
        Record(timestamp=Millis(1), key=key, value=encode_coordinator_value(TransactionLogValue(producer_id=1), 0)),
        Record(timestamp=Millis(1), key=key, value=None),
    ]


def share_records() -> list[Record]:
    batch = StateBatch(first_offset=1, last_offset=2, delivery_state=2, delivery_count=1)
    value = ShareSnapshotValue(snapshot_epoch=1, start_offset=1, state_batches=[batch])
    key = encode_coordinator_key(ShareSnapshotKey(group_id="s", topic_id=b"\2" * 16, partition=1))
    return [Record(timestamp=Millis(1), key=key, value=encode_coordinator_value(value, 0))]


DECODED: dict[str, tuple[str, Callable[[], list[Record]], str]] = {
    "offsets": ("--offsets-decoder", offsets_records, "00000000000000000000.log"),
    "offsets alone": ("--offsets-decoder --skip-record-metadata", offsets_records, "00000000000000000000.log"),
    "transactions": ("--transaction-log-decoder", transaction_records, "00000000000000000000.log"),
    "shares": ("--share-group-state-decoder", share_records, "00000000000000000000.log"),
    "numbers": (
        "--key-decoder-class org.apache.kafka.tools.api.IntegerDecoder "
        "--value-decoder-class org.apache.kafka.tools.api.LongDecoder",
        lambda: [Record(timestamp=Millis(1), key=b"\0\0\0\1", value=b"\xff" * 8), Record(timestamp=Millis(1))],
        "00000000000000000000.log",
    ),
    "a snapshot": (
        "--cluster-metadata-decoder",
        lambda: [Record(timestamp=Millis(1), value=encode_metadata_record(FeatureLevelRecord(name="f"), 0))],
        "00000000000000000007-0000000003.checkpoint",
    ),
    "a bootstrap snapshot": ("", list, "bootstrap.checkpoint"),
}


def decoded_log(folder: Path, case: str) -> list[str]:
    """Write the case's file and return the arguments."""
    flags, records, name = DECODED[case]
    (folder / name).write_bytes(build_batch(found) if (found := records()) else b"")
    return ["--files", str(folder / name), *flags.split()]


def test_internal_topics_are_decoded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["dump-log", *decoded_log(tmp_path, "offsets alone")]) == 0
    lines = capsys.readouterr().out.splitlines()[3:]
    key = 'key: {"type":"1","data":{"group":"g","topic":"t","partition":2}}'
    assert lines[0].startswith(f'| {key} payload: {{"version":"4","data":{{"offset":5,')
    assert lines[2] == f"| {key} payload: <DELETE>"
    assert lines[3].endswith('"classicMemberMetadata":null}}')
    assert lines[4] == "| key: Unknown record type 32512 at offset 4, skipping."


def test_a_decoder_that_is_not_built_in_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_log(tmp_path)
    assert main(["dump-log", "--files", str(path), "--value-decoder-class", "x.Own"]) == 1
    assert capsys.readouterr().err.startswith("x.Own is not built in; Kafka's StringDecoder, ")


def test_a_record_without_a_key_ends_the_decoding(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_log(tmp_path)
    assert main(["dump-log", "--files", str(path), "--offsets-decoder"]) == 1
    assert "message had a missing key" in capsys.readouterr().err


def test_what_lies_behind_the_bytes_asked_for_is_not_called_invalid(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_log(tmp_path)
    assert main(["dump-log", "--files", str(path), "--max-bytes", str(path.stat().st_size - 1)]) == 0
    assert "invalid" not in capsys.readouterr().out.replace("isvalid", "")


@pytest.mark.peer
@pytest.mark.parametrize("case", DECODED)
def test_decoders_print_what_kafkas_print(tmp_path: Path, capsys: pytest.CaptureFixture[str], case: str) -> None:
    arguments = decoded_log(tmp_path, case)
    assert main(["dump-log", *arguments]) == 0
    found = peer.tool("dump-log", *arguments)
    assert (capsys.readouterr().out, found.returncode) == (found.stdout, 0), found.stderr


def misfitting(folder: Path) -> str:
    """Write a log with a gap, and indexes that do not fit it; return them as `--files` names them."""
    records = [Record(timestamp=Millis(1_700_000_000_000 + at), value=b"v") for at in range(3)]
    data = bytearray()
    for offset in (0, 3, 10):
        placed = bytearray(build_batch(records))
        stamp_batch(placed, 0, Offset(offset), 1)
        data += placed
    size, times = len(data) // 3, ((2, 2), (9, 5), (1, 12), (12, 11))
    files = {
        "index": pack(">iiii", 5, size, 7, 2 * size),
        "timeindex": b"".join(pack(">qi", 1_700_000_000_000 + time, offset) for time, offset in times),
        "log": bytes(data),
    }
    paths = [folder / f"{0:020d}.{suffix}" for suffix in files]
    for path, content in zip(paths, files.values(), strict=True):
        path.write_bytes(content)
    return ",".join(map(str, paths))


def test_what_does_not_fit_is_told_on_standard_error_behind_everything_else(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = misfitting(tmp_path)
    assert main(["dump-log", "--deep-iteration", "--files", files]) == 0
    out, err = capsys.readouterr()
    assert "followed" not in out and "ismatch" not in out and "order" not in out
    assert err.replace(f"{tmp_path}/{0:020d}", "FILE").splitlines() == [
        "Mismatches in :FILE.index",
        "  Index offset: 7, log offset: 12",
        "Found timestamp mismatch in :FILE.timeindex",
        "  Index timestamp: 1700000000009, log timestamp: 1700000000002",
        "  Index timestamp: 1700000000001, log timestamp: 1700000000002",
        "Found out of order timestamp in :FILE.timeindex",
        "  Index timestamp: 1700000000001, Previously indexed timestamp: 1700000000009",
        "The following indexed offsets are not found in :FILE.timeindex",
        "Indexed offset: 11, found log offset: 12",
        "Non-consecutive offsets in FILE.log",
        "  5 is followed by 10",
    ]


def test_gaps_are_looked_for_among_records_only(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = misfitting(tmp_path).split(",")[-1]
    assert main(["dump-log", "--files", log]) == 0
    assert capsys.readouterr().err == ""
    assert main(["dump-log", "--output", "json", "--print-data-log", "--files", log]) == 0
    told = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (told["notice"], told["before"], told["after"]) == ("Non-consecutive offsets in", 5, 10)


@pytest.mark.peer
@pytest.mark.parametrize("more", ["--deep-iteration", "--verify-index-only"])
def test_notices_are_kafkas(tmp_path: Path, capsys: pytest.CaptureFixture[str], more: str) -> None:
    arguments = [more, "--files", misfitting(tmp_path)]
    assert main(["dump-log", *arguments]) == 0
    found = peer.tool("dump-log", *arguments)
    out, err = capsys.readouterr()
    assert (out, err, found.returncode) == (found.stdout, found.stderr, 0)
