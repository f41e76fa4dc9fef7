"""ApiVersions advertises what Kafka's does, but for what is listed, and nothing that is not served. Needs no peer."""

from __future__ import annotations

import asyncio
import struct
from pathlib import Path

import pytest

from ottla.broker.requests.handlers import all_handlers
from ottla.cli.main import main
from ottla.wire import APIS
from ottla.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from tests.broker.advertised import FACTS, MISSING, MISSING_MAX, UNFINALIZED, asked, expected, with_controller
from tests.broker.node_client import NodeClient, run, running_node
from tests.ports import free_port

CLUSTER_ID = "AAAAAAAAAAAAAAAAAAAAAQ"
REFUSED_BY_KAFKA = range(3)
"""Versions of Produce that are advertised and not served."""


def test_both_listeners_advertise_kafkas_ranges_but_for_the_listed_apis(tmp_path: Path) -> None:
    async def test() -> None:
        port = free_port()
        async with running_node(tmp_path, *with_controller(port)) as client:
            assert await asked(client.node.listeners[0].port) == expected(FACTS["broker"])
            assert await asked(port) == expected(FACTS["controller"])

    run(test)


def test_the_list_of_missing_apis_only_shrinks() -> None:
    served = {APIS[each.api_key].name for each in all_handlers()}
    advertised = {name for listener in FACTS.values() for name in listener["apis"]}
    finalized = {name for listener in FACTS.values() for name in listener["finalized"]}
    assert not served & MISSING.keys(), "these are served: take them off the list, and lower its bound"
    assert MISSING.keys() <= advertised, "Kafka does not advertise these: they are not missing"
    assert finalized >= UNFINALIZED.keys()
    assert len(MISSING) == MISSING_MAX
    assert all({**MISSING, **UNFINALIZED}.values()), "each gives its reason"


def test_what_is_advertised_has_a_handler_for_every_version(tmp_path: Path) -> None:
    async def test() -> None:
        port = free_port()
        served = {APIS[each.api_key].name: each.versions for each in all_handlers()}
        async with running_node(tmp_path, *with_controller(port)) as client:
            for listener in (client.node.listeners[0].port, port):
                for name, (lowest, highest) in (await asked(listener))["apis"].items():
                    wanted = {*range(lowest, highest + 1)} - ({*REFUSED_BY_KAFKA} if name == "Produce" else set())
                    assert wanted <= {*range(served[name][0], served[name][1] + 1)}, name

    run(test)


@pytest.mark.parametrize("version", [*REFUSED_BY_KAFKA, 14])
@pytest.mark.parametrize("acks", [0, 1])
def test_versions_of_produce_that_kafka_refuses_close_the_connection(tmp_path: Path, version: int, acks: int) -> None:
    async def test() -> None:
        async with running_node(tmp_path) as client:
            body = struct.pack(">hhi", 0, version, 7) + struct.pack(">h1shii", 1, b"x", acks, 1000, 0)
            client.writer.write(struct.pack(">i", len(body)) + body)
            with pytest.raises(asyncio.IncompleteReadError):
                await client.frame()
            again = await NodeClient.connect(client.node)
            await again.create("t")
            again.close()

    run(test)


def test_a_folder_in_which_kafkas_levels_are_finalized_runs_and_goes_back(tmp_path: Path) -> None:
    async def test() -> None:
        port = free_port()
        config = tmp_path / "server.properties"
        config.write_text("\n".join((*with_controller(port), f"log.dirs={tmp_path / 'data'}")))
        levels = ["--feature", "share.version=1", "--feature", "streams.version=1"]
        assert main(["storage", "format", "-t", CLUSTER_ID, "-c", str(config), *levels]) == 0
        for _ in range(2):
            async with running_node(tmp_path / "data", *with_controller(port)) as client:
                assert (await asked(port))["finalized"] == FACTS["controller"]["finalized"]
        async with running_node(tmp_path / "data", *with_controller(port)) as client:
            updates = [FeatureUpdateKey(feature=name, max_version_level=0, upgrade_type=2) for name in UNFINALIZED]
            answer = await client.ask(UpdateFeaturesRequest(timeout_ms=10_000, feature_updates=updates))
            assert answer.error_code == 0, answer.error_message
        async with running_node(tmp_path / "data", *with_controller(port)):
            assert await asked(port) == expected(FACTS["controller"])

    run(test)
