"""Who of the brokers has been heard from lately, as the active controller remembers it: no clock, no record.

Every broker has a session, which each of its heartbeats renews. A new controller gives everyone a whole session, since it
cannot know who was heard by the one before.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ottla.base import NodeId

__all__ = ["BrokerSession", "BrokerSessions"]


@dataclass(slots=True)
class BrokerSession:
    """What is known of one broker; times are the event loop's, in seconds."""

    epoch: int
    ends_at: float
    heard: bool = False
    """True once it was heard from by this controller."""
    channel: object = None
    """The connection that its last heartbeat came through; None once that is closed."""
    metadata_offset: int = -1
    """How far it had the metadata when it was heard last."""
    leaves_after: int | None = None
    """Where it shuts down under control: the offset that tells others of its last leaderships' new leaders."""


class BrokerSessions:
    """The sessions of one leadership of the quorum."""

    def __init__(self, timeout_s: float) -> None:
        self.timeout_s = timeout_s
        self._sessions: dict[NodeId, BrokerSession] = {}
        self._fetching: dict[NodeId, object] = {}
        self._shown: dict[NodeId, int] = {}

    def begin(self, brokers: Iterable[tuple[NodeId, int]], now: float) -> None:
        """Give each of these (broker, epoch) a whole session, and forget all others."""
        self._sessions = {node: BrokerSession(epoch, now + self.timeout_s) for node, epoch in brokers}

    def heard(
        self, node: NodeId, epoch: int, now: float, *, channel: object, metadata_offset: int = -1
    ) -> BrokerSession:
        """Renew a broker's session."""
        session = self._sessions.get(node)
        if session is None or session.epoch != epoch:
            session = self._sessions[node] = BrokerSession(epoch, 0.0)
        session.ends_at = now + self.timeout_s
        session.heard = True
        session.channel = channel
        session.metadata_offset = max(session.metadata_offset, metadata_offset)
        return session

    def get(self, node: NodeId, epoch: int) -> BrokerSession | None:
        """Return a broker's session in this epoch."""
        session = self._sessions.get(node)
        return session if session is not None and session.epoch == epoch else None

    def forget(self, node: NodeId) -> None:
        """End a session: the broker is fenced, or gone."""
        self._sessions.pop(node, None)

    def fetches(self, node: NodeId, channel: object, shown: int = -1) -> None:
        """Note the connection through which a node asks for metadata, without a pause, and what its image shows."""
        self._fetching[node] = channel
        self._shown[node] = max(shown, self._shown.get(node, -1))

    def shown(self, node: NodeId, epoch: int) -> int:
        """Return the highest offset that a broker's image is known to show, -1 where nothing is known."""
        session = self.get(node, epoch)
        return max(-1 if session is None else session.metadata_offset, self._shown.get(node, -1))

    def is_fetching(self, node: NodeId) -> bool:
        """Return whether the connection is open through which a node asked for metadata last: then its process lives."""
        return node in self._fetching

    def disconnected(self, channel: object) -> NodeId | None:
        """Return whose last heartbeat, or question for metadata, came through this connection, which is closed."""
        for node, fetching in self._fetching.items():
            if fetching is channel:
                del self._fetching[node]
                return node
        for node, session in self._sessions.items():
            if session.channel is channel:
                session.channel = None
                return node
        return None

    def is_lively(self, node: NodeId, epoch: int, now: float) -> bool:
        """True where the broker of this epoch was heard from, in time, through a connection that is still open."""
        session = self.get(node, epoch)
        return session is not None and session.heard and session.channel is not None and session.ends_at > now

    def ended(self, now: float) -> list[NodeId]:
        """Return whose session is over, the longest first."""
        over = [(session.ends_at, node) for node, session in self._sessions.items() if session.ends_at <= now]
        return [node for _, node in sorted(over)]

    def unheard(self) -> list[NodeId]:
        """Return who was not heard from in this leadership."""
        return sorted(node for node, session in self._sessions.items() if not session.heard)

    @property
    def next_end(self) -> float | None:
        """When the next session ends if nothing is heard."""
        return min((session.ends_at for session in self._sessions.values()), default=None)
