"""A controller's own part in who votes: seen to again and again, whatever one round meets."""

from __future__ import annotations

import asyncio
import logging
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ottla.base import LeaderEpoch, NodeId, Uuid
from ottla.broker.quorum.membership import Membership, VotingQuorum
from ottla.raft import ReplicaKey


class Rounds:
    """A quorum that knows no leader, and errs in the first round."""

    key = ReplicaKey(NodeId(1), Uuid(b"d" * 16))

    def __init__(self) -> None:
        self.rounds = 0
        self.third = asyncio.Event()

    @property
    def leader(self) -> tuple[NodeId | None, LeaderEpoch]:
        self.rounds += 1
        if self.rounds == 3:
            self.third.set()
        if self.rounds == 1:
            raise RuntimeError("a mistake of our own")
        return None, LeaderEpoch(0)


def test_a_controller_goes_on_seeing_to_its_vote_after_any_error(caplog: pytest.LogCaptureFixture) -> None:
    async def nobody(*arguments: Any) -> Any:
        return SimpleNamespace()

    async def test() -> None:
        quorum = Rounds()
        membership = Membership(
            cast(VotingQuorum, quorum), request=nobody, versions_of=nobody, endpoints=tuple, period_ms=1
        )
        keeping = asyncio.ensure_future(membership.keep())
        async with asyncio.timeout(60):
            await quorum.third.wait()
        assert not keeping.done()
        keeping.cancel()

    with caplog.at_level(logging.ERROR):
        asyncio.run(test())
    assert "a mistake of our own" in caplog.text
