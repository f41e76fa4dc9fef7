"""What a failure of the disk, a bad record or damaged bytes cost: no more than they have to (broker.replicas.failures)."""

from __future__ import annotations

import asyncio
import logging
import struct
import threading
from collections.abc import Callable
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest

from ottla.base import ErrorCode, MissingFileError, StorageError
from ottla.broker import Node
from ottla.broker.replicas import housekeeping
from ottla.broker.replicas.local_partition import LocalPartition
from ottla.log import LogDir
from ottla.wire import Record, build_batch, crc32c, iter_records
from ottla.wire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from ottla.wire.messages.describe_log_dirs import DescribeLogDirsRequest
from ottla.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from tests.broker.hooked_disk import HookedDisk, broken, full, gone
from tests.broker.node_client import NOW_MS, NodeClient, batch, delete_topic, parts, run, running_node, start_node
from tests.broker.test_log_dir_moves import dirs, move
from tests.waiting import until_async

CRC_AT, ATTRIBUTES_AT = 17, 21
MAX_TIMESTAMP = -3
SMALL = {"segment_bytes": str(1 << 20), "index_interval_bytes": "100000000"}
VALUE = b"v" * 600_000
"""One batch of it fills a segment."""


def held(client: NodeClient, topic: str = "t") -> LocalPartition:
    found = parts(client.node).partitions.get(topic, 0)
    assert found is not None
    return found


def serves(node: Node) -> bool:
    assert node.failed is not None
    return not node.failed.done() and not parts(node).storage.offline


def with_header_key(key: bytes) -> bytes:
    """Return a batch of one record whose header key is not text."""
    placeholder = "~" * len(key)
    made = build_batch([Record(timestamp=NOW_MS, value=b"v", headers=((placeholder, b"h"),))])  # type: ignore[arg-type]
    data = bytearray(made).replace(placeholder.encode(), key)
    struct.pack_into(">I", data, CRC_AT, crc32c(bytes(data[ATTRIBUTES_AT:])))
    return bytes(data)


def garbage() -> bytes:
    """Return a batch whose header and checksum are right and whose records are none."""
    data = bytearray(batch(b"x" * 100))
    data[61:] = b"\xff" * (len(data) - 61)
    struct.pack_into(">I", data, CRC_AT, crc32c(bytes(data[ATTRIBUTES_AT:])))
    return bytes(data)


async def look_up(client: NodeClient, timestamp: int, topic: str = "t") -> tuple[ErrorCode, int]:
    answer = await client.ask(list_offsets(timestamp, topic))
    found = answer.topics[0].partitions[0]
    return ErrorCode(found.error_code), found.offset


def list_offsets(timestamp: int, topic: str = "t") -> ListOffsetsRequest:
    partition = ListOffsetsPartition(partition_index=0, current_leader_epoch=-1, timestamp=timestamp)
    return ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=[partition])])


async def delete_records(client: NodeClient, offset: int) -> ErrorCode:
    topic = DeleteRecordsTopic(name="t", partitions=[DeleteRecordsPartition(partition_index=0, offset=offset)])
    answer = await client.ask(DeleteRecordsRequest(topics=[topic], timeout_ms=10_000))
    return ErrorCode(answer.topics[0].partitions[0].error_code)


async def fetched(client: NodeClient, offset: int, topic: str = "t") -> tuple[ErrorCode, list[bytes | None]]:
    answer = await client.fetch(topic, offset)
    return ErrorCode(answer.error_code), [each.value for each in iter_records(answer.records or b"")]


async def lags(client: NodeClient) -> dict[str, int]:
    answer = await client.ask(DescribeLogDirsRequest(topics=None))
    return {
        topic.name: each.offset_lag for result in answer.results for topic in result.topics for each in topic.partitions
    }


