"""Groups of the classic protocol: members join, one of them assigns, and everyone is told in a sync (KIP-62, KIP-345)."""

from ottla.groups.classic.draft import HEARTBEAT, JOIN, SYNC
from ottla.groups.classic.group import (
    CONSUMER_PROTOCOL,
    ClassicGroup,
    Member,
    State,
    group_from_record,
    group_record,
)
from ottla.groups.classic.join import join, join_refused
from ottla.groups.classic.membership import expired, heartbeat, leave, loaded, session, sync, sync_refused

__all__ = [
    "CONSUMER_PROTOCOL",
    "HEARTBEAT",
    "JOIN",
    "SYNC",
    "ClassicGroup",
    "Member",
    "State",
    "expired",
    "group_from_record",
    "group_record",
    "heartbeat",
    "join",
    "join_refused",
    "leave",
    "loaded",
    "session",
    "sync",
    "sync_refused",
]
