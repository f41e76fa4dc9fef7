"""What a Java Connect cluster has written, ours goes on from; and what ours writes, Java goes on from."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ottla.connect import decisions
from ottla.connect.storage import State, TaskId
from tests.broker.node_client import run
from tests.connect.distributed.workers import SETTINGS, cluster_at
from tests.connect.rest.asked import ask_once
from tests.connect.rest.calls import SOURCE, Call
from tests.peer.connect.worker import running_worker
from tests.ports import free_port
from tests.server import running_server
from tests.waiting import until_async

FIRST, MORE = 20, 7
JAVAS = replace(
    SETTINGS,
    offset_topic=replace(SETTINGS.offset_topic, partitions=2),
    session_timeout_ms=6_000,
    heartbeat_interval_ms=500,
)


def lines(first: int, count: int) -> str:
    return "".join(f"line {number}\n" for number in range(first, first + count))


def offset_of(port: int) -> int | None:
    body = ask_once(port, Call("GET", "/connectors/lines/offsets"))["body"]
    found = body.get("offsets") or [{"offset": {}}]
    position: int | None = found[0]["offset"].get("position")
    return position


def poll(port: int, path: str, wanted: Any, read: Any) -> None:
    deadline = time.monotonic() + 60
    while (found := read(ask_once(port, Call("GET", path))["body"])) != wanted:
        assert time.monotonic() < deadline, found
        time.sleep(0.1)


def states(body: Any) -> list[str]:
    return [body.get("connector", {}).get("state"), *(each["state"] for each in body.get("tasks", []))]


@pytest.mark.peer
@pytest.mark.slow
def test_workers_of_both_kinds_take_over_from_each_other(tmp_path: Path) -> None:
    text = tmp_path / "lines.txt"
    text.write_text(lines(0, FIRST))
    config = {"connector.class": SOURCE, "file": str(text), "topic": "lines", "tasks.max": "1"}
    with running_server(tmp_path, overrides=["group.initial.rebalance.delay.ms=0"]) as server:
        port = free_port()
        with running_worker("distributed", tmp_path / "java", server.bootstrap, port):
            for name in ("lines", "other"):
                made = ask_once(port, Call("POST", "/connectors", {"name": name, "config": config}))
                assert made["status"] == 201, made
            poll(port, "/connectors/lines/status", ["RUNNING", "RUNNING"], states)
            poll(port, "/connectors/lines/offsets", text.stat().st_size, lambda _: offset_of(port))
            topics = ask_once(port, Call("GET", "/connectors/lines/topics"))["body"]
        run(lambda: _ours(server.bootstrap, text, config, topics), 60)
        text.write_text(lines(0, FIRST + MORE))
        port = free_port()
        with running_worker("distributed", tmp_path / "java", server.bootstrap, port):
            assert ask_once(port, Call("GET", "/connectors"))["body"] == ["lines"]
            shown = ask_once(port, Call("GET", "/connectors/lines/config"))["body"]
            assert shown == {**config, "name": "lines", "batch.size": "100"}
            assert offset_of(port) == len(lines(0, 5))
            poll(port, "/connectors/lines/status", ["PAUSED", "PAUSED"], states)
            assert ask_once(port, Call("PUT", "/connectors/lines/resume"))["status"] == 202
            poll(port, "/connectors/lines/offsets", text.stat().st_size, lambda _: offset_of(port))


async def _ours(bootstrap: str, text: Path, config: dict[str, str], topics: Any) -> None:
    """Find everything as Java has left it, and leave it changed: a connector gone, one configured anew, moved and paused."""
    async with cluster_at(bootstrap, JAVAS) as group:
        [worker] = await group.grown(1)
        view = await worker.herder.view()
        assert view.config.connectors() == ["lines", "other"]
        assert dict(view.config.configs["lines"]) == {**config, "name": "lines"}
        assert view.config.session_key is not None and len(view.config.session_key.key) == 32
        await until_async(lambda: group.running() == [TaskId("lines", 0), TaskId("other", 0)])
        assert worker.runner.tasks[TaskId("lines", 0)].config["task.class"] == f"{SOURCE[:-9]}Task"
        assert {"lines": {"topics": decisions.topics_of(view, "lines")}} == topics
        stored = await worker.herder.stored_offsets("lines")
        assert stored.offset("lines", {"filename": str(text)}) == {"position": text.stat().st_size}
        await worker.herder.store_offsets("lines", [({"filename": str(text)}, {"position": len(lines(0, 5))})])
        assert (await worker.ask("DELETE", "/connectors/other"))[0] == 204
        assert (await worker.ask("PUT", "/connectors/lines/config", {**config, "batch.size": "100"}))[0] == 200
        assert (await worker.ask("PUT", "/connectors/lines/pause"))[0] == 202
        statuses = worker.herder.statuses
        wanted = {"lines": State.PAUSED, TaskId("lines", 0): State.PAUSED}
        await until_async(lambda: {of: each.state for of, each in statuses.state.statuses.items()} == wanted)
        await group.together()