class Gate:
    """Holds calls on threads back until it is opened."""

    def __init__(self, is_held: Callable[[str, str], bool]) -> None:
        self.is_held = is_held
        self.reached = threading.Event()
        self.open = threading.Event()

    def __call__(self, call: str, path: str) -> None:
        if self.is_held(call, path) and threading.current_thread() is not threading.main_thread():
            self.reached.set()
            assert self.open.wait(20)

    async def wait(self) -> None:
        await until_async(self.reached.is_set)


# -- a record


@pytest.mark.parametrize("key", [b"\xff\xfe", b"\xed\xa0\x80", b"\xc3"])
def test_a_header_key_that_is_no_text_costs_nobody_anything(tmp_path: Path, key: bytes) -> None:
    async def test() -> None:
        async with running_node(tmp_path) as client:
            await client.create("t")
            for records in (batch(b"before", timestamp=NOW_MS - 5), with_header_key(key), batch(b"after")):
                assert (await client.produce("t", records)).error_code == 0
            assert await look_up(client, NOW_MS) == (ErrorCode.NONE, 1)
            assert await look_up(client, MAX_TIMESTAMP) == (ErrorCode.NONE, 1)
            answer = await client.fetch("t", 0)
            assert [each.headers[0][0] for each in iter_records(answer.records) if each.headers] == [
                "\ufffd" * _count(key)
            ]
            assert serves(client.node)

    run(test)


def _count(key: bytes) -> int:
    return 1 if key[0] != 0xFF else 2


def test_a_stored_batch_of_garbage_fails_its_look_up_and_nothing_else(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path) as client:
            await client.create("t")
            await client.produce("t", batch(b"sound", timestamp=NOW_MS - 5))
            held(client).log.append(bytearray(garbage()), now_ms=NOW_MS)  # as an older version has let it in
            held(client).replica.appended(held(client).log.log_end_offset)
            code, _ = await look_up(client, NOW_MS)
            assert code is ErrorCode.INVALID_RECORD
            assert await look_up(client, NOW_MS - 5) == (ErrorCode.NONE, 0)
            assert serves(client.node) and held(client).damage is None

    run(test)


def test_a_batch_of_garbage_with_a_right_checksum_is_refused(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path) as client:
            await client.create("t")
            assert (await client.produce("t", garbage())).error_code == ErrorCode.INVALID_RECORD
            assert held(client).log.log_end_offset == 0

    run(test)


# -- a partition


async def filled(client: NodeClient) -> None:
    """Make a topic of three sealed segments and an active one, and another topic."""
    await client.create("t", **SMALL)
    await client.create("u")
    for at in range(4):
        assert (await client.produce("t", batch(VALUE, timestamp=NOW_MS + at))).error_code == 0
    await client.produce("u", batch(b"u"))
    assert held(client).log.segment_count == 4


def damage(folder: Path) -> None:
    """Let the header of the second segment's batch rot."""
    path = sorted(folder.glob("t-0/*.log"))[1]
    data = bytearray(path.read_bytes())
    data[8:12] = b"\xff\xff\xff\xf0"
    path.write_bytes(data)


async def _check_damage(client: NodeClient) -> None:
    assert await fetched(client, 1) == (ErrorCode.CORRUPT_MESSAGE, [])
    assert await fetched(client, 0) == (ErrorCode.NONE, [VALUE])
    assert await fetched(client, 3) == (ErrorCode.NONE, [VALUE])
    assert await fetched(client, 0, "u") == (ErrorCode.NONE, [b"u"])
    assert (await client.produce("u", batch(b"more"))).error_code == 0
    assert (await lags(client))["t"] == -1 and (await lags(client))["u"] == 0
    assert serves(client.node) and not held(client).is_offline


