"""Several nodes of one MirrorMaker: they reach each other under one address, and nobody else does."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from ottla.client import BlockingClient
from ottla.spark import MirrorMaker, ThreadJobs
from tests.mirror.test_mirroring import MEMBER, QUICK, make, running, values, write
from tests.ports import free_port
from tests.server import Server, running_server
from tests.waiting import until


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, Server]]:
    folders = [tmp_path_factory.mktemp(each) for each in ("east", "west")]
    with running_server(folders[0]) as east, running_server(folders[1]) as west:
        yield east, west


def given(servers: tuple[Server, Server], port: int, **more: str) -> dict[str, str]:
    return {
        **QUICK,
        "clusters": "east,west",
        "east.bootstrap.servers": servers[0].bootstrap,
        "west.bootstrap.servers": servers[1].bootstrap,
        "east->west.enabled": "true",
        "tasks.max": "3",
        "dedicated.mode.enable.internal.rest": "true",
        "listeners": f"http://127.0.0.1:{port}",
        **{f"{kind}.storage.replication.factor": "1" for kind in ("config", "offset", "status")},
        **{f"{kind}.{each}": value for kind in ("east", "west") for each, value in MEMBER.items()},
        **more,
    }


def ask(url: str, method: str = "GET", body: Any = None, **headers: str) -> tuple[int, Any]:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json", **headers}, method=method)
    try:
        with urllib.request.urlopen(request, timeout=100) as answer:
            text, status = answer.read(), answer.status
    except urllib.error.HTTPError as error:
        text, status = error.read(), error.code
    return status, json.loads(text) if text else None


def workers_of(url: str) -> set[str]:
    """Return which nodes have a connector or a task of the flow."""
    status, body = ask(f"{url}/connectors?expand=status")
    found = [each["status"] for each in body.values()] if status == 200 else []
    return {each["connector"]["worker_id"] for each in found} | {
        task["worker_id"] for each in found for task in each["tasks"]
    }


def test_nodes_share_a_flow_and_topics_that_come_later_are_given_out_whoever_finds_them(
    servers: tuple[Server, Server],
) -> None:
    ports = free_port(), free_port()
    with BlockingClient(servers[0].bootstrap) as east, BlockingClient(servers[1].bootstrap) as west:
        for number in range(3):
            make(east, f"first-{number}", 1)
            write(east, f"first-{number}", "1")
        makers = [
            MirrorMaker(given(servers, port, topics="first.*,later.*"), ["west"], jobs=ThreadJobs) for port in ports
        ]
        with running(makers[0]), running(makers[1]):
            [[(flow, one)], [(_, other)]] = [each.places for each in makers]
            assert flow.path == "/east/west" and one.endswith("/east/west") and one != other
            both = {f"127.0.0.1:{port}" for port in ports}
            until(lambda: workers_of(one) == both, lambda: workers_of(one))
            assert workers_of(other) == both
            for number in range(3):
                make(east, f"later-{number}", 1)
                write(east, f"later-{number}", "1")
            names = [f"east.{kind}-{number}" for kind in ("first", "later") for number in range(3)]
            until(lambda: all(values(west, each) == Counter("1") for each in names), lambda: west.metadata().topics)


def test_the_address_of_nodes_answers_nothing_that_is_not_signed(servers: tuple[Server, Server]) -> None:
    port = free_port()
    with running(MirrorMaker(given(servers, port, topics="none"), jobs=ThreadJobs)) as maker:
        here = {flow.path: url for flow, url in maker.places}
        assert set(here) == {"/east/west", "/west/east"}
        until(lambda: len(ask(f"{here['/east/west']}/connectors")[1]) == 3, "the connectors")
        for path in here:
            shared = f"http://127.0.0.1:{port}{path}"
            config = f"{shared}/connectors/MirrorSourceConnector"
            for url in (
                shared,
                f"{shared}/",
                f"{shared}/connectors",
                config,
                f"{config}/config",
                f"{shared}/openapi.json",
            ):
                assert ask(url)[0] == 404, url
            assert ask(f"{config}/config", "PUT", {"topics": "all"})[0] == 404
            assert ask(config, "DELETE")[0] == 404
            assert ask(f"{config}/tasks")[0] == 405
            for method, name in (("POST", "tasks"), ("PUT", "fence")):
                status, said = ask(f"{config}/{name}", method, [{"task.assigned.partitions": "x-0"}])
                assert status in (400, 403, 503), (status, said)
        for url in (f"http://127.0.0.1:{port}/", f"http://127.0.0.1:{port}/connectors"):
            assert ask(url)[0] == 404
        assert ask(f"{here['/east/west']}/connectors/MirrorSourceConnector/pause", "PUT")[0] == 202
        status, said = ask(f"{here['/east/west']}/connectors", "POST", {"name": "x", "config": {}})
        assert status == 400 and "connector" in said["message"]
