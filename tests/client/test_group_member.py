"""Members of a classic group on a broker of our own: they share, come, go, are refused, and notice that nobody answers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from ottla.base import ErrorCode
from ottla.client import Client, GroupMember, JoinedGeneration, JoinedMember, JoinRefusedError, Limits
from tests.server import Server, running_server

SESSION_MS = 1_000
OVERRIDES = ("group.initial.rebalance.delay.ms=0", f"group.min.session.timeout.ms={SESSION_MS}")
OFFERED = [("roundly", b"about me")]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running_server(tmp_path_factory.mktemp("members"), overrides=OVERRIDES) as found:
        yield found


def assign(protocol: str, generation: int, members: Sequence[JoinedMember]) -> Mapping[str, bytes]:
    """Give each member its number among all of them."""
    assert protocol == "roundly" and all(each.metadata == b"about me" for each in members)
    return {each.member_id: b"%d of %d" % (number, len(members)) for number, each in enumerate(members, 1)}


class Group:
    """Makes members of one group, each with a client of its own."""

    def __init__(self, server: Server, name: str, stack: AsyncExitStack) -> None:
        self._server, self._name, self._stack = server, name, stack

    def member(
        self,
        *,
        kind: str = "test",
        woken: asyncio.Event | None = None,
        lost: asyncio.Event | None = None,
        heartbeat_ms: int = 50,
    ) -> GroupMember:
        client = Client(self._server.bootstrap, limits=Limits(unreachable_s=0.5))
        member = GroupMember(
            client,
            self._name,
            protocol_type=kind,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=10_000,
            heartbeat_interval_ms=heartbeat_ms,
            wake=(woken or asyncio.Event()).set,
            lost=(lost or asyncio.Event()).set,
        )
        self._stack.push_async_callback(member.close)
        return member


def run(server: Server, name: str, test: Callable[[Group], Awaitable[None]]) -> None:
    async def whole() -> None:
        async with asyncio.timeout(60), AsyncExitStack() as stack:
            await test(Group(server, name, stack))

    asyncio.run(whole())


async def joined(member: GroupMember) -> JoinedGeneration:
    """Join, and again where a round came to nothing."""
    while (found := await member.join(OFFERED, assign)) is None:
        continue
    return found


def test_members_share_as_their_leader_says_and_join_again_when_one_comes_or_goes(server: Server) -> None:
    async def test(group: Group) -> None:
        woken = asyncio.Event()
        first, second = group.member(woken=woken), group.member()
        assert first.rejoins
        alone = await joined(first)
        assert (alone.assignment, alone.leader, alone.protocol) == (b"1 of 1", first.member_id, "roundly")
        assert not first.rejoins and first.last_completed_generation == alone.generation
        first.start_heartbeats()

        other = asyncio.create_task(joined(second))
        await woken.wait()  # a heartbeat has said it
        assert first.rejoins
        mine, theirs = await joined(first), await other
        assert {mine.assignment, theirs.assignment} == {b"1 of 2", b"2 of 2"}
        assert mine.generation == theirs.generation > alone.generation and mine.leader == theirs.leader
        assert first.identity.generation == mine.generation and first.identity.member_id == mine.member_id

        woken.clear()
        first.start_heartbeats()
        await second.leave("has seen enough")
        assert second.rejoins and second.member_id == ""
        await woken.wait()
        assert (await joined(first)).assignment == b"1 of 1"

    run(server, "shared", test)


def test_a_member_that_is_hurried_does_not_wait_for_its_next_heartbeat(server: Server) -> None:
    async def test(group: Group) -> None:
        woken = asyncio.Event()
        first, second = group.member(woken=woken, heartbeat_ms=3_600_000), group.member()
        await joined(first)
        other = asyncio.create_task(joined(second))
        first.start_heartbeats()
        while not first.rejoins:  # the other one may not have asked yet when the group was looked at
            first.hurry()
            await asyncio.sleep(0)
        await woken.wait()
        await joined(first)
        await other

    run(server, "hurried", test)


def test_a_member_asks_to_join_again_and_stays_who_it_is(server: Server) -> None:
    async def test(group: Group) -> None:
        woken = asyncio.Event()
        member = group.member(woken=woken)
        before = await joined(member)
        member.request_rejoin("there is more to share")
        assert member.rejoins and woken.is_set()
        after = await joined(member)
        assert after.member_id == before.member_id and after.generation > before.generation

    run(server, "again", test)


def test_a_member_whose_session_is_over_is_told_so_and_joins_as_a_new_one(server: Server) -> None:
    async def test(group: Group) -> None:
        member = group.member()
        before = await joined(member)
        # as after a pause: the coordinator's session runs out while nothing is said, however long that takes it
        other = group.member()
        await joined(other)
        await other.leave("done")
        await member.heartbeat()
        assert member.rejoins and member.member_id == ""
        after = await joined(member)
        assert after.member_id != before.member_id and after.generation > before.generation

    run(server, "paused", test)


def test_what_the_group_will_never_take_is_an_error(server: Server) -> None:
    async def test(group: Group) -> None:
        await joined(group.member())
        with pytest.raises(JoinRefusedError, match="group refusing does not take this member") as refused:
            await group.member(kind="other").join(OFFERED, assign)
        assert refused.value.code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        with pytest.raises(JoinRefusedError) as refused:
            await group.member().join([("squarely", b"")], assign)
        assert refused.value.code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL

    run(server, "refusing", test)


def test_a_member_that_no_coordinator_answers_for_a_session_is_lost(tmp_path: Path) -> None:
    async def test(group: Group) -> None:
        lost = asyncio.Event()
        member = group.member(lost=lost)
        await joined(member)
        member.start_heartbeats()
        alone.kill()
        await lost.wait()
        assert member.rejoins and member.identity.generation == -1
        await member.close(leave=False)

    with running_server(tmp_path, overrides=OVERRIDES) as alone:
        run(alone, "lost", test)
