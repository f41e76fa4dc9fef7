"""A topic's configuration is worked out once, however many partitions it has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ottla.base import ErrorCode, NodeId
from ottla.broker.replicas.topic_rules import Throttled, TopicRules
from tests.broker.node_client import batch, logs_made, parts, run, running_node
from tests.broker.test_admin_configs import alter

MANY = 300
TOPIC_RESOURCE, SET = 2, 0


def test_a_list_of_throttled_replicas_names_partitions_on_this_broker() -> None:
    listed = Throttled.of(["3:1", "4:2", "11:1"], NodeId(1))
    assert [at for at in range(20) if listed.has(at)] == [3, 11]
    assert all(Throttled.of(["*"], NodeId(1)).has(at) for at in range(3))
    assert not Throttled.of([], NodeId(1)).has(0)


def test_many_partitions_are_configured_by_one_reading_of_their_topics_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    worked_out: list[Any] = []
    of = TopicRules.of

    def counted(*args: Any) -> TopicRules:
        worked_out.append(args)
        return of(*args)

    monkeypatch.setattr(TopicRules, "of", counted)

    async def test() -> None:
        async with running_node(tmp_path) as client:
            await client.create("t", MANY)
            await logs_made(client.node)
            assert len(worked_out) == 1
            throttled = ",".join(f"{at}:{client.node.config.node_id}" for at in range(0, MANY, 2))
            await alter(
                client,
                TOPIC_RESOURCE,
                "t",
                ("leader.replication.throttled.replicas", SET, throttled),
                ("max.message.bytes", SET, "70"),
            )
            assert len(worked_out) == 2
            held = sorted(parts(client.node).partitions, key=lambda each: each.key.partition)
            assert [each.throttled_as_leader for each in held] == [at % 2 == 0 for at in range(MANY)]
            refused = await client.produce("t", batch(b"x" * 100), index=MANY - 1)
            assert refused.error_code == ErrorCode.MESSAGE_TOO_LARGE
            assert f"t-{MANY - 1} is" in (refused.error_message or "")
            await alter(client, TOPIC_RESOURCE, "t", ("compression.type", SET, "gzip"))
            assert parts(client.node).partitions.any_recompresses
            await alter(client, TOPIC_RESOURCE, "t", ("compression.type", SET, "producer"))
            assert not parts(client.node).partitions.any_recompresses

    run(test)
