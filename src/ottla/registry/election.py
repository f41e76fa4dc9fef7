"""Which instance is the primary: a group of the protocol `sr`, whose leader says so to every member."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence

from ottla.background import end, keep_running
from ottla.base import OttlaError
from ottla.client import Client, GroupMember, JoinedMember
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

__all__ = ["Election"]

log = logging.getLogger(__name__)
RETRY_S, RETRY_S_MAX = 0.1, 2.0


class Election:
    """Takes part in the group; `primary` is who writes, as far as this instance knows.

    `take_office` is awaited before this instance counts as the primary, and tried again while it fails; `leave_office` is
    called when another one is, or may be by now.
    """

    def __init__(
        self,
        settings: RegistrySettings,
        identity: Identity,
        client: Client,
        *,
        take_office: Callable[[], Awaitable[None]],
        leave_office: Callable[[], None],
    ) -> None:
        self.identity = identity
        self.primary: Identity | None = None
        self.is_primary = False
        self.elections = 0
        """How often this instance has become the primary."""
        self.changed = asyncio.Condition()
        self._take_office, self._leave_office = take_office, leave_office
        self._wake = asyncio.Event()
        self._is_lost = False
        self._last = Assignment()
        self._member = GroupMember(
            client,
            settings.group,
            protocol_type=PROTOCOL_TYPE,
            session_timeout_ms=settings.session_timeout_ms,
            rebalance_timeout_ms=settings.rebalance_timeout_ms,
            heartbeat_interval_ms=settings.heartbeat_interval_ms,
            wake=self._wake.set,
            lost=self._lose,
        )
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to take part."""
        self._task = keep_running(self._run, name="election", serves="the registry's primary", reset=self._lose)

    async def close(self) -> None:
        """Leave the group, so that another one becomes the primary at once."""
        await end(self._task)
        await self._settle(None, office=False)
        await self._member.close()

    def step_down(self, reason: str) -> None:
        """Have the group say anew who the primary is: this instance was refused what only the primary may."""
        if self.is_primary:
            log.warning("Not the primary any more: %s", reason)
        self._is_lost = True
        self._member.request_rejoin(reason)

    def look(self) -> None:
        """Ask the group now whether it has changed: somebody waits for a primary, and there is none at hand."""
        self._member.hurry()

    def _lose(self) -> None:
        self._is_lost = True
        self._wake.set()

    async def _run(self) -> None:
        retry_s = RETRY_S
        while True:
            self._wake.clear()
            try:
                if self._is_lost:
                    self._is_lost = False
                    await self._settle(None, office=False)
                if self._member.rejoins and not await self._join():
                    await asyncio.sleep(retry_s)
                    continue
                await self._enter_office()
                retry_s = RETRY_S
            except OttlaError as error:
                log.warning("The primary is not known now; trying again: %s", error)
                await asyncio.sleep(retry_s)
                retry_s = min(2 * retry_s, RETRY_S_MAX)
                continue
            await self._wake.wait()

    async def _join(self) -> bool:
        joined = await self._member.join([(PROTOCOL, self.identity.encoded())], self._assign)
        if joined is None:
            return False
        try:
            self._last = read_assignment(joined.assignment)
        except (ValueError, KeyError, TypeError) as error:
            log.error("The group's leader says nothing that can be read: %s", error)
            self._last = Assignment()
        if self._last.error == DUPLICATE_URLS:
            log.error("Two instances of the group say that they are at %s; set host.name", self.identity.url)
        self._member.start_heartbeats()
        if self._last.member_id != joined.member_id:
            await self._settle(self._last.primary, office=False)
        return True

    async def _enter_office(self) -> None:
        if self._last.member_id != self._member.member_id or not self._last.member_id or self.is_primary:
            return
        await self._take_office()
        self.elections += 1
        await self._settle(self.identity, office=True)

    def _assign(self, protocol: str, generation: int, members: Sequence[JoinedMember]) -> Mapping[str, bytes]:
        chosen = assign(members, self._last.member_id).encoded()
        return {each.member_id: chosen for each in members}

    async def _settle(self, primary: Identity | None, *, office: bool) -> None:
        if self.is_primary and not office:
            self._leave_office()
        if primary != self.primary or office != self.is_primary:
            log.info("The primary is %s", "not known" if primary is None else primary.url)
        async with self.changed:
            self.primary, self.is_primary = primary, office
            self.changed.notify_all()
