"""Produce over a socket: every version, every refusal, and what each leaves in the log."""

from __future__ import annotations

import asyncio
import os
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ottla.base import ErrorCode
from ottla.broker import ThreadsAndProcess
from ottla.broker.replicas.decompressing import Room
from ottla.wire import (
    AT_ONCE_MAX,
    Codec,
    batch_bound,
    batch_validation,
    build_mode,
    iter_batches,
    iter_records,
    stamp_batch,
)
from tests.broker.hooked_disk import HookedDisk, full
from tests.broker.node_client import NOW_MS, NodeClient, batch, parts, run, running_node
from tests.broker.test_admin_configs import alter
from tests.waiting import until_async

TOPIC_RESOURCE = 2
WEEK_MS = 7 * 86_400_000


async def values(client: NodeClient, topic: str) -> list[bytes | None]:
    answer = await client.fetch(topic, 0)
    return [record.value for record in iter_records(answer.records)] if answer.records else []


@pytest.mark.parametrize("version", range(3, 14))
def test_every_version_appends_and_says_where(tmp_path: Path, version: int) -> None:
    async def test() -> None:
        async with running_node(tmp_path) as client:
            await client.create("t")
            first = await client.produce("t", batch(b"a", b"b"), version=version)
            second = await client.produce("t", batch(b"c"), version=version, acks=1)
            assert (first.error_code, first.base_offset) == (0, 0)
            assert (second.error_code, second.base_offset) == (0, 2)
            assert second.log_append_time_ms == -1
            if version >= 5:
                assert second.log_start_offset == 0
            assert await values(client, "t") == [b"a", b"b", b"c"]

    run(test)


@pytest.mark.parametrize("codec", list(Codec))
def test_a_batch_is_kept_as_it_was_sent(tmp_path: Path, codec: Codec) -> None:
    async def test() -> None:
        async with running_node(tmp_path) as client:
            await client.create("t")
            sent = batch(*[b"v%d" % n for n in range(100)], codec=codec)
            await client.produce("t", sent)
            kept = bytearray((await client.fetch("t", 0)).records)
            stamp_batch(kept, 0, 0, 0)
            expected = bytearray(sent)
            stamp_batch(expected, 0, 0, 0)
            assert kept == expected

    run(test)


def test_a_topic_with_a_codec_of_its_own_recompresses(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path) as client:
            await client.create("t", compression_type="zstd")
            sent = [b"same text again and again"] * 50
            client.send(client.produce_request("t", batch(*sent)), 12)
            client.send(client.produce_request("t", batch(b"last", codec=Codec.ZSTD)), 12)
            first = await client.receive(client.produce_request("t", b""), 12)
            second = await client.receive(client.produce_request("t", b""), 12)
            assert first.responses[0].partition_responses[0].base_offset == 0
            assert second.responses[0].partition_responses[0].base_offset == 50
            answer = await client.fetch("t", 0)
            assert [header.codec for header, _ in iter_batches(answer.records)] == [Codec.ZSTD, Codec.ZSTD]
            assert await values(client, "t") == [*sent, b"last"]

    run(test)


class _SlowProcess(ThreadsAndProcess):
    """Begins what goes to the worker process when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.begun, self.go_on = asyncio.Event(), asyncio.Event()

    async def process(self, call: Callable[..., Any], /, *args: object) -> Any:
        self.begun.set()
        await self.go_on.wait()
        return await super().process(call, *args)


def test_a_topic_that_goes_back_to_its_producers_codecs_takes_what_is_being_recompressed(tmp_path: Path) -> None:
    async def test() -> None:
        offload = _SlowProcess()
        async with running_node(tmp_path, offload=offload) as client:
            await client.create("t", compression_type="zstd")
            request = client.produce_request("t", batch(b"a" * 100))
            request.topic_data[0].partition_data += (
                client.produce_request("t", batch(b"b")).topic_data[0].partition_data
            )
            client.send(request, 12)
            await offload.begun.wait()
            other = await NodeClient.connect(client.node)
            assert (await alter(other, TOPIC_RESOURCE, "t", ("compression.type", 0, "producer")))[0] == 0
            offload.go_on.set()
            answer = await client.receive(request, 12)
            assert [each.error_code for each in answer.responses[0].partition_responses] == [0, 0]
            other.close()

    run(test)


class _KilledProcess(ThreadsAndProcess):
    """Has a worker process that the system kills under what it works on, as long as it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.is_killed = True

    async def process(self, call: Callable[..., Any], /, *args: object) -> Any:
        if self.is_killed:
            return await super().process(os._exit, 9)
        return await super().process(call, *args)


