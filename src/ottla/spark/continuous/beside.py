"""What stands beside a lane: whom it tells, the applications of its host, its transactional id, and its ways outside."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from ottla.base import ErrorCode, KafkaError, Offset, TopicPartition
from ottla.client import Client, ConsumerGroupMetadata, commit_offsets
from ottla.spark.continuous.plan import ApplicationPlan
from ottla.streams import StreamsWork

__all__ = ["OUTSIDE", "STALE", "Doors", "FencedError", "LaneListener", "OnHost", "store_offsets", "transactional_id"]

STALE = frozenset({ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.REBALANCE_IN_PROGRESS})
NEWS_SECONDS, LOOK_SECONDS = 1.0, 0.01
"""How long a host waits to be told of the driver's next generation, and between two looks."""


class FencedError(Exception):
    """Another host has this one's place: it stops and touches nothing more."""


class LaneListener(Protocol):
    """Whom a lane tells how works stand; methods are called in the loop."""

    def on_running(self, work: StreamsWork) -> None:
        """Called when a work is restored and runs."""
        ...

    def on_released(self, works: Iterable[StreamsWork]) -> None:
        """Called when works are committed and let go."""
        ...

    def on_failed(self, application: str, works: Iterable[StreamsWork], details: str) -> None:
        """Called when an application's works, all that were here, were taken off for an error."""
        ...

    async def confirm(self) -> None:
        """Return where this host is still its driver's; raises ConnectionError or OttlaError where it is not."""
        ...


@dataclass(frozen=True, slots=True)
class Doors:
    """How a host reaches what is outside of its loop: the cluster, and what waits; a simulation has models of both."""

    client: Callable[..., Client] = Client
    wait: Callable[[Callable[[], None]], Awaitable[None]] = asyncio.to_thread


OUTSIDE = Doors()
"""The real ones."""


@dataclass(slots=True)
class OnHost:
    """An application on a host."""

    plan: ApplicationPlan
    member: ConsumerGroupMetadata | None
    """The driver's place in its group; None while it has not joined: then nothing of it is committed."""
    is_paused: bool = False
    """Whether its works stay, and process nothing."""
    is_draining: bool = False
    """Whether its works read nothing but what they write for one another, since it is to be removed."""


async def store_offsets(
    client: Client, found: OnHost, offsets: Mapping[TopicPartition, Offset], words: Mapping[TopicPartition, str]
) -> None:
    """Commit an application's offsets as the driver's member; raises KafkaError.

    The driver begins another generation where some host is lost. Who is refused for that waits to be told of it, and commits
    as that: a host that is cut off is told nothing, and its works are another's by then.
    """
    while True:
        member = found.member
        try:
            await commit_offsets(client, found.plan.application_id, offsets, metadata=words, member=member)
            return
        except KafkaError as error:
            if error.code not in STALE or not await _is_another(found, member):
                raise


async def _is_another(found: OnHost, member: ConsumerGroupMetadata | None) -> bool:
    """Wait a moment for another member to be told of; returns whether one was."""
    loop = asyncio.get_running_loop()
    until_s = loop.time() + NEWS_SECONDS
    while found.member == member and loop.time() < until_s:  # noqa: ASYNC110  (an order changes it)
        await asyncio.sleep(LOOK_SECONDS)
    return found.member not in (member, None)


def transactional_id(service: str, host: int, lane: tuple[Any, ...]) -> str:
    """Return the transactional id of a host's lane: the same for whoever comes after it."""
    return f"{service}-{host}-{hashlib.sha256(repr(lane).encode()).hexdigest()[:8]}"