def test_a_damaged_batch_header_costs_the_reads_that_meet_it(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path) as client:
            await filled(client)
            damage(tmp_path)
            await _check_damage(client)
            assert (await look_up(client, NOW_MS + 1))[0] in (ErrorCode.CORRUPT_MESSAGE, ErrorCode.NONE)
            assert (await client.produce("t", batch(b"goes on"))).error_code == 0
            assert serves(client.node)
        async with running_node(tmp_path) as client:  # after a clean end nothing is scanned
            assert await fetched(client, 1) == (ErrorCode.CORRUPT_MESSAGE, [])
            assert await fetched(client, 2) == (ErrorCode.NONE, [VALUE])
            assert (await look_up(client, NOW_MS + 1))[0] in (ErrorCode.CORRUPT_MESSAGE, ErrorCode.NONE)
            assert serves(client.node)

    run(test)


def test_a_start_goes_on_without_a_partition_that_cannot_be_opened(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path) as client:
            await filled(client)
            held(client).log.flush()
            await client.node.housekeeping.store_recovery_points()
        (tmp_path / ".kafka_cleanshutdown").unlink()
        last = sorted(tmp_path.glob("t-0/*.log"))[-1]
        last.write_bytes(b"rot" * 100 + last.read_bytes()[300:])
        async with running_node(tmp_path) as client:
            assert (await fetched(client, 0))[0] is ErrorCode.KAFKA_STORAGE_ERROR
            assert await fetched(client, 0, "u") == (ErrorCode.NONE, [b"u"])
            assert (await lags(client)) == {"t": -1, "u": 0} and serves(client.node)
            await delete_topic(client)
            await client.create("t")
            assert (await client.produce("t", batch(b"anew"))).error_code == 0

    run(test)


def test_a_file_that_vanished_costs_its_partition(tmp_path: Path) -> None:
    async def test() -> None:
        disk = HookedDisk()
        async with running_node(tmp_path, disk=disk) as client:
            await filled(client)
            lost = sorted(tmp_path.glob("t-0/*.log"))[1]
            lost.unlink()

            def missing(call: str, path: str) -> None:
                if call == "pread" and path == str(lost):  # its descriptor was closed meanwhile
                    raise gone(path)

            disk.hook = missing
            assert (await fetched(client, 1))[0] is ErrorCode.KAFKA_STORAGE_ERROR
            assert held(client).is_offline and isinstance(held(client).damage, MissingFileError)
            assert (await client.produce("t", batch(b"no"))).error_code == ErrorCode.KAFKA_STORAGE_ERROR
            assert await fetched(client, 0, "u") == (ErrorCode.NONE, [b"u"])
            assert (await lags(client)) == {"t": -1, "u": 0} and serves(client.node)
            await delete_topic(client)
            assert serves(client.node)

    run(test)


# -- a partition that is dropped while a thread works for it


