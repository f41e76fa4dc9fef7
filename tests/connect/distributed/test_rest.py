"""A distributed worker answers REST as Apache Kafka Connect's does, whether it leads or not."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.broker.node_client import run
from tests.connect.distributed.test_group import cluster
from tests.connect.rest.asked import ask_all, written
from tests.connect.rest.calls import CALLS
from tests.connect.rest.test_against_kafka import comparable, explained, facts

KNOWN_BETTER = ["POST", "/connectors/lines/tasks/0/restart", None]
"""A stopped connector has no task 0. Kafka looks for the task's worker in vain, and says that the client may ask again."""


@pytest.mark.parametrize("asked_one", ["leader", "follower"])
def test_it_answers_every_call_as_kafka_connect_does(tmp_path: Path, asked_one: str) -> None:
    async def test() -> None:
        wrong: list[Any] = []
        async with cluster(tmp_path) as group:
            await group.grown(2 if asked_one == "follower" else 1)
            worker = getattr(group, asked_one)
            answers = await asyncio.to_thread(lambda: list(ask_all(worker.port, CALLS)))
        for (call, ours), grouped in zip(answers, facts("distributed"), strict=True):
            asked, theirs = written(call), comparable(call, grouped[1])
            if asked == KNOWN_BETTER and ours["status"] == 404:
                continue
            if comparable(call, ours) != theirs and not explained(asked, ours, theirs):
                wrong.append((asked, ours, theirs))
        assert not wrong, wrong

    run(test, 120)