def test_a_batch_under_which_the_worker_process_is_killed_may_be_sent_again(tmp_path: Path) -> None:
    """It was answered with UNKNOWN_SERVER_ERROR, after which producers give up, and transactions cannot be committed."""

    async def test() -> None:
        offload = _KilledProcess()
        async with running_node(tmp_path, offload=offload) as client:
            await client.create("t", compression_type="zstd")
            made = batch(b"a" * 100, producer_id=7, producer_epoch=0, base_sequence=0)
            for _ in range(2):
                refused = await client.produce("t", made)
                assert refused.error_code == ErrorCode.REQUEST_TIMED_OUT
                assert "nothing was appended" in refused.error_message
            offload.is_killed = False
            taken = await client.produce("t", made)
            assert (taken.error_code, taken.base_offset) == (0, 0)
            assert await values(client, "t") == [b"a" * 100]

    run(test)


class _NotedProcess(ThreadsAndProcess):
    """Notes what goes to the worker process."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[str] = []

    async def process(self, call: Callable[..., Any], /, *args: object) -> Any:
        self.calls.append(call.__name__)
        return await super().process(call, *args)


@pytest.mark.parametrize("codec", list(Codec))
@pytest.mark.parametrize("wanted", ["producer", "lz4"])
def test_a_batch_of_many_records_is_walked_by_the_worker_process_alone(
    tmp_path: Path, codec: Codec, wanted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = AT_ONCE_MAX + 1
    many = batch(*[b""] * count, codec=codec)

    async def test() -> None:
        offload = _NotedProcess()
        async with running_node(tmp_path, offload=offload) as client:
            await client.create("t", compression_type=wanted, max_message_bytes="10000000")
            await client.create("compacted", cleanup_policy="compact", max_message_bytes="10000000")
            await client.create("small", max_message_bytes="70")
            await client.ask(client.produce_request("t", batch(b"first")), 12)  # the next may be handled quickly
            offload.calls.clear()
            walk = batch_validation.walk_records
            monkeypatch.setattr(batch_validation, "walk_records", lambda *args: pytest.fail("walked on the loop"))
            answers = [(await client.ask(client.produce_request("t", many), 12)) for _ in range(2)]
            monkeypatch.setattr(batch_validation, "walk_records", walk)
            found = [each.responses[0].partition_responses[0] for each in answers]
            assert [(each.error_code, each.base_offset) for each in found] == [(0, 1), (0, 1 + count)]
            assert offload.calls == ["walked" if wanted in ("producer", codec.name.lower()) else "recompressed"] * 2
            refused = (await client.ask(client.produce_request("compacted", many), 12)).responses[0]
            assert refused.partition_responses[0].error_code == ErrorCode.INVALID_RECORD
            assert len(refused.partition_responses[0].record_errors) == 1000
            calls = len(offload.calls)
            refused = (await client.ask(client.produce_request("small", many), 12)).responses[0]
            assert refused.partition_responses[0].error_code == ErrorCode.MESSAGE_TOO_LARGE
            assert len(offload.calls) <= calls + 1 and offload.calls[calls:] == []

    run(test)


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4, Codec.ZSTD])
def test_batches_that_become_too_much_are_decompressed_by_the_worker_process_alone(
    tmp_path: Path, codec: Codec, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of 32 MiB by itself, and of twenty of 1 MiB in a request those that are too many."""
    small, large = batch(bytes(1 << 20), codec=codec), batch(bytes(32 << 20), codec=codec)
    loop_bytes = 0
    payload = batch_validation.records_payload

    def counted(*args: Any, **named: Any) -> bytes:
        nonlocal loop_bytes
        found = payload(*args, **named)
        loop_bytes += len(found)
        return found

    async def test() -> None:
        nonlocal loop_bytes
        offload = _NotedProcess()
        async with running_node(tmp_path, offload=offload) as client:
            await client.create("t")
            monkeypatch.setattr(batch_validation, "records_payload", counted)
            for _ in range(2):  # the second may be handled quickly
                answer = await client.ask(client.produce_request("t", large), 12)
                assert answer.responses[0].partition_responses[0].error_code == 0
            assert (offload.calls, loop_bytes) == (["walked"] * 2, 0)
            request: Any = client.produce_request("t", small)
            partitions = request.topic_data[0].partition_data
            partitions += [client.produce_request("t", small).topic_data[0].partition_data[0] for _ in range(19)]
            answer = await client.ask(request, 12)
            assert [each.error_code for each in answer.responses[0].partition_responses] == [0] * 20
            assert 0 < loop_bytes <= 16 << 20
            assert 3 <= len(offload.calls) - 2 < 20

    run(test)


