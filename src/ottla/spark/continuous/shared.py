"""What an application has of the service that it shares with others, as values: hosts, clients, and who looks after it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ottla.client import BlockingClient
from ottla.spark.continuous.service import HostService
from ottla.streams import StreamsSettings

__all__ = ["SharedHosts", "Watched"]


@dataclass(frozen=True, slots=True)
class Watched:
    """An application that has started: its `application.id`, whether it has something due, and what does that."""

    name: str
    is_due: Callable[[float], bool]
    look: Callable[[], bool]
    """Returns false once everything of it is stopped."""


@dataclass(frozen=True, slots=True)
class SharedHosts:
    """A service, as each of its applications sees it."""

    hosts: HostService
    client: Callable[[StreamsSettings], BlockingClient]
    """Returns the client that all share who ask one cluster as one principal."""
    watch: Callable[[Watched], None]
    wake: Callable[[], None]
    """Has applications looked after now."""
