"""Apache Kafka reads what Ottla wrote, and Ottla what Kafka wrote, also after either was killed."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from ottla.base import TopicPartition, Uuid
from ottla.log import AppendOrigin, Log, LogConfig, LogDir, OsDisk
from ottla.wire import Codec, Record, build_batch
from tests import peer
from tests.log.records import NOW, batch, marker, records_of
from tests.ports import free_port

pytestmark = pytest.mark.peer

SMALL = LogConfig(segment_bytes=8_000, index_interval_bytes=500)


def written_log(folder: Path, *, close: bool = True) -> Log:
    """Write a log with several segments, codecs, an idempotent producer and transactions."""
    log = Log.open(OsDisk(), str(folder / "events-0"), SMALL, now_ms=NOW, topic_id=Uuid(bytes(range(16))), clean=True)
    sequence = 0
    for at in range(60):
        codec = Codec(at % 5)
        records = [
            Record(each, NOW + at * 100 + each, b"key-%d" % each, b"value-%d-%d" % (at, each) * 10, (("h", b"x"),))  # type: ignore[arg-type]
            for each in range(10)
        ]
        data = build_batch(records, codec=codec, producer_id=9, producer_epoch=1, base_sequence=sequence)
        log.append(data, leader_epoch=at // 20, now_ms=NOW + at)
        sequence += 10
    log.append(batch([b"a", b"b"], producer=(5, 0, 0), transactional=True, timestamp=NOW + 9000), leader_epoch=3)
    log.append(batch([b"c"], producer=(6, 0, 0), transactional=True, timestamp=NOW + 9001), leader_epoch=3)
    log.append(marker(5, 0, commit=False), leader_epoch=3, origin=AppendOrigin.COORDINATOR)
    log.append(marker(6, 0, commit=True), leader_epoch=3, origin=AppendOrigin.COORDINATOR)
    log.append(batch([b"open"], producer=(7, 2, 0), transactional=True, timestamp=NOW + 9002), leader_epoch=3)
    if close:
        log.close()
    return log


def files(folder: Path, *suffixes: str) -> str:
    """Return the log's files of these kinds, as dump-log takes them."""
    found = sorted(each for each in (folder / "events-0").iterdir() if each.suffix in suffixes)
    assert found
    return ",".join(map(str, found))


@pytest.mark.parametrize("flag", [[], ["--verify-index-only"], ["--index-sanity-check"]])
def test_kafkas_dump_log_reads_every_file_without_complaint(tmp_path: Path, flag: list[str]) -> None:
    written_log(tmp_path)
    result = peer.tool("dump-log", "--files", files(tmp_path, ".index", ".timeindex"), *flag)
    assert result.returncode == 0 and not errors(result.stderr), result.stderr
    assert "mismatch" not in result.stdout.lower() and "Found" not in result.stdout, result.stdout
    if flag == ["--index-sanity-check"]:
        assert result.stdout.count("passed sanity check") >= 6


def test_kafkas_dump_log_reads_the_data_and_the_state_beside_it(tmp_path: Path) -> None:
    log = written_log(tmp_path)
    listed = files(tmp_path, ".log", ".snapshot", ".txnindex")
    result = peer.tool("dump-log", "--print-data-log", "--files", listed)
    assert result.returncode == 0 and not errors(result.stderr), result.stderr
    assert result.stdout.count("| offset: ") == log.log_end_offset and "isvalid: false" not in result.stdout
    assert "producerId: 5 firstOffset: 600 lastOffset: 603 lastStableOffset: 602" in result.stdout
    assert (
        "producerId: 7 producerEpoch: 2 coordinatorEpoch: -1 currentTxnFirstOffset: OptionalLong[605]" in result.stdout
    )
    assert "invalid bytes" not in result.stdout


