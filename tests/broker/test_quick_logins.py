"""Quick Produce of those who have logged in for a time: as byte for byte as without, whatever ends in the middle.

Logins end, are renewed, rights come and go between what clients send; see `test_quick_produce` for what is compared.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random

import pytest

from ottla.base import ErrorCode
from ottla.security import Operation, Resource
from ottla.wire import encode_request
from ottla.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from tests.broker.askers import ADMIN, AUTHORIZER, Asker, allowed, grant
from tests.broker.hooked_disk import HookedDisk
from tests.broker.node_client import NOW_MS, NodeClient, batch, parts, run, running_node
from tests.broker.sasl_client import handshake, is_closed, log_in, plain_settings
from tests.broker.test_quick_produce import (
    ANYTHING,
    CHANGED_SHARE,
    PARTITIONS,
    ROUNDS,
    TOPICS,
    WRITERS,
    Requests,
    Side,
    burst,
    logs_of,
)

LIFETIME_MS = 600_000
USERS = plain_settings(*AUTHORIZER, f"connections.max.reauth.ms={LIFETIME_MS}", admin="x", ann="x")


class Hand:
    """A clock that goes on when it is told to."""

    def __init__(self) -> None:
        self.at_ms = NOW_MS

    def now_ms(self) -> int:
        return self.at_ms


async def somebody(client: NodeClient, user: str) -> NodeClient:
    """Return another connection to the node, of a user who has logged in for a time."""
    found = await NodeClient.connect(client.node)
    found.topic_ids = client.topic_ids
    assert (await log_in(found, user)).session_lifetime_ms == LIFETIME_MS
    return found


@asynccontextmanager
async def logged_in(folder: Path, *, quick: bool) -> AsyncIterator[tuple[Side, Hand]]:
    disk, clock = HookedDisk(), Hand()
    async with running_node(folder, *USERS, disk=disk, clock=clock) as first:
        admin = await somebody(first, "admin")
        writers = [await somebody(admin, "ann") for _ in range(WRITERS)]
        side = Side(admin, quick=quick, writers=writers, disk=disk)
        for name, configs in TOPICS.items():
            await side.create(name, PARTITIONS, **configs)
            await grant(admin.node, allowed("User:ann", Operation.WRITE, Resource.TOPIC, name))
        yield side, clock
        for each in (*side.writers, side.client):
            each.close()


async def answers(side: Side, drawn: Requests) -> list[bytes]:
    """Send some requests; where that costs the connection, that is the last answer, and its user comes back."""
    by = drawn.rng.randrange(WRITERS)
    try:
        return await side.answers(drawn.burst(side), by)
    except (asyncio.IncompleteReadError, ConnectionError):
        side.writers[by].close()
        side.writers[by] = await somebody(side.client, "ann")
        return [b"closed"]


async def happen(side: Side, clock: Hand, rng: Random) -> None:
    """Change what the next requests depend on."""
    what, name = rng.randrange(6), rng.choice(list(TOPICS))
    if what == 0:  # every login ends
        clock.at_ms += LIFETIME_MS
        side.client.close()
        side.client = await somebody(side.client, "admin")
    elif what == 1:
        await Asker(side.client.node, ADMIN).ask(DeleteAclsRequest(filters=[DeleteAclsFilter(**ANYTHING)]))
    elif what in (2, 3):
        for each in TOPICS if what == 2 else (name,):
            await grant(side.client.node, allowed("User:ann", Operation.WRITE, Resource.TOPIC, each))
    elif what == 4:
        await grant(side.client.node, allowed("User:ann", Operation.WRITE, Resource.TOPIC, name, denies=True))
    else:  # one login is renewed, or its renewal only begun
        clock.at_ms += 2000
        by = rng.randrange(WRITERS)
        try:
            await (log_in(side.writers[by], "ann") if rng.random() < 0.7 else handshake(side.writers[by]))
        except (asyncio.IncompleteReadError, ConnectionError):  # a renewal had begun before
            side.writers[by].close()
            side.writers[by] = await somebody(side.client, "ann")


@pytest.mark.parametrize("seed", range(6))
def test_who_has_logged_in_is_answered_as_one_by_one(tmp_path: Path, seed: int) -> None:
    async def test() -> None:
        async with (
            logged_in(tmp_path / "quick", quick=True) as (quick, quick_clock),
            logged_in(tmp_path / "slow", quick=False) as (slow, slow_clock),
        ):
            drawn = {quick: Requests(seed), slow: Requests(seed)}
            chance = {quick: Random(seed), slow: Random(seed)}
            clocks = {quick: quick_clock, slow: slow_clock}
            for at in range(ROUNDS):
                found, expected = [await answers(side, drawn[side]) for side in (quick, slow)]
                assert found == expected, f"seed {seed}, burst {at}"
                for side in (quick, slow):
                    if chance[side].random() < 2 * CHANGED_SHARE:
                        await happen(side, clocks[side], chance[side])
            assert quick.counted() == slow.counted()
            assert logs_of(quick.client) == logs_of(slow.client)
            authorizers = [parts(each.client.node).authorizer for each in (quick, slow)]
            assert authorizers[0].denied == authorizers[1].denied
            joined = slow.writes - quick.writes
            assert joined > 0 or drawn[quick].several_share > 0.1, "some were appended together"

    run(test)


def test_a_login_that_ends_between_two_reads_takes_nothing_more(tmp_path: Path) -> None:
    async def test() -> None:
        async with logged_in(tmp_path, quick=True) as (side, clock):
            writer = side.writers[0]
            for _ in range(2):
                assert {each.error_code for each in await burst(writer, 4, topic="plain")} == {0}
            writes = side.writes
            assert {each.error_code for each in await burst(writer, 4, topic="plain")} == {0}
            assert side.writes == writes + 1, "a login with an end is no reason to go slowly"
            clock.at_ms += LIFETIME_MS
            request = writer.produce_request("plain", batch(b"late"))
            writer.writer.write(b"".join(encode_request(request, 13, at, "test") for at in range(4)))
            assert await is_closed(writer)
            held = parts(writer.node).partitions.get("plain", 0)
            assert held is not None and held.log.log_end_offset == 12

    run(test)


def test_a_renewal_that_has_begun_lets_no_request_pass(tmp_path: Path) -> None:
    async def test() -> None:
        async with logged_in(tmp_path, quick=True) as (side, clock):
            writer = side.writers[0]
            for _ in range(2):
                await burst(writer, 4, topic="plain")
            clock.at_ms += 2000
            assert (await handshake(writer)).error_code == 0
            request = writer.produce_request("plain", batch(b"between"))
            writer.writer.write(encode_request(request, 13, 1, "test"))
            assert await is_closed(writer)
            again = await somebody(side.client, "ann")
            await burst(again, 2, topic="plain")
            clock.at_ms += 2000
            assert (await log_in(again, "ann")).error_code == 0
            writes = side.writes
            await burst(again, 1, topic="plain")  # begins anew to remember what is usual
            assert {each.error_code for each in await burst(again, 5, topic="plain")} == {ErrorCode.NONE}
            assert side.writes == writes + 2
            again.close()

    run(test)
