"""Which server of a service runs its queries: an `Office` of a group that all of its servers are members of.

Every server takes statements and answers queries; one of them has the hosts. When it is gone another takes its office, at
once where it left, after its session where it was killed. Its hosts' transactions go on under the same ids, so that whatever
the one before still tries to commit is refused.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence

from ottla.client import Client, JoinedGeneration, JoinedMember
from ottla.service import Membership, Office, Outcome

__all__ = ["leading_of"]

PROTOCOL_TYPE, PROTOCOL = "ottla-sql", "v0"
SESSION_MS, REBALANCE_MS, HEARTBEAT_MS = 6_000, 10_000, 1_000


def leading_of(
    client: Client, group: str, *, take: Callable[[], Awaitable[None]], leave: Callable[[], None]
) -> Office[str]:
    """Return the office of the server that runs the queries; its holder is the member id of the group's leader."""
    membership = Membership(group, PROTOCOL_TYPE, PROTOCOL, b"", SESSION_MS, REBALANCE_MS, HEARTBEAT_MS)
    serves = "the service's queries"
    return Office(client, membership, serves=serves, choose=_nothing_divided, read=_led_by, take=take, leave=leave)


def _nothing_divided(members: Sequence[JoinedMember]) -> Mapping[str, bytes]:
    return {each.member_id: b"" for each in members}


def _led_by(joined: JoinedGeneration) -> Outcome[str]:
    """Whoever leads the group leads the service."""
    return Outcome(joined.leader, joined.leader == joined.member_id)