def test_a_topic_may_be_deleted_and_made_again_while_it_is_flushed(tmp_path: Path) -> None:
    async def test() -> None:
        disk = HookedDisk()
        async with running_node(tmp_path, disk=disk) as client:
            await client.create("t", flush_messages="1")
            gate = Gate(lambda call, path: call == "fsync" and "/t-0" in path)
            disk.hook = gate
            second = await NodeClient.connect(client.node)
            await client.topic_id("t")
            client.send(client.produce_request("t", batch(b"one")), 13)
            await gate.wait()
            await delete_topic(second)
            await second.create("t")
            assert (tmp_path / "t-0").exists(), "the folder was renamed under the thread that uses it"
            assert (await second.produce("t", batch(b"two"))).error_code == ErrorCode.KAFKA_STORAGE_ERROR
            gate.open.set()
            answer = await client.receive(client.produce_request("t", None), 13)
            assert answer.responses[0].partition_responses[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR
            await until_async(lambda: parts(client.node).partitions.get("t", 0) is not None)
            assert (await second.produce("t", batch(b"two"))).error_code == 0
            assert await fetched(second, 0) == (ErrorCode.NONE, [b"two"])
            assert serves(client.node)
            second.close()

    run(test)


@pytest.mark.parametrize("error", [gone, broken])
def test_what_fails_for_a_topic_that_was_deleted_meanwhile_fails_nothing(
    tmp_path: Path, error: Callable[[str], StorageError]
) -> None:
    async def test() -> None:
        disk = HookedDisk()
        async with running_node(tmp_path, disk=disk) as client:
            await filled(client)
            gate = Gate(lambda call, path: call == "pread" and "/t-0" in path)

            def fail(call: str, path: str) -> None:
                gate(call, path)
                if call == "pread" and "/t-0" in path and gate.reached.is_set():
                    raise error(path)

            disk.hook = fail
            second = await NodeClient.connect(client.node)
            client.send(list_offsets(NOW_MS + 1), 11)
            await gate.wait()
            await delete_topic(second)
            gate.open.set()
            answer = await client.receive(list_offsets(0), 11)
            assert answer.topics[0].partitions[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR
            assert serves(client.node)
            await until_async(lambda: not (tmp_path / "t-0").exists())
            second.close()

    run(test)


# -- a directory


def test_a_move_off_a_failing_disk_fails_that_disk_and_not_its_target(tmp_path: Path) -> None:
    async def test() -> None:
        disk = HookedDisk()
        node = await start_node(tmp_path / "a", dirs(tmp_path), disk=disk)
        try:
            client = await NodeClient.connect(node)
            for topic in ("t", "u"):  # one in each directory
                await client.create(topic)
                assert (await client.produce(topic, batch(b"x" * 100))).error_code == 0
            source = held(client).log_dir.path
            (target,) = {str(tmp_path / "a"), str(tmp_path / "b")} - {source}
            topic = "u" if source == str(tmp_path / "a") else "t"  # that with the metadata log has to stay
            topic, source, target = ("t", source, target) if source != str(tmp_path / "a") else ("u", target, source)
            assert held(client, topic).log_dir.path == source

            def fail(call: str, path: str) -> None:
                if call == "pread" and path.startswith(source):
                    raise broken(path)

            disk.hook = fail
            assert await move(client, target, topic) == 0
            await until_async(lambda: bool(parts(node).storage.offline))
            assert list(parts(node).storage.offline) == [source]
            assert node.failed is not None and not node.failed.done()
            disk.hook = lambda call, path: None
            await until_async(lambda: not len(parts(node).moves))
            other = "t" if topic == "u" else "u"
            assert await fetched(client, 0, other) == (ErrorCode.NONE, [b"x" * 100])
            client.close()
        finally:
            await node.stop()

    run(test)


def test_a_directory_that_vanished_has_failed(tmp_path: Path) -> None:
    async def test() -> None:
        disk = HookedDisk()
        node = await start_node(tmp_path / "a", dirs(tmp_path), disk=disk)
        try:
            client = await NodeClient.connect(node)
            for topic in ("t", "u"):
                await client.create(topic)
                assert (await client.produce(topic, batch(b"x"))).error_code == 0
            topic = next(each for each in "tu" if held(client, each).log_dir.path == str(tmp_path / "b"))

            def unmounted(call: str, path: str) -> None:
                if call == "pwrite" and path.startswith(str(tmp_path / "b")):
                    raise gone(path)

            (tmp_path / "b" / "meta.properties").unlink()
            disk.hook = unmounted
            assert (await client.produce(topic, batch(b"y"))).error_code == ErrorCode.KAFKA_STORAGE_ERROR
            assert list(parts(node).storage.offline) == [str(tmp_path / "b")]
            client.close()
        finally:
            await node.stop()

    run(test)


def test_an_older_copy_does_not_stand_in_for_a_log_whose_directory_is_offline(tmp_path: Path) -> None:
    """As a move leaves it whose old folder could not be removed: what it lacks was acknowledged."""
    metadata, old, new = tmp_path / "m", tmp_path / "a", tmp_path / "b"
    settings = (f"log.dirs={old},{new}", f"metadata.log.dir={metadata}")

    async def test() -> None:
        async with running_node(old, *settings) as client:
            await client.create("t")
            assert (await client.produce("t", batch(b"old"))).error_code == 0
            place = Path(held(client).log_dir.path)
        copytree(place / "t-0", tmp_path / "copy")
        async with running_node(old, *settings) as client:
            assert (await client.produce("t", batch(b"new"))).error_code == 0
        (other,) = {old, new} - {place}
        copytree(tmp_path / "copy", other / "t-0")
        place.rename(tmp_path / "away")
        place.touch()  # no directory any more: it fails
        async with running_node(old, *settings) as client:
            code, values = await fetched(client, 0)
            assert (code, values) == (ErrorCode.KAFKA_STORAGE_ERROR, [])
        place.unlink()
        (tmp_path / "away").rename(place)
        async with running_node(old, *settings) as client:
            assert await fetched(client, 0) == (ErrorCode.NONE, [b"old", b"new"])

    run(test)


def test_a_failed_metadata_log_leaves_no_mark_of_a_clean_end(tmp_path: Path) -> None:
    async def test() -> None:
        disk = HookedDisk()
        node = await start_node(tmp_path, disk=disk)
        try:
            client = await NodeClient.connect(node)

            def fail(call: str, path: str) -> None:
                if call == "fsync" and "__cluster_metadata" in path:
                    raise broken(path)

            disk.hook = fail
            with pytest.raises(AssertionError):
                await client.create("t")
            assert node.failed is not None and node.failed.done()
            disk.hook = lambda call, path: None
            client.close()
        finally:
            await node.stop()
        assert not (tmp_path / ".kafka_cleanshutdown").exists()

    run(test)


# -- an answer


def test_a_deletion_of_records_on_a_full_disk_happens_whole_or_not_at_all(tmp_path: Path) -> None:
    async def test() -> None:
        disk = HookedDisk()
        async with running_node(tmp_path, disk=disk) as client:
            await filled(client)

            def fail(call: str, path: str) -> None:
                if call == "rename" and "/t-0" in path:
                    raise full(path)

            disk.hook = fail
            refused = await delete_records(client, 2)
            assert serves(client.node)
            start = 2 if refused is ErrorCode.NONE else 0
            assert await look_up(client, -2) == (ErrorCode.NONE, start), "it has happened whole, or not at all"
            disk.hook = lambda call, path: None
            assert await delete_records(client, 2) is ErrorCode.NONE
            assert await look_up(client, -2) == (ErrorCode.NONE, 2)
            assert serves(client.node)

    run(test)


def test_a_deleted_topic_goes_when_there_is_room_for_another_name(tmp_path: Path) -> None:
    async def test() -> None:
        disk = HookedDisk()
        async with running_node(tmp_path, disk=disk) as client:
            await filled(client)

            def fail(call: str, path: str) -> None:
                if call == "rename" and path.endswith("/t-0"):
                    raise full(path)

            disk.hook = fail
            await delete_topic(client)
            assert serves(client.node) and (tmp_path / "t-0").exists()
            await client.node.housekeeping.delete()
            assert serves(client.node) and (tmp_path / "t-0").exists()
            disk.hook = lambda call, path: None
            await client.node.housekeeping.delete()
            assert serves(client.node) and not (tmp_path / "t-0").exists()
            await client.create("t")
            assert (await client.produce("t", batch(b"anew"))).error_code == 0

    run(test)


def test_a_partition_that_found_no_room_is_opened_when_there_is_some(tmp_path: Path) -> None:
    async def test() -> None:
        disk = HookedDisk()
        async with running_node(tmp_path, disk=disk) as client:

            def fail(call: str, path: str) -> None:
                if call in ("create", "mkdir") and "/t-0" in path:
                    raise full(path)

            disk.hook = fail
            await client.create("t")
            assert (await client.produce("t", batch(b"no"))).error_code == ErrorCode.KAFKA_STORAGE_ERROR
            disk.hook = lambda call, path: None
            parts(client.node).partitions.try_again()
            assert (await client.produce("t", batch(b"yes"))).error_code == 0
            assert serves(client.node)

    run(test)


# -- our own mistakes


def test_housekeeping_goes_on_after_any_exception(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        async with running_node(tmp_path) as client:
            await client.create("t")
            housekeeping = client.node.housekeeping
            done = asyncio.Event()
            calls = 0

            async def fail() -> None:
                nonlocal calls
                calls += 1
                if calls == 1:
                    raise RuntimeError("dictionary changed size during iteration")
                done.set()

            duty = housekeeping._duties[-1]
            duty.work, duty.due_s = fail, 0.0
            housekeeping._task.cancel()  # type: ignore[union-attr]
            housekeeping._task = asyncio.get_running_loop().create_task(housekeeping._run())
            duty.interval_ms = lambda settings: 1
            await asyncio.wait_for(done.wait(), 100)
            assert not housekeeping._task.done()

    with caplog.at_level(logging.ERROR):
        run(test)
    assert any("Housekeeping has failed" in each.message for each in caplog.records)


def test_one_log_whose_retention_fails_keeps_no_other_from_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test() -> None:
        async with running_node(tmp_path) as client:
            await filled(client)
            seen: list[str] = []
            real: Any = LocalPartition.housekeep

            def housekeep(self: LocalPartition, now_ms: Any) -> list[str]:
                seen.append(self.key.topic)
                if self.key.topic == "t":
                    raise KeyError("a mistake")
                return real(self, now_ms)  # type: ignore[no-any-return]

            monkeypatch.setattr(LocalPartition, "housekeep", housekeep)
            await client.node.housekeeping.retain()
            assert seen == ["t", "u"]

    run(test)


def test_watermarks_are_gathered_between_requests_those_of_offline_partitions_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten thousand of them held the loop for a tenth of a second, every five."""
    turns, at_the_write = 0, 0
    real = LogDir.write_high_watermarks

    def write(self: LogDir, found: Any) -> None:
        nonlocal at_the_write
        at_the_write = turns
        real(self, found)

    async def test() -> None:
        nonlocal turns
        async with running_node(tmp_path) as client:
            await filled(client)
            partitions = len([held(client), held(client, "u")])

            async def others() -> None:
                nonlocal turns
                while True:
                    turns += 1
                    await asyncio.sleep(0)

            with monkeypatch.context() as patched:
                patched.setattr(housekeeping, "SLICE_S", -1.0)
                patched.setattr(LocalPartition, "is_offline", True)
                patched.setattr(LogDir, "write_high_watermarks", write)
                task = asyncio.create_task(others())
                await client.node.housekeeping.store_high_watermarks()
                task.cancel()
            assert at_the_write >= partitions > 1
            kept = (tmp_path / "replication-offset-checkpoint").read_text().splitlines()
            assert {f"t 0 {held(client).replica.high_watermark}", "u 0 1"} <= set(kept)

    run(test)


def test_a_disk_that_fails_under_a_copy_to_a_socket_costs_its_directory(tmp_path: Path) -> None:
    """The system reads the file itself then, and its error was taken for the client's connection."""

    async def test() -> None:
        disk = HookedDisk()
        first, second = str(tmp_path / "one"), str(tmp_path / "two")
        async with running_node(tmp_path, f"log.dirs={first},{second}", disk=disk) as client:
            for topic in ("t", "u"):  # one in each directory
                await client.create(topic)
                assert (await client.produce(topic, batch(VALUE))).error_code == 0
            topic = "t" if held(client).log_dir.path == second else "u"  # the other is where the metadata log is

            def fails(call: str, path: str) -> None:
                if call == "sendfile":
                    raise broken(path)

            disk.hook = fails
            with pytest.raises((asyncio.IncompleteReadError, ConnectionResetError)):
                await client.fetch(topic, 0)
            assert list(parts(client.node).storage.offline) == [second] and held(client, topic).is_offline
            other = await NodeClient.connect(client.node)
            disk.hook = lambda call, path: None
            assert (await other.produce(topic, batch(b"no"), version=12)).error_code == ErrorCode.KAFKA_STORAGE_ERROR
            other.close()

    run(test)
