"""Connectors that rightly have no task say so in their status."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ottla.connect import discover
from ottla.connect.connector_host import ConnectorHost
from ottla.connect.decisions import View, connector_status
from ottla.connect.storage import ConfigState, State, Status, StatusState, TargetState, apply_status, encode_status
from ottla.mirror.checkpoints import MirrorCheckpointConnector
from ottla.mirror.heartbeats import MirrorHeartbeatConnector
from ottla.mirror.source import MirrorSourceConnector

CLUSTERS = {
    "source.cluster.alias": "a",
    "source.cluster.bootstrap.servers": "localhost:1",
    "target.cluster.alias": "b",
    "target.cluster.bootstrap.servers": "localhost:2",
}
PLUGINS = discover(more=[MirrorSourceConnector, MirrorCheckpointConnector, MirrorHeartbeatConnector])


@pytest.mark.parametrize(
    ("cls", "off"),
    [
        (MirrorSourceConnector, "enabled"),
        (MirrorCheckpointConnector, "enabled"),
        (MirrorCheckpointConnector, "emit.checkpoints.enabled"),
        (MirrorCheckpointConnector, "emit.offset-syncs.enabled"),
        (MirrorHeartbeatConnector, "emit.heartbeats.enabled"),
    ],
)
def test_a_mirror_that_is_switched_off_says_in_its_status_that_it_needs_no_task(cls: Any, off: str) -> None:
    async def run() -> list[dict[str, str]]:
        told: list[Status] = []
        host = ConnectorHost(PLUGINS, "w", tell=told.append, reconfigure=print)
        config = {**CLUSTERS, "name": "m", "connector.class": cls.java_name, off: "false"}
        await host.start("m", config, TargetState.STARTED, 1)
        assert await host.task_configs("m", config) == []
        running = host.idle()
        await host.bring("m", TargetState.PAUSED, 1)
        return [running, host.idle()]

    running, paused = asyncio.run(run())
    assert off in running["m"] and not paused
    statuses, _ = apply_status(StatusState(), *encode_status(Status("m", State.RUNNING, "w", 1)))
    shown = connector_status(View(ConfigState(), statuses, idle=running), "m", PLUGINS)
    assert shown["no_tasks"] == running["m"]
    assert "no_tasks" not in connector_status(View(ConfigState(), statuses), "m", PLUGINS)
