"""What stands beside a lane: whom it tells, the applications of its host, its transactional id, and its ways outside."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol

from ottla.client import Client, ConsumerGroupMetadata
from ottla.spark.continuous.plan import ApplicationPlan
from ottla.streams import StreamsWork

__all__ = ["OUTSIDE", "Doors", "FencedError", "LaneListener", "OnHost", "transactional_id"]


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


def transactional_id(service: str, host: int, lane: tuple[Any, ...]) -> str:
    """Return the transactional id of a host's lane: the same for whoever comes after it."""
    return f"{service}-{host}-{hashlib.sha256(repr(lane).encode()).hexdigest()[:8]}"
