"""What Apache Kafka's two listeners advertise, and ours beside them, in every version of ApiVersions."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import peer
from tests.broker.advertised import FACTS, Advertised, asked, expected, with_controller
from tests.broker.node_client import run, running_node
from tests.ports import free_port

# Kafka's broker starts beside ours, and only a change of these APIs breaks it: with `make compat`.
pytestmark = [pytest.mark.peer, pytest.mark.slow]

VERSIONS = range(5)
Told = dict[tuple[str, int], Advertised]


async def _both(broker: int, controller: int) -> Told:
    ports = {"broker": broker, "controller": controller}
    return {(listener, version): await asked(port, version) for listener, port in ports.items() for version in VERSIONS}


def test_both_listeners_advertise_what_kafkas_do_but_for_the_listed_apis(tmp_path: Path) -> None:
    told: dict[str, Told] = {}
    kafka, controller = free_port(), free_port()

    async def kafkas() -> None:
        told["Kafka"] = await _both(kafka, kafka + peer.CONTROLLER_PORT_AFTER)

    async def ours() -> None:
        async with running_node(tmp_path / "ours", *with_controller(controller)) as client:
            told["ours"] = await _both(client.node.listeners[0].port, controller)

    with peer.running_broker(tmp_path / "kafka", kafka, heap="400m"):
        run(kafkas)
    run(ours)
    assert {listener: told["Kafka"][listener, VERSIONS[-1]] for listener in FACTS} == FACTS, "the facts are Kafka's"
    assert told["ours"] == {question: expected(answer) for question, answer in told["Kafka"].items()}
