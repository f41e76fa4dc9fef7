"""The same story of groups told to Apache Kafka and to a node of ours, answer by answer, and what each wrote of it."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from ottla.wire import decode_coordinator_key, decode_coordinator_value, iter_records
from ottla.wire.messages.group_metadata_value import GroupMetadataValue
from tests import peer
from tests.broker.group_script import UUID, Teller, commit_request, fetch_request, join_request, sync_request, tell
from tests.broker.node_client import NodeClient, run, start_node
from tests.ports import free_port

# Kafka's broker starts beside ours, and only a change of these APIs breaks it: with `make compat`.
pytestmark = [pytest.mark.peer, pytest.mark.slow]

TOPIC = "__consumer_offsets"
Told = dict[str, str]


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[tuple[Told, Path], tuple[Told, Path]]]:
    """Return what ours and Kafka have told, and their data folders, when both are stopped."""
    ours, theirs = tmp_path_factory.mktemp("ottla"), tmp_path_factory.mktemp("kafka")
    port = free_port()

    async def story(client: NodeClient, connect: Any) -> Told:
        await client.create("t", 2)
        await client.create("u", 2)
        teller = Teller(client, connect)
        await tell(teller)
        client.close()
        return teller.told

    async def ask_ours() -> Told:
        node = await start_node(ours, "node.id=1", "group.initial.rebalance.delay.ms=0")
        try:
            return await story(await NodeClient.connect(node), lambda: NodeClient.connect(node))
        finally:
            await node.stop()

    async def connect() -> NodeClient:
        return NodeClient(cast(Any, None), *await asyncio.open_connection("127.0.0.1", port))

    async def ask_theirs() -> Told:
        return await story(await connect(), connect)

    with peer.running_broker(theirs, port, heap="400m"):
        kafka = asyncio.run(asyncio.wait_for(ask_theirs(), 100))
    ottla = asyncio.run(asyncio.wait_for(ask_ours(), 100))
    yield (ottla, ours), (kafka, theirs / "data")


def test_answers_are_kafkas(both: tuple[tuple[Told, Path], tuple[Told, Path]]) -> None:
    (ottla, _), (kafka, _) = both
    wrong = [
        f"{name}\n  ours    {ottla[name]}\n  Kafka's {kafka[name]}" for name in ottla if ottla[name] != kafka[name]
    ]
    assert not wrong, f"{len(wrong)} differences\n" + "\n".join(wrong[:80])


def written(folder: Path) -> list[str]:
    """Return every record of the offsets topic in the order of its partitions, without what no two brokers share."""
    found = []
    for path in sorted(folder.glob(f"{TOPIC}-*/*.log"), key=lambda each: int(each.parent.name.rsplit("-", 1)[1])):
        for record in iter_records(path.read_bytes()):
            assert record.key is not None
            key = decode_coordinator_key(TOPIC, record.key)
            assert key is not None
            value = None if record.value is None else decode_coordinator_value(TOPIC, key, record.value)
            if value is not None and isinstance(value[0], GroupMetadataValue):  # Kafka's members are in a hash table
                members = sorted(value[0].members, key=lambda each: each.assignment)
                value = value[0].replace(members=members), value[1]
            text = UUID.sub("UUID", f"{path.parent.name} {key} {value}").replace(repr(bytes(16)), "NO ID")
            text = re.sub(r"topic_id=b(['\"]).*?\1\)", "topic_id=ID)", text)
            found.append(re.sub(r"timestamp=\d+", "timestamp=TIME", text))
    return found


def test_records_are_kafkas(both: tuple[tuple[Told, Path], tuple[Told, Path]]) -> None:
    (_, ottla), (_, kafka) = both
    assert written(ottla) == written(kafka)


def test_what_kafka_has_committed_is_read_from_its_folder(both: tuple[tuple[Told, Path], tuple[Told, Path]]) -> None:
    _, (_, folder) = both

    async def test() -> None:
        node = await start_node(folder, "node.id=1")
        client = await NodeClient.connect(node)
        await Teller(client, lambda: NodeClient.connect(node)).ready("kept")
        answer = await client.ask(fetch_request(9, "kept", topics=None), 9)
        (topic,) = answer.groups[0].topics
        assert [(each.partition_index, each.committed_offset) for each in topic.partitions] == [(0, 77)]
        client.close()
        await node.stop()

    run(test)


def test_kafkas_formatters_read_our_log(tmp_path: Path) -> None:
    def printed(port: int, formatter: str, count: int) -> list[dict[str, Any]]:
        done = peer.tool(
            "console-consumer",
            *("--bootstrap-server", f"127.0.0.1:{port}", "--topic", TOPIC, "--from-beginning"),
            *("--formatter", f"org.apache.kafka.tools.consumer.{formatter}", "--timeout-ms", "10000"),
            *("--max-messages", str(count)),
        )
        return list(map(json.loads, done.stdout.replace('}{"key"', '}\n{"key"').splitlines()))

    async def test() -> None:
        node = await start_node(tmp_path, "group.initial.rebalance.delay.ms=0", "offsets.topic.num.partitions=1")
        client = await NodeClient.connect(node)
        await client.create("t", 2)
        await Teller(client, lambda: NodeClient.connect(node)).ready("g")
        member = (await client.ask(join_request(), 9)).member_id
        await client.ask(join_request(member_id=member), 9)
        await client.ask(sync_request(member, 1, member), 5)
        await client.ask(commit_request(5, group_id="g", member_id=member, generation=1), 9)
        port = node.listeners[0].port
        (offset,) = await asyncio.to_thread(printed, port, "OffsetsMessageFormatter", 3)
        assert offset["key"]["data"] == {"group": "g", "topic": "t", "partition": 0}
        assert (offset["value"]["data"]["offset"], offset["value"]["data"]["metadata"]) == (5, "m")
        groups = await asyncio.to_thread(printed, port, "GroupMetadataMessageFormatter", 3)
        assert [each["value"]["data"]["generation"] for each in groups] == [0, 1]
        assert groups[1]["value"]["data"]["members"][0]["memberId"] == member
        client.close()
        await node.stop()

    run(test)
