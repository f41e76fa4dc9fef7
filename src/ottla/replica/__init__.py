"""One partition among its copies, without touching any of them.

`Replica` knows who leads, in which epoch, who is in sync and what every copy has, and so where the high watermark is
and which request is fenced; a partition with one copy is the same thing with one entry. `DeadlineQueue` and
`KeyedWaits` hold answers that have to wait, `FetchSessionCache` the incremental fetch sessions of KIP-227. All time
is an argument.
"""

from ottla.replica.follower_session import FollowedKey, FollowerSession, SessionRequest
from ottla.replica.replica import NEVER, NO_BROKER_EPOCH, NO_EPOCH, FollowerView, IsrProposal, LastFetch, Replica, Role
from ottla.replica.selection import nearest_follower
from ottla.replica.sessions import FetchedPartition, FetchSession, FetchSessionCache, SessionKey, next_session_epoch
from ottla.replica.waits import DeadlineQueue, KeyedWaits, Wait

__all__ = [
    "NEVER",
    "NO_BROKER_EPOCH",
    "NO_EPOCH",
    "DeadlineQueue",
    "FetchSession",
    "FetchSessionCache",
    "FetchedPartition",
    "FollowedKey",
    "FollowerSession",
    "FollowerView",
    "IsrProposal",
    "KeyedWaits",
    "LastFetch",
    "Replica",
    "Role",
    "SessionKey",
    "SessionRequest",
    "Wait",
    "nearest_follower",
    "next_session_epoch",
]
