"""Consumer groups of the new protocol (KIP-848): the broker assigns, and moves members towards the target one by one."""

from __future__ import annotations

from ottla.groups.consumer.apply import KEYS
from ottla.groups.consumer.apply import apply_to as apply
from ottla.groups.consumer.classic_members import classic_heartbeat, classic_join, classic_leave, classic_sync
from ottla.groups.consumer.describe import describe
from ottla.groups.consumer.group import ConsumerGroup
from ottla.groups.consumer.heartbeat import heartbeat
from ottla.groups.consumer.request import check_request
from ottla.groups.consumer.settings import assignor_names, check_assignors
from ottla.groups.consumer.timers import expired, loaded

__all__ = [
    "KEYS",
    "ConsumerGroup",
    "apply",
    "assignor_names",
    "check_assignors",
    "check_request",
    "classic_heartbeat",
    "classic_join",
    "classic_leave",
    "classic_sync",
    "describe",
    "expired",
    "heartbeat",
    "loaded",
]
