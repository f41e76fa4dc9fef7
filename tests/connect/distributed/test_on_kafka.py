"""The same group on a broker of Apache Kafka: its coordinator, its transactions, its topics; seen by its own tool."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests import peer
from tests.broker.node_client import run
from tests.connect.distributed.test_group import SECRETIVE, tasks
from tests.connect.distributed.workers import SETTINGS, cluster_at
from tests.ports import free_port
from tests.waiting import until_async

SLOWER = replace(SETTINGS, session_timeout_ms=6_000, heartbeat_interval_ms=200)


@pytest.mark.peer
@pytest.mark.slow
@pytest.mark.parametrize("exactly_once", ["disabled", "enabled"])
def test_workers_share_and_move_work_through_a_kafka_broker(tmp_path: Path, exactly_once: str) -> None:
    async def test() -> None:
        async with cluster_at(f"127.0.0.1:{port}", replace(SLOWER, exactly_once=exactly_once)) as group:
            await group.grown(2)
            status, _ = await group.follower.ask("POST", "/connectors", {"name": "a", "config": SECRETIVE})
            assert status == 201
            await until_async(lambda: group.running() == tasks("a", 4) and group.hosting() == ["a"])
            await group.together()
            status, _ = await group.follower.ask("PUT", "/connectors/a/config", {**SECRETIVE, "tasks": "3"})
            assert status == 200
            await until_async(lambda: group.running() == tasks("a", 3))
            await group.together()
            assert (await group.leader.ask("PUT", "/connectors/a/stop"))[0] == 204
            await until_async(lambda: not group.running())
            await group.together()
            pairs = {"offsets": [{"partition": {"n": 1}, "offset": {"m": 2}}]}
            await group.follower.ask("PATCH", "/connectors/a/offsets", pairs)
            assert await group.follower.ask("GET", "/connectors/a/offsets") == (200, pairs)
            assert (await group.leader.ask("PUT", "/connectors/a/resume"))[0] == 202
            await until_async(lambda: group.running() == tasks("a", 3))
            await group.kill(group.leader)
            await until_async(lambda: group.running() == tasks("a", 3) and group.hosting() == ["a"], 30)
            assert (await group.leader.ask("DELETE", "/connectors/a"))[0] == 204
            await until_async(lambda: not group.running() and not group.hosting())

    port = free_port()
    small = [f"{each}.num.partitions=1" for each in ("offsets.topic", "transaction.state.log")]
    with peer.running_broker(tmp_path, port, heap="512m", overrides=[*small, "group.initial.rebalance.delay.ms=0"]):
        run(test, 100)
