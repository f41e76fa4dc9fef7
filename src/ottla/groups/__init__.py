"""Groups: who reads which partitions, and how far each group has read; the group coordinator as pure decisions.

A shard is the state of one partition of `__consumer_offsets`: groups of every kind and their committed offsets, folded
from its records. Decisions take a request and return records, answers and timers; nothing here waits or knows the time.
"""

from ottla.groups import consumer
from ottla.groups.classic import ClassicGroup, join_refused, sync_refused
from ottla.groups.committing import commit, commit_refused, delete_offsets
from ottla.groups.committing_in_transaction import commit_in_transaction, commit_in_transaction_refused
from ottla.groups.decision import (
    NOTHING,
    Cluster,
    Committed,
    Decision,
    DecisionContext,
    Group,
    GroupKind,
    Record,
    Reply,
    RequestOrigin,
    Timer,
    TimerChange,
    TopicFacts,
    encode_records,
    new_uuid_text,
)
from ottla.groups.listing import (
    FetchedOffset,
    delete_group,
    describe_classic,
    fetch_all,
    fetch_offsets,
    list_groups,
)
from ottla.groups.routing import heartbeat, join, leave, sync
from ottla.groups.shard import EMPTY_STATE, Shard, ShardState

__all__ = [
    "EMPTY_STATE",
    "NOTHING",
    "ClassicGroup",
    "Cluster",
    "Committed",
    "Decision",
    "DecisionContext",
    "FetchedOffset",
    "Group",
    "GroupKind",
    "Record",
    "Reply",
    "RequestOrigin",
    "Shard",
    "ShardState",
    "Timer",
    "TimerChange",
    "TopicFacts",
    "commit",
    "commit_in_transaction",
    "commit_in_transaction_refused",
    "commit_refused",
    "consumer",
    "delete_group",
    "delete_offsets",
    "describe_classic",
    "encode_records",
    "fetch_all",
    "fetch_offsets",
    "heartbeat",
    "join",
    "join_refused",
    "leave",
    "list_groups",
    "new_uuid_text",
    "sync",
    "sync_refused",
]
