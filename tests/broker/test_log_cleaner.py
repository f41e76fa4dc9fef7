"""A broker compacts its topics by itself: real clients, real worker processes, waited for by asking and not by sleeping."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka import TopicPartition as Partition
from confluent_kafka.admin import AdminClient, NewTopic

from ottla.base import ErrorCode, TopicPartition
from ottla.broker.metrics import Metrics
from ottla.broker.replicas.local_partition import LocalPartition
from ottla.wire import Record, build_batch, iter_records
from tests.broker.node_client import NodeClient, delete_topic, parts, run, running_node
from tests.server import running_server
from tests.waiting import until_async

QUICK = ("log.cleaner.backoff.ms=20", "log.flush.scheduler.interval.ms=20", "log.cleaner.dedupe.buffer.size=4194304")
COMPACT = {"cleanup_policy": "compact", "min_cleanable_dirty_ratio": "0.01", "segment_ms": "1000"}
"""Records come with times two seconds apart, so that a segment is sealed with every batch."""
NOW_MS = 1_700_000_000_000
WAIT_S_MAX = 25.0


def batch(at: int, *pairs: tuple[bytes | None, bytes | None]) -> bytes:
    records = [Record(each, NOW_MS + 2000 * at, key, value) for each, (key, value) in enumerate(pairs)]  # type: ignore[arg-type]
    return bytes(build_batch(records))


def held(client: NodeClient, topic: str) -> LocalPartition:
    found = parts(client.node).partitions.get(topic, 0)
    assert found is not None
    return found


async def cleaned(client: NodeClient, topic: str) -> None:
    """Return when everything but the active segment is clean."""
    log = held(client, topic).log
    await until_async(lambda: log.cleaned_to == log.segments[-1].base_offset)


async def everything(client: NodeClient, topic: str) -> list[Record]:
    """Read a topic from its beginning to its end, as a consumer does."""
    found: list[Record] = []
    offset = 0
    while True:
        answer = await client.fetch(topic, offset)
        fresh = [each for each in iter_records(answer.records or b"") if each.offset >= offset]
        if not fresh:
            return found
        found += fresh
        offset = fresh[-1].offset + 1


async def fill(client: NodeClient, topic: str, *, rounds: int = 30, start: int = 0) -> dict[bytes | None, bytes | None]:
    latest: dict[bytes | None, bytes | None] = {}
    for at in range(start, start + rounds):
        pairs = [(b"k%d" % (each % 7), b"v%d-%d" % (at, each)) for each in range(at, at + 3)]
        answer = await client.produce(topic, batch(at, *pairs))
        assert answer.error_code == 0
        latest.update(pairs)
    return latest


def test_a_consumer_from_the_beginning_reads_the_latest_value_of_each_key(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path, *QUICK) as client:
            await client.create("t", **COMPACT)
            latest = await fill(client, "t")
            await cleaned(client, "t")
            sealed = held(client, "t").log.cleaned_to
            found = await everything(client, "t")
            assert {each.key: each.value for each in found} == latest
            assert len(found) <= 7 + 3  # the active segment is as it was
            assert [each.offset for each in found] == sorted({each.offset for each in found})
            await client.produce("t", batch(40, (b"k1", None)))
            await client.produce("t", batch(41, (b"k2", b"end")))
            assert (await everything(client, "t"))[-1].value == b"end"
        checkpoint = (tmp_path / "cleaner-offset-checkpoint").read_text().splitlines()
        assert checkpoint[:2] == ["0", "1"] and checkpoint[2].startswith("t 0 ")
        async with running_node(tmp_path, *QUICK, "log.cleaner.enable=false") as client:
            assert {each.key: each.value for each in await everything(client, "t")} == latest | {
                b"k1": None,
                b"k2": b"end",
            }
            assert held(client, "t").log.cleaned_to >= sealed

    run(test)


def test_a_client_that_nobody_here_wrote_sees_the_topic_shrink_and_lose_nothing(tmp_path: Path) -> None:
    words = [b"word-%d" % (at * at % 11) for at in range(300)]
    with running_server(tmp_path, overrides=QUICK) as server:
        admin = AdminClient({"bootstrap.servers": server.bootstrap})
        # what Kafka Streams' word count asks for its output: counts by word, of which the last one is true
        config = {"cleanup.policy": "compact", "segment.ms": "1000", "min.cleanable.dirty.ratio": "0.01"}
        admin.create_topics([NewTopic("streams-wordcount-output", 1, 1, config=config)])[
            "streams-wordcount-output"
        ].result(10)
        producer = Producer({"bootstrap.servers": server.bootstrap, "linger.ms": 0, "enable.idempotence": True})
        counts: dict[bytes, bytes] = {}
        for at, word in enumerate(words):
            counts[word] = b"%d" % (int(counts.get(word, b"0")) + 1)
            producer.produce("streams-wordcount-output", key=word, value=counts[word], timestamp=NOW_MS + 500 * at)
            if at % 10 == 0:
                producer.flush(10)
        assert producer.flush(10) == 0
        read: list[tuple[bytes, bytes]] = []
        for _ in range(500):
            read = consumed(server.bootstrap, "streams-wordcount-output", end=len(words))
            assert dict(read) == counts
            if len(read) < 60:
                return
        raise AssertionError(f"{len(read)} records are still there")


def consumed(bootstrap: str, topic: str, *, end: int) -> list[tuple[bytes, bytes]]:
    """Read a topic from the beginning to an offset."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "reader", "enable.partition.eof": True})
    try:
        consumer.assign([Partition(topic, 0, 0)])
        found = []
        for _ in range(end + 1000):
            message = consumer.poll(10)
            assert message is not None
            if message.error() is not None:
                assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
                return found
            found.append((message.key(), message.value()))
        raise AssertionError("the topic has no end")
    finally:
        consumer.close()


