"""Who may do what on this node: nobody is asked, or the entries of the cluster's metadata decide."""

from __future__ import annotations

import asyncio
import logging
from typing import Final, Protocol

from ottla.base import Clock
from ottla.broker.requests.connected import Connected
from ottla.metadata import Delta, Image
from ottla.security import (
    ANYTHING,
    AuditedRequest,
    AuditLog,
    Decision,
    Operation,
    Resource,
    StandardAuthorizer,
    acl_of,
)
from ottla.wire import APIS

__all__ = ["AclAuthorizer", "AllowAll", "Authorizer"]

DEBUG: Final = logging.DEBUG
FLUSH_S, FLUSH_MS = 1.0, 1000
BY_RESOURCE_TYPE: Final = "ByResourceType"
"""The rule in the log where no one name was asked about."""


class Authorizer(Protocol):
    """Decides, without waiting, whether a peer may do an operation on a named resource."""

    has_acls: bool
    """Whether entries of the metadata decide, so that clients may change them."""

    def allows(
        self,
        peer: Connected,
        operation: Operation,
        resource: Resource,
        name: str,
        api_key: int = -1,
        is_asked_for: bool = True,
        references: int = 1,
    ) -> bool:
        """Return whether the operation is allowed.

        `is_asked_for` is False where it is only looked up, to filter a list or to tell a client its rights: the log says
        less of that. `references` is how often the request names the resource. Raises AuthorizerNotReadyError while entries
        are being loaded.
        """
        ...

    def grants(
        self, peer: Connected, operation: Operation, resource: Resource, name: str, api_key: int, times: int
    ) -> bool:
        """Return whether `allows` allows this so many times in a row, and count that; with 0 it is only looked up.

        Where it does not, or cannot know it, nothing was counted: then `allows` has to be asked each time.
        """
        ...

    def allows_on_some(self, peer: Connected, operation: Operation, resource: Resource, api_key: int = -1) -> bool:
        """Return whether the operation is allowed on some resource of the type, be there one or not (KIP-679)."""
        ...


class AllowAll:
    """Kafka's behaviour where `authorizer.class.name` is empty."""

    has_acls = False

    def allows(
        self,
        peer: Connected,
        operation: Operation,
        resource: Resource,
        name: str,
        api_key: int = -1,
        is_asked_for: bool = True,
        references: int = 1,
    ) -> bool:
        """Return True."""
        return True

    def grants(
        self, peer: Connected, operation: Operation, resource: Resource, name: str, api_key: int, times: int
    ) -> bool:
        """Return True."""
        return True

    def allows_on_some(self, peer: Connected, operation: Operation, resource: Resource, api_key: int = -1) -> bool:
        """Return True."""
        return True


class AclAuthorizer:
    """Kafka's StandardAuthorizer: follows the image's entries, and writes down what it decides.

    Until `loaded` is called only super users, and this node itself, may do anything.
    """

    has_acls = True

    def __init__(self, standard: StandardAuthorizer, audit: AuditLog, clock: Clock) -> None:
        self._standard = standard
        self._decided = standard.decided
        self._audit = audit
        self._is_on = audit.is_on
        self._clock = clock
        self._flushing: asyncio.TimerHandle | None = None
        self.allowed = 0
        """Decisions that allowed what was asked."""
        self.denied = 0
        """Decisions that denied it."""

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """From here on, say each second how many lines of the audit log were left out in the one before."""
        self._audit.flush(self._clock.now_ms())
        self._flushing = loop.call_later(FLUSH_S, self.start, loop)

    def stop(self) -> None:
        """Say no more, when that has been said."""
        if self._flushing is not None:
            self._flushing.cancel()
            self._flushing = None
        self._audit.flush(self._clock.now_ms() + FLUSH_MS)

    def __len__(self) -> int:
        """Return how many entries are in force."""
        return len(self._standard)

    @property
    def left_out(self) -> int:
        """Lines of the audit log that were left out, since there were too many."""
        return self._audit.left_out

    def loaded(self, image: Image) -> None:
        """Take over the entries of the image that is up to date; from here on they are followed."""
        self._standard.load({acl_id: acl_of(acl) for acl_id, acl in image.acls.items()})

    def image_changed(self, old: Image, image: Image, delta: Delta) -> None:
        """Take over what differs."""
        if delta.acls is None or not self._standard.ready:
            return
        for acl_id in delta.acls.removed:
            self._standard.remove(acl_id)
        for acl_id in delta.acls.added:
            self._standard.add(acl_id, acl_of(image.acls[acl_id]))

    def allows(
        self,
        peer: Connected,
        operation: Operation,
        resource: Resource,
        name: str,
        api_key: int = -1,
        is_asked_for: bool = True,
        references: int = 1,
    ) -> bool:
        """Return whether the operation is allowed; raises AuthorizerNotReadyError while entries are being loaded."""
        if peer.is_this_node:
            return True
        decision = self._decided.get((peer.principal, peer.client_host, operation, resource, name))
        if decision is None:
            decision = self._standard.decide(peer.principal, peer.client_host, operation, resource, name)
        if decision.allowed:
            self.allowed += 1
            if not self._is_on(DEBUG):
                return True
        else:
            self.denied += 1
        self._audit.record(
            decision,
            _audited(peer, api_key),
            operation=operation,
            resource=resource,
            name=name,
            now_ms=self._clock.now_ms(),
            references=references,
            is_asked_for=is_asked_for,
        )
        return decision.allowed

    def grants(
        self, peer: Connected, operation: Operation, resource: Resource, name: str, api_key: int, times: int
    ) -> bool:
        """See `Authorizer.grants`; raises AuthorizerNotReadyError while entries are being loaded."""
        if peer.is_this_node:
            return True
        decision = self._decided.get((peer.principal, peer.client_host, operation, resource, name))
        if decision is None:
            decision = self._standard.decide(peer.principal, peer.client_host, operation, resource, name)
        if not decision.allowed:
            return False
        self.allowed += times
        if times and self._is_on(DEBUG):
            for _ in range(times):
                self._audit.record(
                    decision,
                    _audited(peer, api_key),
                    operation=operation,
                    resource=resource,
                    name=name,
                    now_ms=self._clock.now_ms(),
                )
        return True

    def allows_on_some(self, peer: Connected, operation: Operation, resource: Resource, api_key: int = -1) -> bool:
        """Return whether the operation is allowed on some resource of the type; raises AuthorizerNotReadyError."""
        if peer.is_this_node:
            return True
        allowed = self._standard.allows_on_some(peer.principal, peer.client_host, operation, resource)
        self.allowed += allowed
        self.denied += not allowed
        self._audit.record(
            Decision(allowed, BY_RESOURCE_TYPE),
            _audited(peer, api_key),
            operation=operation,
            resource=resource,
            name=ANYTHING,
            now_ms=self._clock.now_ms(),
        )
        return allowed


def _audited(peer: Connected, api_key: int) -> AuditedRequest:
    spec = APIS.get(api_key)
    return AuditedRequest(peer.principal, peer.client_host, "" if spec is None else spec.name)
