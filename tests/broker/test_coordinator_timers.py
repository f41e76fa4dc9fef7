"""A coordinator's deadlines: a session that ends is a decision, and only who surely coordinates may take it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ottla.base import Millis
from tests.broker.node_client import NodeClient, parts, run, running_node
from tests.broker.test_coordinator import Copied
from tests.broker.test_coordinator_office import SHORT, joined
from tests.broker.test_leader_lease import unheard


def due(client: NodeClient) -> Any:
    """Let every session of the group have ended by the coordinator's time, and return the coordinator."""
    node: Any = client.node
    groups = parts(node).groups
    groups._timer.cancel()
    deadline_ms = max(groups._shards[0].shard.timers._due.values())
    groups.now_ms = lambda: Millis(deadline_ms)
    return groups


def test_a_coordinator_that_may_have_been_replaced_ends_no_session(tmp_path: Path) -> None:
    """A broker that was stopped for a while finds every session over, although its members talk to another coordinator.

    What it wrote then would hold once it is elected again, with its log as it is.
    """

    async def test() -> None:
        async with running_node(tmp_path, *SHORT) as client:
            await joined(client, "g")
            node: Any = client.node
            partition = Copied(client)
            groups = due(client)
            lasts_until_s = parts(node).lease._until_s
            unheard(node)
            end = partition.held.log.log_end_offset
            groups._tick()
            assert partition.held.log.log_end_offset == end
            parts(node).lease._until_s = lasts_until_s
            groups._tick()
            assert partition.held.log.log_end_offset > end

    run(test)
