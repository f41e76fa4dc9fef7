"""A broker's life told to the controllers of Apache Kafka and to a node of ours, answer by answer."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from ottla.base import Uuid
from ottla.client import Address, Connection
from ottla.metadata import SUPPORTED_FEATURES
from ottla.net import TcpNetwork
from ottla.wire import Message
from ottla.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from ottla.wire.messages.broker_registration import BrokerRegistrationRequest, Feature, Listener
from ottla.wire.messages.describe_cluster import DescribeClusterRequest
from ottla.wire.messages.unregister_broker import UnregisterBrokerRequest
from tests import peer
from tests.broker.node_client import run, start_node
from tests.ports import free_port

# Kafka's broker starts beside ours, and only a change of these APIs breaks it: with `make compat`.
pytestmark = [pytest.mark.peer, pytest.mark.slow]

BROKER = 77
FAR = 1 << 40
"""An offset of the metadata that no test reaches."""


def registration(cluster_id: str, incarnation: int, **fields: Any) -> BrokerRegistrationRequest:
    made = BrokerRegistrationRequest(
        broker_id=BROKER,
        cluster_id=cluster_id,
        incarnation_id=Uuid(bytes(15) + bytes([incarnation])),
        listeners=[Listener(name="PLAINTEXT", host="127.0.0.1", port=1, security_protocol=0)],
        features=[
            Feature(name=name, min_supported_version=low, max_supported_version=high)
            for name, (low, high) in sorted(SUPPORTED_FEATURES.items())
        ],
        rack=None,
        log_dirs=[Uuid(b"one log directory"[:16])],
    )
    return made.replace(**fields)


async def story(connection: Connection) -> AsyncIterator[tuple[str, Any]]:
    """Yield what the controller answers to each step of a broker's life."""

    async def ask(message: Message) -> Any:
        assert message.API_KEY is not None
        return await connection.request(message, connection.version_for(message.API_KEY), timeout_s=20)

    def codes(answer: Any) -> tuple[Any, ...]:
        names = ("error_code", "is_caught_up", "is_fenced", "should_shut_down")
        return tuple(getattr(answer, name) for name in names if hasattr(answer, name))

    async def beat(epoch: int, offset: int = FAR, **fields: Any) -> tuple[Any, ...]:
        message = BrokerHeartbeatRequest(
            broker_id=BROKER,
            broker_epoch=epoch,
            current_metadata_offset=offset,
            want_fence=False,
            want_shut_down=False,
        )
        return codes(await ask(message.replace(**fields)))

    cluster_id = (await ask(DescribeClusterRequest(endpoint_type=2))).cluster_id
    yield "another cluster", codes(await ask(registration("another", 1)))
    yield "not registered", await beat(5)
    yield "no directory", codes(await ask(registration(cluster_id, 1, log_dirs=[])))
    yield "a reserved directory", codes(await ask(registration(cluster_id, 1, log_dirs=[Uuid(bytes(15) + b"\x05")])))
    yield (
        "one directory twice",
        codes(await ask(registration(cluster_id, 1, log_dirs=2 * [Uuid(b"one log directory"[:16])]))),
    )
    old = [each for each in registration("", 1).features if each.name != "metadata.version"]
    yield "no metadata.version", codes(await ask(registration(cluster_id, 1, features=old)))
    yield "a broker of old ZooKeeper", codes(await ask(registration(cluster_id, 1, is_migrating_zk_broker=True)))
    first = await ask(registration(cluster_id, 1))
    yield "registered", first.error_code
    epoch = first.broker_epoch
    yield "another epoch", await beat(epoch + 1)
    yield "behind", await beat(epoch, 0)
    yield "behind by one", await beat(epoch, epoch - 1)
    yield "caught up", await beat(epoch, epoch + 1)
    # not before: who registers again has to catch up with that, and Kafka writes records between of its own, by time
    yield "the same again", (await ask(registration(cluster_id, 1))).broker_epoch == first.broker_epoch
    yield "still", await beat(epoch)
    yield "another incarnation", codes(await ask(registration(cluster_id, 2)))
    yield "fenced by wish", await beat(epoch, want_fence=True)
    yield "served again", await beat(epoch)
    yield "a directory fails", await beat(epoch, offline_log_dirs=[Uuid(b"no log directory"[:16])])
    yield "leaves", await beat(epoch, want_shut_down=True)
    yield "has left", await beat(epoch, want_shut_down=True)
    yield "comes back", await beat(epoch)
    yield "unregistered", codes(await ask(UnregisterBrokerRequest(broker_id=BROKER)))
    yield "is gone", await beat(epoch)
    yield "was unregistered", codes(await ask(UnregisterBrokerRequest(broker_id=BROKER)))


async def told(port: int) -> dict[str, Any]:
    connection = await Connection.open(
        TcpNetwork(), Address("127.0.0.1", port), client_id="test", software_version="1", timeout_s=10
    )
    try:
        return {step: answer async for step, answer in story(connection)}
    finally:
        connection.close()


def test_a_brokers_life_is_answered_as_by_kafka(tmp_path: Path) -> None:
    answers: dict[str, dict[str, Any]] = {}
    controller, kafka = free_port(), free_port()

    async def ours() -> None:
        listeners = f"PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:{controller}"
        node = await start_node(
            tmp_path / "ours",
            f"listeners={listeners}",
            "process.roles=broker,controller",
            "node.id=1",
            "controller.listener.names=CONTROLLER",
            "listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        )
        try:
            answers["ours"] = await told(controller)
        finally:
            await node.stop()

    async def theirs() -> None:
        answers["theirs"] = await told(kafka + peer.CONTROLLER_PORT_AFTER)

    run(ours)
    with peer.running_broker(tmp_path / "theirs", kafka):
        run(theirs)
    assert answers["ours"] == answers["theirs"]
