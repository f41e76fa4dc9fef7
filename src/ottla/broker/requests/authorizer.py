"""Who may do what: until ACLs are built, everyone may do everything that a handler declares."""

from __future__ import annotations

from typing import Protocol

from ottla.broker.requests.connected import Connected
from ottla.security import Operation, Resource

__all__ = ["AllowAll", "Authorizer"]


class Authorizer(Protocol):
    """Decides, without waiting, whether a peer may do an operation on a named resource."""

    def allows(self, peer: Connected, operation: Operation, resource: Resource, name: str) -> bool:
        """Return whether the operation is allowed."""
        ...


class AllowAll:
    """Kafka's behaviour where `authorizer.class.name` is empty."""

    def allows(self, peer: Connected, operation: Operation, resource: Resource, name: str) -> bool:
        """Return True."""
        return True
