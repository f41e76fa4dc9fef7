"""Apache Kafka reads a compacted log, goes on with it, and compacts the same records in the same way."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from ottla.base import Millis, TopicPartition
from ottla.cli.main import main
from ottla.log import (
    AppendOrigin,
    CleanerBuffers,
    Log,
    LogConfig,
    LogDir,
    OsDisk,
    clean,
    cleanable,
    install,
    plan_cleaning,
)
from ottla.wire import Codec, Record, end_transaction_marker, iter_batch_records, iter_batches, iter_records
from tests import peer
from tests.log.cleaning import COMPACT, keyed
from tests.log.records import NOW
from tests.log.test_peer import errors, files
from tests.ports import free_port

pytestmark = pytest.mark.peer

CONFIG: LogConfig = replace(COMPACT, segment_bytes=8_000, index_interval_bytes=500)


def compact(log: Log, now_ms: int) -> None:
    """Clean everything but the active segment."""
    log.roll(now_ms)
    log.flush()
    found = cleanable(log, last_stable_offset=log.last_stable_offset, now_ms=now_ms)
    lease = f"{log.folder}/cleaning.tmp"
    disk = OsDisk()
    disk.open(lease, create=True)
    plan = plan_cleaning(log, found, now_ms=now_ms, lease=lease, buffers=CleanerBuffers(map_bytes=1 << 20))
    assert install(disk, log, plan, clean(disk, plan), now_ms=now_ms)
    disk.unlink(lease)
    for path in log.housekeep(now_ms + 10):
        disk.unlink(path)


def fill(log: Log, start: int = NOW) -> dict[bytes, bytes | None]:
    """Write keys again and again, in every codec, with tombstones, a producer and transactions; return the last values."""
    latest: dict[bytes, bytes | None] = {}
    for at in range(120):
        pairs = [(b"key-%d" % (each % 37), b"value-%d " % at * 5) for each in range(at, at + 6)]
        pairs += [(b"gone-%d" % (at % 3), None)] if at % 10 == 9 else [(b"gone-%d" % (at % 3), b"x")]  # type: ignore[list-item]
        data = keyed(pairs, timestamp=start + 100 * at, codec=Codec(at % 5), producer=(9, 1, 7 * at))
        log.append(data, leader_epoch=at // 60, now_ms=start + 100 * at)
        latest.update(pairs)
    for producer_id, commit in ((5, False), (6, True)):
        pairs = [(b"transaction-%d" % producer_id, b"v")]
        data = keyed(pairs, timestamp=start + 20_000, producer=(producer_id, 0, 0), transactional=True)
        log.append(data, leader_epoch=1, now_ms=start + 20_000)
        end = end_transaction_marker(
            commit=commit, producer_id=producer_id, producer_epoch=0, coordinator_epoch=0, timestamp=start + 20_000
        )
        log.append(end, leader_epoch=1, origin=AppendOrigin.COORDINATOR)
        if commit:
            latest.update(pairs)
    return latest


def test_kafkas_dump_log_reads_a_compacted_log_without_complaint_and_ottlas_says_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = Log.open(OsDisk(), str(tmp_path / "events-0"), CONFIG, now_ms=NOW, clean=True)
    latest = fill(log)
    compact(log, NOW + 30_000)
    log.close()
    result = peer.tool("dump-log", "--print-data-log", "--files", files(tmp_path, ".log", ".txnindex", ".snapshot"))
    gaps = [line for line in errors(result.stderr) if " is followed by " in line]  # they are what compaction is for
    assert result.returncode == 0 and len(gaps) == len(errors(result.stderr)), result.stderr
    assert "isvalid: false" not in result.stdout and "invalid bytes" not in result.stdout
    assert f"deleteHorizonMs: OptionalLong[{NOW + 30_000 + 1000}]" in result.stdout
    assert result.stdout.count("| offset: ") == len(latest) + 2  # and two markers
    assert "producerId: 5 firstOffset: 840 lastOffset: 841" in result.stdout
    capsys.readouterr()
    listed = files(tmp_path, ".log", ".txnindex", ".snapshot")
    assert main(["dump-log", "--print-data-log", "--files", listed]) == 0
    assert capsys.readouterr().out == result.stdout
    for flag in ([], ["--index-sanity-check"]):
        result = peer.tool("dump-log", "--files", files(tmp_path, ".index", ".timeindex"), *flag)
        assert result.returncode == 0 and not errors(result.stderr), result.stderr
        assert "mismatch" not in result.stdout.lower() and "Found" not in result.stdout, result.stdout


@pytest.mark.slow
def test_kafka_goes_on_with_what_ottla_compacted_and_both_leave_the_same_batches(tmp_path: Path) -> None:
    port = free_port()
    server = f"127.0.0.1:{port}"
    settings = ["log.cleaner.backoff.ms=100", "log.cleaner.dedupe.buffer.size=4194304", "log.initial.task.delay.ms=1"]
    configs = ("cleanup.policy=compact", "min.cleanable.dirty.ratio=0.01", "segment.bytes=1048576")
    with peer.running_broker(tmp_path, port, overrides=settings, heap="512m"):
        for topic in ("events", "expired", "active"):
            create = ("topics", "--bootstrap-server", server, "--create", "--topic", topic, "--partitions", "1")
            made = peer.tool(*create, *(part for each in configs for part in ("--config", each)))
            assert made.returncode == 0, made.stderr
    key = TopicPartition("events", 0)
    log_dir = LogDir.open(OsDisk(), str(tmp_path / "data"))
    found = {each.partition: each for each in log_dir.found()}
    log = log_dir.open_log(key, CONFIG, now_ms=NOW, topic_id=found[key].topic_id)
    latest = fill(log)
    compact(log, NOW + 30_000)
    for at in range(3):  # and something that is left for Kafka to clean
        big = [(b"big-%d" % each, b"%d" % at + b"." * 150) for each in range(40)]
        log.append(keyed(big, timestamp=NOW + 40_000 + at), leader_epoch=1, now_ms=NOW + 40_000 + at)
        latest.update(big)
        log.roll(NOW + 40_000 + at)
    log.flush()
    log_dir.write_cleaned_offsets()
    end = log.log_end_offset
    now_ms = int(time.time() * 1000)
    both = {TopicPartition("expired", 0): NOW, TopicPartition("active", 0): now_ms - 60_000}
    """When the producers wrote: after a day Kafka and Ottla forget what they need to know of them."""
    for each, start in both.items():
        fill(log_dir.open_log(each, CONFIG, now_ms=start, topic_id=found[each].topic_id), start)
        log_dir.logs[each].roll(start + 30_000)
    log_dir.close(high_watermarks={each: (log_dir.logs[each], 844 if each in both else end) for each in (key, *both)})
    for each in both:
        shutil.copytree(tmp_path / "data" / str(each), tmp_path / "ours" / str(each))
    checkpoint = tmp_path / "data" / "cleaner-offset-checkpoint"
    assert "events 0 844" in checkpoint.read_text()

    with peer.running_broker(tmp_path, port, overrides=settings, heap="512m"):
        for _ in range(400):  # until Kafka has cleaned what Ottla left dirty; each round is a tool's start or a look
            if {f"events 0 {end}", "expired 0 844", "active 0 844"} <= {*checkpoint.read_text().splitlines()}:
                break
            peer.tool("get-offsets", "--bootstrap-server", server, "--topic", "events")
        else:
            raise AssertionError("Kafka has not cleaned the logs")
        read = peer.tool(
            *("console-consumer", "--bootstrap-server", server, "--topic", "events", "--from-beginning"),
            *("--formatter-property", "print.key=true", "--isolation-level", "read_committed"),
            *("--max-messages", str(sum(value is not None for value in latest.values())), "--timeout-ms", "30000"),
        )
    got = dict(line.split("\t", 1) for line in read.stdout.splitlines() if "\t" in line)
    latest = {each: value for each, value in latest.items() if value is not None}  # their horizons have passed
    assert got == {each.decode(): value.decode() for each, value in latest.items() if value is not None}

    log_dir = LogDir.open(OsDisk(), str(tmp_path / "data"))
    log = log_dir.open_log(key, CONFIG, now_ms=NOW, topic_id=found[key].topic_id)
    assert log.cleaned_to == end == log.log_end_offset and log.recovery is None
    records: list[Record] = []
    for segment in log.segments:
        records += [each for each in iter_records(segment.file.pread(0, segment.size)) if each.key in latest]
    assert {each.key: each.value for each in records} == latest and len(records) == len(latest)
    log_dir.release()

    config = replace(CONFIG, segment_bytes=1 << 20)
    for each in both:
        ours = Log.open(OsDisk(), str(tmp_path / "ours" / str(each)), config, now_ms=now_ms, clean=True)
        compact(ours, now_ms)
        theirs = Log.open(OsDisk(), str(tmp_path / "data" / str(each)), config, now_ms=now_ms, clean=True)
        assert list(batches(ours)) == list(batches(theirs))
        assert ours.aborted_transactions(0, 900) == theirs.aborted_transactions(0, 900) != []
        assert len(ours.producers) == (0 if each.topic == "expired" else 3)


def batches(log: Log) -> Iterator[tuple[object, ...]]:
    """Yield what a log's batches say, whoever cleaned it; base timestamps and horizons are the cleaner's own."""
    for segment in log.segments:
        data = segment.file.pread(0, segment.size)
        for header, at in iter_batches(data):
            own = header._replace(batch_length=0, crc=0, base_timestamp=Millis(0))
            yield segment.base_offset, own, list(iter_batch_records(data, at, header))
