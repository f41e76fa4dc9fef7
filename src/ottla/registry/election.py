"""Which instance is the primary: an `Office` of the group's protocol `sr`, whose leader tells every member who it is."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence

from ottla.client import Client, JoinedGeneration, JoinedMember
from ottla.registry.identities import (
    DUPLICATE_URLS,
    PROTOCOL,
    PROTOCOL_TYPE,
    Assignment,
    Identity,
    assign,
    read_assignment,
)
from ottla.registry.settings import RegistrySettings
from ottla.service import Membership, Office, Outcome

__all__ = ["election_of"]

log = logging.getLogger(__name__)


def election_of(
    settings: RegistrySettings,
    identity: Identity,
    client: Client,
    *,
    take: Callable[[], Awaitable[None]],
    leave: Callable[[], None],
) -> Office[Identity]:
    """Return the office of the primary, as the instance at this address takes part in it; `start` begins that."""
    protocol = _Protocol(identity)
    membership = Membership(
        settings.group,
        PROTOCOL_TYPE,
        PROTOCOL,
        identity.encoded(),
        settings.session_timeout_ms,
        settings.rebalance_timeout_ms,
        settings.heartbeat_interval_ms,
    )
    return Office(
        client,
        membership,
        serves="the registry's primary",
        choose=protocol.choose,
        read=protocol.read,
        take=take,
        leave=leave,
    )


class _Protocol:
    """Confluent's words of the group; whoever was the primary stays it while it is a member."""

    def __init__(self, identity: Identity) -> None:
        self._identity = identity
        self._last = Assignment()

    def choose(self, members: Sequence[JoinedMember]) -> Mapping[str, bytes]:
        """Return what each member is told: who the primary is."""
        chosen = assign(members, self._last.member_id).encoded()
        return {each.member_id: chosen for each in members}

    def read(self, joined: JoinedGeneration) -> Outcome[Identity]:
        """Return what the group's leader, which may be of another make, has said."""
        before, self._last = self._last, _assignment(joined.assignment)
        if self._last.error == DUPLICATE_URLS:
            log.error("Two instances of the group say that they are at %s; set host.name", self._identity.url)
        if self._last.primary != before.primary:
            log.info("The primary is %s", "not known" if self._last.primary is None else self._last.primary.url)
        is_ours = bool(joined.member_id) and self._last.member_id == joined.member_id
        return Outcome(self._identity if is_ours else self._last.primary, is_ours)


def _assignment(data: bytes) -> Assignment:
    try:
        return read_assignment(data)
    except (ValueError, KeyError, TypeError) as error:
        log.error("The group's leader says nothing that can be read: %s", error)
        return Assignment()
