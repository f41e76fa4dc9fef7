"""How long elections and commits of the metadata quorum take, of late; and what this node is in it, in Kafka's words."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from ottla.raft import Candidate, Follower, Leader, Prospective, Resigned, Role

__all__ = ["QuorumTimes", "state_name"]

KEPT_MAX = 1000
"""The last of each that averages and maxima are taken of."""


@dataclass(slots=True)
class QuorumTimes:
    """Milliseconds; only numbers are kept, for whoever asks for the page of metrics."""

    commits_ms: deque[float] = field(default_factory=lambda: deque(maxlen=KEPT_MAX))
    elections_ms: deque[float] = field(default_factory=lambda: deque(maxlen=KEPT_MAX))
    _campaign_since_s: float | None = None

    def committed(self, began_s: float, now_s: float) -> None:
        """Note that what was appended then is committed now."""
        self.commits_ms.append((now_s - began_s) * 1000)

    def saw(self, role: Role, now_s: float) -> None:
        """Note what this node is: an election lasts from the first campaign until a leader is known."""
        if isinstance(role, Prospective | Candidate):
            if self._campaign_since_s is None:
                self._campaign_since_s = now_s
        elif self._campaign_since_s is not None and isinstance(role, Leader | Follower):
            self.elections_ms.append((now_s - self._campaign_since_s) * 1000)
            self._campaign_since_s = None


def state_name(role: Role, *, is_voter: bool, has_voted: bool) -> str:
    """Return Kafka's word for what a replica is."""
    match role:
        case Leader():
            return "leader"
        case Candidate():
            return "candidate"
        case Prospective():
            return "prospective-voted" if has_voted else "prospective"
        case Resigned():
            return "resigned"
        case Follower():
            return "follower" if is_voter else "observer"
    if not is_voter:
        return "observer"
    return "unattached-voted" if has_voted else "unattached"
