"""When a member says that it lives, in virtual time: behind one that was not answered, and at its session's end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from ottla.base import ErrorCode, KafkaError
from ottla.client import GroupMember
from ottla.wire.messages.heartbeat import HeartbeatResponse
from ottla.wire.messages.join_group import JoinGroupResponse
from ottla.wire.messages.sync_group import SyncGroupResponse
from tests.sim.loop import SimLoop

SESSION_S, INTERVAL_S = 10.0, 3.0


class Coordinator:
    """Answers at once, but for heartbeats that are `lost`: their member hears of that so much later."""

    def __init__(self, lost: Callable[[int], bool], late_s: float) -> None:
        self._lost, self._late_s, self.asked_s = lost, late_s, list[float]()

    async def request(self, message: Any, **_options: Any) -> Any:
        """See `Client`."""
        name = type(message).__name__
        if name == "JoinGroupRequest":
            return JoinGroupResponse(error_code=0, generation_id=1, member_id="me", leader="other", members=[])
        if name == "SyncGroupRequest":
            return SyncGroupResponse(error_code=0, assignment=b"")
        self.asked_s.append(asyncio.get_running_loop().time())
        if self._lost(len(self.asked_s)):
            await asyncio.sleep(self._late_s)
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, "the request is lost")
        return HeartbeatResponse(error_code=0)

    async def close(self) -> None:
        """See `Client`."""


def beating(lost: Callable[[int], bool], seconds: float, *, late_s: float = 5.0) -> tuple[list[float], list[float]]:
    """Be a member for so long; returns when heartbeats were sent, and when the membership was lost."""
    loop = SimLoop()
    asyncio.set_event_loop(loop)
    coordinator, lost_s = Coordinator(lost, late_s), list[float]()
    member = GroupMember(
        coordinator,  # type: ignore[arg-type]
        "g",
        protocol_type="test",
        session_timeout_ms=int(SESSION_S * 1000),
        rebalance_timeout_ms=60_000,
        heartbeat_interval_ms=int(INTERVAL_S * 1000),
        lost=lambda: lost_s.append(loop.time()),
    )

    async def whole() -> float:
        assert await member.join([("p", b"")], lambda *_: {}) is not None
        began_s = loop.time()
        member.start_heartbeats()
        await asyncio.sleep(seconds)
        await member.close(leave=False)
        return began_s

    try:
        began_s = loop.run_until_complete(whole())
    finally:
        asyncio.set_event_loop(None)
        loop.close()
    return [round(each - began_s, 3) for each in coordinator.asked_s], [each - began_s for each in lost_s]


def test_one_heartbeat_that_is_lost_costs_no_session() -> None:
    asked_s, lost_s = beating(lambda number: number == 2, 30.0)
    assert not lost_s
    assert asked_s[:4] == [3.0, 6.0, 11.1, 14.1], "the next one comes soon behind the one that was lost"


def test_a_member_knows_at_its_sessions_end_that_others_may_have_its_work() -> None:
    asked_s, lost_s = beating(lambda number: number > 1, 40.0)
    assert len(lost_s) == 1
    assert lost_s[0] <= asked_s[0] + SESSION_S + 0.001, "no pause between two heartbeats goes beyond it"


def test_heartbeats_that_fail_at_once_are_not_sent_without_a_pause() -> None:
    asked_s, lost_s = beating(lambda number: number > 1, 40.0, late_s=0.0)
    assert len(lost_s) == 1 and len(asked_s) < 12
