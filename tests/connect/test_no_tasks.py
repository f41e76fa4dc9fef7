"""Connectors that rightly have no task say so in their status."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ottla.connect import ConnectError, SourceConnector, SourceTask, discover
from ottla.connect.config_def import ConfigDef
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


class Odd(SourceConnector):
    """Raises what it is told to, or says so."""

    java_name = "tests.Odd"
    task_class = SourceTask
    config_def = ConfigDef()
    tasks: Any = None
    says: Any = None

    def task_configs(self, tasks_max: int) -> list[dict[str, str]]:
        """See `Connector`."""
        if self.tasks is not None:
            raise self.tasks
        return []

    def no_tasks(self) -> str | None:
        """See `Connector`."""
        if isinstance(self.says, Exception):
            raise self.says
        return self.says  # type: ignore[no-any-return]


async def asked(cls: type[Odd]) -> tuple[list[dict[str, str | None]], dict[str, str]]:
    host = ConnectorHost(discover(more=[cls]), "w", tell=lambda status: None, reconfigure=print)
    await host.start("o", {"name": "o", "connector.class": "tests.Odd"}, TargetState.STARTED, 1)
    return await host.task_configs("o", {}), host.idle()


@pytest.mark.parametrize("says", [RuntimeError("no"), True, 7, ""], ids=repr)
def test_what_a_connector_says_badly_of_having_no_task_keeps_nothing_from_being_done(
    says: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Odd, "says", says)
    assert asyncio.run(asked(Odd)) == ([], {})


@pytest.mark.parametrize("error", [OSError("the database is gone"), KeyError("x"), ConnectError("no")], ids=repr)
def test_a_connector_that_fails_to_say_its_tasks_can_be_asked_again(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever asks tries a ConnectError again, as Kafka's workers do whatever a connector raises."""
    monkeypatch.setattr(Odd, "tasks", error)
    with pytest.raises(ConnectError, match=str(error)):
        asyncio.run(asked(Odd))
