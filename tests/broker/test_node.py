"""A whole node: what it advertises, what survives a restart, and whose folders it takes."""

from __future__ import annotations

import asyncio
import struct
from pathlib import Path

import pytest

from ottla.base import ConfigError, ErrorCode
from ottla.broker import SystemClock
from ottla.log import LogDirLockedError
from ottla.wire import APIS, decode, iter_records
from ottla.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tests.broker.node_client import NodeClient, batch, run, running_node, start_node


@pytest.mark.parametrize("version", range(5))
def test_what_is_advertised_is_what_is_served(tmp_path: Path, version: int) -> None:
    async def test() -> None:
        async with running_node(tmp_path) as client:
            answer = await client.ask(
                ApiVersionsRequest(client_software_name="ottla-test", client_software_version="1.0"), version
            )
            assert answer.error_code == 0
            served = {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}
            assert served.pop(0) == (0, 13)  # of which 0 to 2 are refused, as by Kafka
            for key, (lowest, highest) in served.items():
                assert APIS[key].min_version <= lowest <= highest <= APIS[key].max_version
            assert {1, 2, 3, 18, 19, 20, 21, 22, 23} <= served.keys()
            assert served[1] == (4, 18)
            assert "broker" in APIS[min(served)].listeners
            if version >= 3:
                assert {each.name for each in answer.finalized_features} >= {"metadata.version"}

    run(test)


def test_an_unknown_version_of_api_versions_is_answered_in_version_0(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path) as client:
            frame = struct.pack(">hhih", 18, 77, 5, -1) + b"\x00"
            client.writer.write(struct.pack(">i", len(frame)) + frame)
            found = await client.frame()
            message, _ = decode(ApiVersionsResponse, found[4:], 0)
            assert message.error_code == ErrorCode.UNSUPPORTED_VERSION
            assert [each.api_key for each in message.api_keys] == [18]

    run(test)


def test_software_names_are_checked(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path) as client:
            answer = await client.ask(
                ApiVersionsRequest(client_software_name="no spaces", client_software_version="1"), 3
            )
            assert answer.error_code == ErrorCode.INVALID_REQUEST

    run(test)


def test_records_topics_and_ids_survive_a_restart(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path) as client:
            await client.create("t", partitions=2)
            topic_id = await client.topic_id("t")
            await client.produce("t", batch(b"a", b"b"))
            await client.produce("t", batch(b"c"), index=1)
        async with running_node(tmp_path) as client:
            assert await client.topic_id("t") == topic_id
            answer = await client.fetch("t", 0)
            assert [each.value for each in iter_records(answer.records)] == [b"a", b"b"]
            assert answer.high_watermark == 2
            assert (await client.produce("t", batch(b"d"))).base_offset == 2

    run(test)


def test_a_producer_is_remembered_over_a_restart(tmp_path: Path) -> None:
    async def test() -> None:
        now_ms = SystemClock().now_ms()  # a producer whose last records are a day old is forgotten, by their timestamps
        sent = batch(b"a", b"b", timestamp=now_ms, producer_id=9, producer_epoch=0, base_sequence=0)
        async with running_node(tmp_path) as client:
            await client.create("t")
            await client.produce("t", sent)
        async with running_node(tmp_path) as client:
            again = await client.produce("t", sent)
            assert (again.error_code, again.base_offset) == (0, 0)
            following = batch(b"c", producer_id=9, producer_epoch=0, base_sequence=2)
            assert (await client.produce("t", following)).base_offset == 2

    run(test)


def test_a_folder_in_use_is_refused(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path):
            with pytest.raises(LogDirLockedError):
                await start_node(tmp_path)
        async with running_node(tmp_path):
            pass

    run(test)


def test_a_folder_of_another_node_is_refused(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path):
            pass
        with pytest.raises(ConfigError):
            await start_node(tmp_path, "node.id=7", "broker.id=7")

    run(test)


def test_a_taken_port_frees_the_folder(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path / "one") as client:
            port = client.node.listeners[0].port
            with pytest.raises(OSError):
                await start_node(tmp_path / "two", f"listeners=PLAINTEXT://127.0.0.1:{port}")
            async with running_node(tmp_path / "two"):
                pass

    run(test)


def test_partitions_go_where_the_fewest_are(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path, f"log.dirs={tmp_path / 'a'},{tmp_path / 'b'}") as client:
            await client.create("t", partitions=6)
            await client.produce("t", batch(b"x"), index=5)
        for folder in ("a", "b"):
            assert len(list((tmp_path / folder).glob("t-*"))) == 3

    run(test)


def test_live_configuration_reaches_the_log(tmp_path: Path) -> None:
    from ottla.wire.messages.incremental_alter_configs import (
        AlterableConfig,
        AlterConfigsResource,
        IncrementalAlterConfigsRequest,
    )

    async def test() -> None:
        async with running_node(tmp_path) as client:
            await client.create("t")
            assert (await client.produce("t", batch(b"x" * 500))).error_code == 0
            changed = AlterConfigsResource(
                resource_type=2,
                resource_name="t",
                configs=[AlterableConfig(name="max.message.bytes", config_operation=0, value="100")],
            )
            await client.ask(IncrementalAlterConfigsRequest(resources=[changed]))
            assert (await client.produce("t", batch(b"x" * 500))).error_code == ErrorCode.MESSAGE_TOO_LARGE

    run(test)


def test_a_stop_ends_connections_and_leaves_no_task(tmp_path: Path) -> None:
    async def test() -> None:
        before = asyncio.all_tasks()
        node = await start_node(tmp_path)
        client = await NodeClient.connect(node)
        await client.create("t")
        client.send(client.fetch_request("t", 0, max_wait_ms=60_000), 12)
        await asyncio.sleep(0.05)
        await node.stop()
        assert await client.reader.read() == b""
        client.close()
        await asyncio.sleep(0.05)
        assert asyncio.all_tasks() == before

    run(test)