def test_a_record_without_a_key_is_refused(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path, *QUICK) as client:
            await client.create("t", **COMPACT)
            answer = await client.produce("t", batch(0, (b"k", b"1"), (None, b"2")))
            assert answer.error_code == ErrorCode.INVALID_RECORD

    run(test)


def test_a_damaged_log_is_left_alone_and_counted_while_others_are_cleaned(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path, *QUICK) as client:
            cleaner = client.node.housekeeping.cleaner
            metrics = Metrics()
            cleaner.name_gauges(metrics)
            await client.create("bad", **COMPACT, min_compaction_lag_ms="9000000000000")
            await fill(client, "bad")
            path = tmp_path / "bad-0" / "00000000000000000003.log"
            data = bytearray(path.read_bytes())
            data[-1] ^= 0xFF
            path.write_bytes(data)
            bad = held(client, "bad")
            bad.log.config = replace(bad.log.config, min_compaction_lag_ms=0)
            tag = f"logDirectory={tmp_path}"
            await until_async(lambda: len(cleaner.uncleanable_in(bad.log_dir)) == 1)
            values = dict(metrics.values())
            assert values[f"LogCleanerManager.uncleanable-partitions-count,{tag}"] == 1
            assert values[f"LogCleanerManager.uncleanable-bytes,{tag}"] > 0
            await client.create("good", **COMPACT)
            latest = await fill(client, "good")
            await cleaned(client, "good")
            assert {each.key: each.value for each in await everything(client, "good")} == latest
            values = dict(metrics.values())
            assert 0 <= values["LogCleaner.cleaner-recopy-percent"] < 100
            assert bad.log.segment_count == 30 and bad.log.cleaned_to == -1

    run(test)


def test_a_topic_that_is_deleted_while_it_is_cleaned_is_gone(tmp_path: Path) -> None:
    async def test() -> None:
        # so few bytes a second that no cleaning ends by itself
        async with running_node(tmp_path, *QUICK, "log.cleaner.io.max.bytes.per.second=50") as client:
            await client.create("t", **COMPACT)
            await fill(client, "t")
            partition = held(client, "t")
            await until_async(lambda: partition.being_cleaned)
            await delete_topic(client, "t")
            await until_async(lambda: not partition.being_cleaned)
            await client.create("t", **COMPACT)
            await fill(client, "t", rounds=5)
            assert len(await everything(client, "t")) == 15
            again = held(client, "t")
            await until_async(lambda: again.being_cleaned)
        # and a stop does not wait for it either
        assert not list(tmp_path.glob("t-0/*.cleaned")) and not list(tmp_path.glob("t-0/*.tmp"))

    run(test)