def test_a_batch_takes_its_room_on_the_event_loop_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also beside one that is recompressed, for which the request is looked through first."""
    taken: list[int] = []
    take = Room.take
    monkeypatch.setattr(Room, "take", lambda room, size: taken.append(size) or take(room, size))
    plain = batch(bytes(1 << 16), codec=Codec.GZIP)

    async def test() -> None:
        async with running_node(tmp_path) as client:
            await client.create("t")
            await client.create("other", compression_type="zstd")
            request: Any = client.produce_request("t", plain)
            request.topic_data += client.produce_request("other", batch(b"a", codec=Codec.LZ4)).topic_data
            answer = await client.ask(request, 12)
            assert [each.partition_responses[0].error_code for each in answer.responses] == [0, 0]
            assert sorted(taken) == [batch_bound(plain)]

    run(test)


@pytest.mark.parametrize("bad_first", [True, False])
def test_a_bad_batch_does_not_refuse_a_good_one_of_the_same_partition(tmp_path: Path, bad_first: bool) -> None:
    async def test() -> None:
        async with running_node(tmp_path) as client:
            await client.create("t", compression_type="zstd")
            request: Any = client.produce_request("t", batch(b"good"))
            good = request.topic_data[0].partition_data[0]
            bad = bytearray(batch(b"bad"))
            bad[-1] ^= 1
            other = client.produce_request("t", bytes(bad)).topic_data[0].partition_data[0]
            request.topic_data[0].partition_data[:] = [other, good] if bad_first else [good, other]
            answer = await client.ask(request, 12)
            codes = [each.error_code for each in answer.responses[0].partition_responses]
            expected = [int(ErrorCode.CORRUPT_MESSAGE), 0]
            assert codes == (expected if bad_first else expected[::-1])
            assert await values(client, "t") == [b"good"]

    run(test)


@pytest.mark.timeout(60)
def test_a_flush_that_has_just_ended_holds_up_nobody(tmp_path: Path) -> None:
    """One that was done, but whose callbacks had not run, was awaited for ever without letting them run."""

    async def test() -> None:
        async with running_node(tmp_path) as client:
            await client.create("t", flush_messages="1")
            partition = parts(client.node).partitions.get("t", 0)
            assert partition is not None
            for number in range(30):
                produced = asyncio.ensure_future(client.produce("t", batch(b"%d" % number), acks=1))
                waiting = []
                while not produced.done():
                    waiting.append(asyncio.ensure_future(partition.quiet()))
                    await asyncio.sleep(0)
                await asyncio.gather(*waiting)
                assert produced.result().error_code == 0

    run(test)


def test_nothing_is_answered_to_acks_0(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path) as client:
            await client.create("t")
            client.send(client.produce_request("t", batch(b"quiet"), acks=0), 12)
            assert await values(client, "t") == [b"quiet"]  # the next answer is the Fetch's

    run(test)


def test_an_error_at_acks_0_closes_the_connection(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path) as client:
            client.send(client.produce_request("missing", batch(b"lost"), acks=0), 12)
            with pytest.raises(asyncio.IncompleteReadError):
                await client.frame()

    run(test)


@pytest.mark.parametrize("acks", [2, -2, 100])
def test_other_acks_are_refused(tmp_path: Path, acks: int) -> None:
    async def test() -> None:
        async with running_node(tmp_path) as client:
            await client.create("t")
            answer = await client.produce("t", batch(b"x"), acks=acks)
            assert answer.error_code == ErrorCode.INVALID_REQUIRED_ACKS
            assert await values(client, "t") == []

    run(test)


def test_unknown_topics_are_refused_by_name_and_by_id(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path) as client:
            await client.create("t")
            assert (await client.produce("t", batch(b"x"), index=7)).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            client.topic_ids["gone"] = b"x" * 16
            by_name = await client.produce("gone", batch(b"x"), version=12)
            by_id = await client.produce("gone", batch(b"x"), version=13)
            assert by_name.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            assert by_id.error_code == ErrorCode.UNKNOWN_TOPIC_ID

    run(test)


def bad_crc() -> bytes:
    damaged = bytearray(batch(b"payload"))
    damaged[-1] ^= 1
    return bytes(damaged)


def with_byte(at: int, value: int) -> bytes:
    changed = bytearray(batch(b"payload"))
    changed[at] = value
    return bytes(changed)


@pytest.mark.parametrize(
    ("records", "codes"),
    [
        (None, {ErrorCode.INVALID_RECORD}),
        (b"", {ErrorCode.INVALID_RECORD}),
        (b"short", {ErrorCode.INVALID_RECORD, ErrorCode.CORRUPT_MESSAGE}),
        (bad_crc(), {ErrorCode.CORRUPT_MESSAGE}),
        (with_byte(16, 1), {ErrorCode.INVALID_RECORD}),
        (with_byte(16, 3), {ErrorCode.CORRUPT_MESSAGE}),
        (batch(b"a") + batch(b"b"), {ErrorCode.INVALID_RECORD}),
        (batch(b"a")[:-3], {ErrorCode.INVALID_RECORD, ErrorCode.CORRUPT_MESSAGE}),
    ],
)
def test_what_is_no_sound_batch_is_refused_and_leaves_nothing(
    tmp_path: Path, records: bytes | None, codes: set[ErrorCode]
) -> None:
    async def test() -> None:
        async with running_node(tmp_path) as client:
            await client.create("t")
            answer = await client.produce("t", records)
            assert ErrorCode(answer.error_code) in codes
            assert answer.error_message
            good = await client.produce("t", batch(b"good"))
            assert (good.error_code, good.base_offset) == (0, 0)

    run(test)


def test_a_batch_over_max_message_bytes_is_too_large(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path) as client:
            await client.create("t", max_message_bytes="200")
            answer = await client.produce("t", batch(b"x" * 300))
            assert answer.error_code == ErrorCode.MESSAGE_TOO_LARGE
            assert (await client.produce("t", batch(b"x" * 50))).error_code == 0

    run(test)


def test_a_transactional_batch_is_refused_without_a_transactional_id_and_without_a_transaction(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path) as client:
            await client.create("t")
            records = batch(b"x", producer_id=5, producer_epoch=0, base_sequence=0, transactional=True)
            unnamed = await client.produce("t", records)
            assert unnamed.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
            named = client.produce_request("t", records).replace(transactional_id="mine")
            answer = (await client.ask(named)).responses[0].partition_responses[0]
            assert answer.error_code == ErrorCode.NOT_ENOUGH_REPLICAS  # there is no coordinator to ask
            plain = client.produce_request("t", batch(b"x")).replace(transactional_id="mine")
            assert (await client.ask(plain)).responses[0].partition_responses[0].error_code == ErrorCode.NONE

    run(test)


def test_internal_topics_are_not_for_clients(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path) as client:
            await client.create("__consumer_offsets")
            answer = await client.produce("__consumer_offsets", batch(b"x"))
            assert answer.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION

    run(test)


def test_a_duplicate_is_answered_with_its_first_offset(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path) as client:
            await client.create("t")
            first = batch(b"a", b"b", producer_id=9, producer_epoch=0, base_sequence=0)
            second = batch(b"c", producer_id=9, producer_epoch=0, base_sequence=2)
            gap = batch(b"e", producer_id=9, producer_epoch=0, base_sequence=9)
            assert (await client.produce("t", first)).base_offset == 0
            assert (await client.produce("t", second)).base_offset == 2
            again = await client.produce("t", first)
            assert (again.error_code, again.base_offset) == (0, 0)
            assert (await client.produce("t", gap)).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
            assert await values(client, "t") == [b"a", b"b", b"c"]

    run(test)


def test_log_append_time_stamps_the_batch_and_tells_the_client(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path) as client:
            await client.create("t", message_timestamp_type="LogAppendTime")
            answer = await client.produce("t", batch(b"a", b"b", timestamp=5))
            assert answer.log_append_time_ms > NOW_MS
            fetched = await client.fetch("t", 0)
            assert {record.timestamp for record in iter_records(fetched.records)} == {answer.log_append_time_ms}

    run(test)


def test_timestamps_out_of_bounds_are_refused_record_by_record(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path) as client:
            await client.create("t", message_timestamp_after_max_ms="1000")
            answer = await client.produce("t", batch(b"a", b"b", timestamp=NOW_MS + 100 * 365 * 86_400_000))
            assert answer.error_code == ErrorCode.INVALID_TIMESTAMP
            assert [each.batch_index for each in answer.record_errors] == [0, 1]
            await client.create("old", message_timestamp_before_max_ms=str(WEEK_MS))
            assert (await client.produce("old", batch(b"a"))).error_code == ErrorCode.INVALID_TIMESTAMP

    run(test)


def test_a_compacted_topic_needs_keys(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path) as client:
            await client.create("t", cleanup_policy="compact")
            answer = await client.produce("t", batch(b"a", b"b"))
            assert answer.error_code == ErrorCode.INVALID_RECORD
            assert len(answer.record_errors) == 2

    run(test)


def test_flush_messages_is_durable_before_the_answer(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path) as client:
            await client.create("t", flush_messages="1")
            for number in range(5):
                client.send(client.produce_request("t", batch(b"%d" % number)), 12)
            offsets = []
            for _ in range(5):
                answer = await client.receive(client.produce_request("t", b""), 12)
                offsets.append(answer.responses[0].partition_responses[0].base_offset)
            assert offsets == [0, 1, 2, 3, 4]
            assert await values(client, "t") == [b"0", b"1", b"2", b"3", b"4"]

    run(test)


@pytest.mark.skipif(build_mode() == "compiled", reason="a compiled buffer cannot be given another method")
def test_a_produce_that_waits_keeps_nothing_of_its_records_in_memory(tmp_path: Path) -> None:
    """They are in the log: eight mebibytes for each connection were kept until followers, or the device, had them."""

    async def test() -> None:
        disk, may_end = HookedDisk(), threading.Event()
        async with running_node(tmp_path, disk=disk) as client:
            await client.create("t", flush_messages="1")
            frames: list[weakref.ref[bytearray]] = []

            def take_large(size: int, *, wanted: int) -> bytearray:
                memory = _Memory(500_000)
                frames.append(weakref.ref(memory))
                return memory

            client.node._listeners._buffer.take_large = take_large  # type: ignore[method-assign]
            client.node._listeners._buffer.give_back = client.node._listeners._buffer.drop  # type: ignore[method-assign]
            disk.hook = lambda call, path: None if call != "fsync" else _wait(may_end)
            try:
                client.send(client.produce_request("t", batch(b"x" * 400_000)), 12)
                await until_async(lambda: len(frames) == 1 and frames[0]() is None)
            finally:
                may_end.set()
            answer = await client.receive(client.produce_request("t", b""), 12)
            assert answer.responses[0].partition_responses[0].error_code == 0

    run(test)


def test_a_refusal_says_what_is_wrong_and_nothing_of_the_brokers_folders(tmp_path: Path) -> None:
    async def test() -> None:
        disk = HookedDisk()
        async with running_node(tmp_path, disk=disk) as client:
            await client.create("t", max_message_bytes="1000")
            large = await client.produce("t", batch(b"x" * 2000))
            assert large.error_code == ErrorCode.MESSAGE_TOO_LARGE
            assert "t-0" in large.error_message and "1000" in large.error_message
            client.topic_ids["unknown"] = bytes(range(16))
            unknown = await client.produce("unknown", batch(b"x"))
            assert (unknown.error_code, unknown.error_message) == (ErrorCode.UNKNOWN_TOPIC_ID, None)

            def hook(call: str, path: str) -> None:
                if call == "pwrite" and "/t-0/" in path:
                    raise full(path)

            disk.hook = hook
            refused = await client.produce("t", batch(b"x"))
            assert refused.error_code == ErrorCode.KAFKA_STORAGE_ERROR
            assert refused.error_message == "Partition t-0: No space left on device"

    run(test)


class _Memory(bytearray):
    """Of which one can tell whether somebody keeps it."""


def _wait(event: threading.Event) -> None:
    assert event.wait(20)


@pytest.mark.parametrize("compression", ["producer", "zstd"])
def test_of_a_partition_named_twice_the_sound_batch_is_stored(tmp_path: Path, compression: str) -> None:
    async def test() -> None:
        async with running_node(tmp_path) as client:
            await client.create("t", compression_type=compression)
            bad = bytearray(batch(b"bad"))
            bad[-1] ^= 1
            one = client.produce_request("t", bytes(bad))
            topic = one.topic_data[0]
            [data] = topic.partition_data
            sound = data.replace(records=batch(b"sound"))
            for both, at in (([data, sound], 1), ([sound, data], 0)):
                twice = one.replace(topic_data=[topic.replace(partition_data=both)])
                answers = (await client.ask(twice, 12)).responses[0].partition_responses
                assert answers[at].error_code == 0
                assert answers[1 - at].error_code == ErrorCode.CORRUPT_MESSAGE
            assert await values(client, "t") == [b"sound", b"sound"]

    run(test)
