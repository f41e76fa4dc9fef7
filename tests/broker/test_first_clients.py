"""Clients come in when the broker is one that they can be told of: those of a port that is known earlier are refused."""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import SystemRandom
from typing import Any

import pytest

from ottla.broker import Node, SystemClock, ThreadsAndProcess
from ottla.config import BrokerConfig
from ottla.log import OsDisk
from ottla.net import Server, TcpNetwork
from ottla.wire.messages.metadata import MetadataRequest
from tests.broker.node_client import NodeClient, run
from tests.ports import free_port


class Watched:
    """A listening address; notes who was served when it began to accept."""

    def __init__(self, network: WatchedNetwork, server: Server) -> None:
        self._network, self._server = network, server
        self.host, self.port = server.host, server.port

    async def accept(self) -> None:
        network = self._network
        network.was_refused = await is_refused(self.port)
        image = network.node.quorum.image
        network.had_brokers = [node_id for node_id, each in image.brokers.items() if each.active]
        await self._server.accept()

    async def close(self) -> None:
        await self._server.close()


class WatchedNetwork(TcpNetwork):
    """The machine's own network, which looks at each address before clients come in."""

    node: Node
    was_refused = False
    had_brokers: list[int] | None = None

    async def listen(self, host: str, port: int, protocol_factory: Any, **options: Any) -> Server:
        return Watched(self, await super().listen(host, port, protocol_factory, **options))


async def is_refused(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except ConnectionRefusedError:
        return True
    writer.close()
    return False


def a_node(folder: Path, network: TcpNetwork, *settings: str) -> Node:
    config = BrokerConfig.load(overrides=[f"log.dirs={folder}", *settings], environment={})
    return Node(config, OsDisk(), network, SystemClock(), SystemRandom(), ThreadsAndProcess())


@pytest.mark.parametrize(
    "settings", [(), ("authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",)]
)
def test_clients_are_refused_until_the_broker_is_registered_and_unfenced(
    tmp_path: Path, settings: tuple[str, ...]
) -> None:
    async def test() -> None:
        network = WatchedNetwork()
        node = network.node = a_node(tmp_path, network, "listeners=PLAINTEXT://127.0.0.1:0", *settings)
        await node.start()
        try:
            assert network.was_refused
            assert network.had_brokers == [node.config.node_id]
            assert not await is_refused(node.listeners[0].port)
        finally:
            await node.stop()

    run(test)


def test_the_first_metadata_that_a_client_gets_has_the_broker(tmp_path: Path) -> None:
    async def test() -> None:
        port = free_port()
        node = a_node(tmp_path, TcpNetwork(), f"listeners=PLAINTEXT://127.0.0.1:{port}")
        starting = asyncio.create_task(node.start())
        try:
            while await is_refused(port):
                pass
            client = NodeClient(node, *await asyncio.open_connection("127.0.0.1", port))
            answer = await client.ask(MetadataRequest(topics=[]))
            assert [(each.node_id, each.port) for each in answer.brokers] == [(node.config.node_id, port)]
            client.close()
        finally:
            await starting
            await node.stop()

    run(test)