def errors(stderr: str) -> list[str]:
    """Return what the tool complained of; it says of every segment but the first that nothing comes before it."""
    expected = ("Non-consecutive offsets in", "  -1 is followed by")
    return [line for line in stderr.splitlines() if line.strip() and not line.startswith(expected)]


def fill_with_kafka(folder: Path, port: int, *, kill: bool) -> None:
    """Let Apache Kafka write 2,000 records into a folder, and end it."""
    server = f"127.0.0.1:{port}"
    with peer.running_broker(folder, port, heap="512m") as process:
        made = peer.tool("topics", "--bootstrap-server", server, "--create", "--topic", "events", "--partitions", "1")
        assert made.returncode == 0, made.stderr
        lines = "".join(f"k{at}:value {at} {'x' * 50}\n" for at in range(2000))
        sent = peer.tool(
            *("console-producer", "--bootstrap-server", server, "--topic", "events"),
            *("--reader-property", "parse.key=true", "--reader-property", "key.separator=:"),
            stdin=lines,
        )
        assert sent.returncode == 0, sent.stderr
        if kill:
            process.send_signal(signal.SIGKILL)
            process.wait()


def keys(log: Log) -> list[bytes | None]:
    """Return every record's key."""
    got: list[bytes | None] = []
    offset = 0
    while offset < log.log_end_offset:
        found = log.read(offset, max_bytes=1 << 16, min_one_batch=True)
        fresh = [each for each in records_of(found) if each.offset >= offset]
        got += [each.key for each in fresh]
        offset = fresh[-1].offset + 1
    return got


@pytest.mark.parametrize(
    "kill",
    # after a kill the log is recovered besides; each needs two brokers of Kafka's and two of its tools
    [pytest.param(False, marks=pytest.mark.slow, id="stopped"), pytest.param(True, id="killed")],
)
def test_ottla_goes_on_with_what_kafka_left_and_kafka_with_that(tmp_path: Path, kill: bool) -> None:
    port = free_port()
    fill_with_kafka(tmp_path, port, kill=kill)
    key = TopicPartition("events", 0)
    log_dir = LogDir.open(OsDisk(), str(tmp_path / "data"))
    assert log_dir.is_clean is not kill
    assert log_dir.meta is not None and log_dir.meta.node_id == 1
    found = {each.partition: each for each in log_dir.found()}
    log = log_dir.open_log(key, LogConfig(segment_bytes=1 << 20), now_ms=NOW, topic_id=found[key].topic_id)
    assert (log.recovery is not None) is kill and log.log_end_offset == 2000
    assert keys(log) == [b"k%d" % at for at in range(2000)]
    assert len(log.producers) == 1 and log.leader_epochs.latest == 0

    for at in range(100):
        log.append(batch([b"from ottla %d" % at + b"." * 20_000], timestamp=NOW + at), leader_epoch=0)
    assert log.segment_count > 1
    if kill:
        log_dir.release()
    else:
        log_dir.close(high_watermarks={key: (log, log.log_end_offset)})
    with peer.running_broker(tmp_path, port, heap="512m"):
        result = peer.tool(
            *("console-consumer", "--bootstrap-server", f"127.0.0.1:{port}", "--topic", "events", "--partition", "0"),
            *("--offset", "2000", "--max-messages", "100", "--timeout-ms", "30000"),
        )
    assert result.stdout.count("from ottla") == 100, result.stderr


def test_ottlas_dump_log_says_what_kafkas_does(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from ottla.cli.main import main

    written_log(tmp_path)
    suffixes = (".log", ".index", ".timeindex", ".snapshot", ".txnindex")
    for flags in (["--print-data-log"], ["--deep-iteration"], ["--skip-record-metadata", "--print-data-log"]):
        wanted = peer.tool("dump-log", *flags, "--files", files(tmp_path, *suffixes))
        capsys.readouterr()
        assert main(["dump-log", *flags, "--files", files(tmp_path, *suffixes)]) == 0
        assert capsys.readouterr().out == wanted.stdout
