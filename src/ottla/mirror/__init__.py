"""MirrorMaker 2: clusters that follow each other, by three source connectors under Kafka's class names (KIP-382).

`ReplicationPolicy`, `TopicFilter`, `GroupFilter`, `ConfigPropertyFilter` and `ForwardingAdmin` are what classes of one's own
inherit from, which settings name (`own_classes`). `policies` name topics elsewhere, `records` are the bytes of the internal
topics, `offset_syncs` translate offsets: these are pure. `source`, `checkpoints` and `heartbeats` are the connectors with
their tasks, which any Connect worker runs; `dedicated` is what the properties of a MirrorMaker by itself mean for workers.
"""

from __future__ import annotations

from typing import Any

from ottla.mirror.checkpoints import MirrorCheckpointConnector
from ottla.mirror.dedicated import Flow, flows_of, has_internal_rest
from ottla.mirror.filters import (
    ConfigPropertyFilter,
    DefaultConfigPropertyFilter,
    DefaultGroupFilter,
    DefaultTopicFilter,
    GroupFilter,
    TopicFilter,
)
from ottla.mirror.forwarding_admin import ForwardingAdmin
from ottla.mirror.heartbeats import MirrorHeartbeatConnector
from ottla.mirror.policies import DefaultReplicationPolicy, IdentityReplicationPolicy, ReplicationPolicy
from ottla.mirror.source import MirrorSourceConnector

__all__ = [
    "MIRROR_CONNECTORS",
    "ConfigPropertyFilter",
    "DefaultConfigPropertyFilter",
    "DefaultGroupFilter",
    "DefaultReplicationPolicy",
    "DefaultTopicFilter",
    "Flow",
    "ForwardingAdmin",
    "GroupFilter",
    "IdentityReplicationPolicy",
    "MirrorCheckpointConnector",
    "MirrorHeartbeatConnector",
    "MirrorSourceConnector",
    "ReplicationPolicy",
    "TopicFilter",
    "flows_of",
    "has_internal_rest",
]

MIRROR_CONNECTORS: tuple[type[Any], ...] = (
    MirrorCheckpointConnector,
    MirrorHeartbeatConnector,
    MirrorSourceConnector,
)
"""Every connector's class."""
