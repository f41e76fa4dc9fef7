"""Who stands between a TLS listener's connections and the router while they shake hands.

Nobody logs in there: who it is the handshake says. Until it has, a connection is one of those that are nobody's yet.
"""

from __future__ import annotations

from ottla.broker.requests.connection import Connection, RequestSink
from ottla.broker.sasl.pending_logins import PendingLogins

__all__ = ["HandshakeDoor"]


class HandshakeDoor:
    """Takes in the connections of one listener; `router` serves who has shaken hands."""

    def __init__(self, router: RequestSink, pending: PendingLogins) -> None:
        self._router = router
        self._pending = pending

    def opened(self, connection: Connection) -> bool:
        """Count a connection, and await its handshake; False refuses it."""
        if not self._router.opened(connection):
            return False
        self._pending.add(connection)
        return True

    def secured(self, connection: Connection) -> None:
        """Hand over who has shaken hands."""
        self._pending.remove(connection)
        connection.hand_over(self._router)

    def closed(self, connection: Connection) -> None:
        """Forget a connection."""
        self._pending.remove(connection)
        self._router.closed(connection)

    def handle(self, connection: Connection, frame: memoryview) -> None:
        """Handle nothing: no request is read before the handshake is complete."""
        raise AssertionError("a connection that has not shaken hands has sent a request")

    def held_back(self, frame: memoryview, seconds: float) -> None:
        """Nothing is held back here."""