def test_a_cleaning_that_takes_long_keeps_no_produce_waiting(tmp_path: Path) -> None:
    """The worker that recompresses is another one than the cleaner's."""

    async def test() -> None:
        async with running_node(tmp_path, *QUICK, "log.cleaner.io.max.bytes.per.second=50") as client:
            await client.create("t", **COMPACT)
            await fill(client, "t")
            partition = held(client, "t")
            await until_async(lambda: partition.being_cleaned)
            await client.create("zstd", compression_type="zstd")
            answer = await client.produce("zstd", batch(0, (b"k", b"v" * 1000)))
            assert answer.error_code == 0 and partition.being_cleaned

    run(test)


def test_a_compacted_log_is_also_deleted_by_time_where_it_is_asked_for(tmp_path: Path) -> None:
    async def test() -> None:
        settings = (*QUICK, "log.retention.check.interval.ms=20")
        async with running_node(tmp_path, *settings) as client:
            await client.create("t", **{**COMPACT, "cleanup_policy": "compact,delete"}, retention_ms="3600000")
            records = [Record(at, 1_500_000_000_000 + 2000 * at, b"k%d" % (at % 3), b"old") for at in range(9)]  # type: ignore[arg-type]
            for each in records:
                await client.produce("t", bytes(build_batch([each])))
            now_ms = parts(client.node).clock.now_ms()
            await client.produce("t", bytes(build_batch([Record(timestamp=now_ms, key=b"k1", value=b"new")])))
            partition = held(client, "t")
            await until_async(lambda: partition.log.log_start_offset == 9)
            assert [each.value for each in await everything_from(client, "t", 9)] == [b"new"]

    run(test)


async def everything_from(client: NodeClient, topic: str, offset: int) -> list[Record]:
    answer = await client.fetch(topic, offset)
    return list(iter_records(answer.records or b""))


def test_the_checkpoint_is_kept_when_a_topic_is_deleted(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path, *QUICK) as client:
            for topic in ("kept", "gone"):
                await client.create(topic, **COMPACT)
                await fill(client, topic)
                await cleaned(client, topic)
            await delete_topic(client, "gone")
            await client.create("gone", **COMPACT)
            assert held(client, "gone").log.cleaned_to == -1
            log_dir = held(client, "kept").log_dir
            assert set(log_dir.logs) == {TopicPartition("kept", 0), TopicPartition("gone", 0)}
            log_dir.write_cleaned_offsets()
        assert "gone" not in (tmp_path / "cleaner-offset-checkpoint").read_text()

    run(test)


def bytes_in(folder: Path) -> int:
    """Return the size of a log whose broker puts cleaned segments in place of others meanwhile."""
    size = 0
    for each in folder.glob("*.log"):
        with suppress(FileNotFoundError):
            size += each.stat().st_size
    return size


def test_the_offsets_of_groups_are_compacted_and_found_again_after_a_crash(tmp_path: Path) -> None:
    settings = [*QUICK, "offsets.topic.num.partitions=1", "log.roll.ms=100", "log.cleaner.min.cleanable.ratio=0.01"]
    log = tmp_path / "data" / "__consumer_offsets-0"
    with running_server(tmp_path, overrides=settings) as server:
        admin = AdminClient({"bootstrap.servers": server.bootstrap})
        admin.create_topics([NewTopic("t", 1, 1)])["t"].result(10)
        producer = Producer({"bootstrap.servers": server.bootstrap})
        producer.produce("t", b"v")
        assert producer.flush(10) == 0
        consumer = Consumer({"bootstrap.servers": server.bootstrap, "group.id": "g", "enable.auto.commit": False})
        deadline = time.monotonic() + WAIT_S_MAX
        commits = 0
        while commits < 400 or bytes_in(log) > 100 * commits / 2:
            commits += 1  # a commit takes more than 100 bytes
            consumer.commit(offsets=[Partition("t", 0, commits)], asynchronous=False)
            if commits >= 400:
                assert time.monotonic() < deadline, "the commits are all still there"
                time.sleep(0.02)  # between two looks
        consumer.close()
        server.kill()
    with running_server(tmp_path, overrides=settings) as server:
        consumer = Consumer({"bootstrap.servers": server.bootstrap, "group.id": "g"})
        assert consumer.committed([Partition("t", 0)], timeout=10)[0].offset == commits
        consumer.close()
