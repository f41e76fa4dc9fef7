"""A follower's half of an incremental fetch session (KIP-227): what its next request has to name.

The leader remembers what was asked for, so a request names only what is new, what moved, and what is no longer wanted: a
follower of ten thousand idle partitions asks for none of them.
"""

from __future__ import annotations

from typing import NamedTuple

from ottla.replica.sessions import INITIAL_EPOCH, NO_SESSION, next_session_epoch

__all__ = ["FollowedKey", "FollowerSession", "SessionRequest"]

FollowedKey = tuple[bytes, int]
"""A topic's id and a partition's index."""


class SessionRequest(NamedTuple):
    """What one request says: `epoch` 0 asks for a new session in the place of `id`."""

    id: int
    epoch: int
    asked: list[FollowedKey]
    forgotten: list[FollowedKey]


class FollowerSession:
    """The partitions that one fetcher wants from one leader, and what the leader knows of that."""

    __slots__ = ("_changed", "_epoch", "_forgotten", "_id", "_known", "_wanted")

    def __init__(self) -> None:
        self._id = NO_SESSION
        self._epoch = INITIAL_EPOCH
        self._wanted: dict[FollowedKey, None] = {}
        self._changed: dict[FollowedKey, None] = {}
        self._forgotten: dict[FollowedKey, None] = {}
        self._known: dict[FollowedKey, None] = {}

    def __len__(self) -> int:
        return len(self._wanted)

    def want(self, key: FollowedKey) -> None:
        """Fetch a partition from now on, or say again from where."""
        self._wanted[key] = None
        self._changed[key] = None
        if self._forgotten:
            self._forgotten.pop(key, None)

    def drop(self, key: FollowedKey) -> None:
        """Fetch a partition no longer."""
        self._wanted.pop(key, None)
        self._changed.pop(key, None)
        if key in self._known:
            self._forgotten[key] = None

    def reset(self) -> None:
        """Begin a new session with the next request: the leader does not know this one, or the connection is another."""
        self._epoch = INITIAL_EPOCH
        self._known.clear()

    def next_request(self) -> SessionRequest:
        """Return what the next request says; `answered` is to follow, or `reset`."""
        if self._epoch == INITIAL_EPOCH:
            asked, forgotten = list(self._wanted), []
            self._known = dict(self._wanted)
        else:
            asked, forgotten = list(self._changed), list(self._forgotten)
            self._known.update(self._changed)
            for key in forgotten:
                self._known.pop(key, None)
        self._changed.clear()
        self._forgotten.clear()
        return SessionRequest(self._id, self._epoch, asked, forgotten)

    def answered(self, session_id: int) -> None:
        """Take in the answer to the last request: 0 where the leader has no room for a session."""
        if self._epoch == INITIAL_EPOCH:
            self._id = session_id
            self._epoch = INITIAL_EPOCH if session_id == NO_SESSION else 1
        else:
            self._epoch = next_session_epoch(self._epoch)
