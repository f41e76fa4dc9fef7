"""Cluster metadata as a fold over KRaft's records.

`Image` is what the cluster is, immutable; `apply` folds one record into it; `snapshot_records` turns it back into
records; `delta_between` says what moved. The functions of `decide` look at an image and a request and return records
and a response, changing nothing: the caller appends the records through Raft, applies them, and answers when they are
committed.
"""

from ottla.metadata import decide
from ottla.metadata.acls import NO_ACLS, Acl, AclChanges, Acls
from ottla.metadata.apply import Record, apply, apply_all
from ottla.metadata.cluster_view import ClusterView
from ottla.metadata.delta import Delta, delta_between
from ottla.metadata.features import (
    DEFAULT_LEVELS,
    GROUP_VERSION,
    METADATA_VERSION_LATEST,
    METADATA_VERSION_OLDEST,
    SCRAM_SINCE,
    SUPPORTED_FEATURES,
    TOKENS_SINCE,
    UNSERVED_FEATURES,
)
from ottla.metadata.image import (
    DIRECTORY_LOST,
    DIRECTORY_MIGRATING,
    DIRECTORY_UNASSIGNED,
    EMPTY_IMAGE,
    NO_LEADER,
    Broker,
    ConfigResource,
    Controller,
    DelegationToken,
    Endpoint,
    Image,
    Partition,
    QuotaEntity,
    ResourceType,
    Topic,
)
from ottla.metadata.policies import ConfigPolicy, PolicyViolationError, ProposedConfig, ProposedTopic, TopicPolicy
from ottla.metadata.snapshot import lowered, record_version, snapshot_records

__all__ = [
    "DEFAULT_LEVELS",
    "DIRECTORY_LOST",
    "DIRECTORY_MIGRATING",
    "DIRECTORY_UNASSIGNED",
    "EMPTY_IMAGE",
    "GROUP_VERSION",
    "METADATA_VERSION_LATEST",
    "METADATA_VERSION_OLDEST",
    "NO_ACLS",
    "NO_LEADER",
    "SCRAM_SINCE",
    "SUPPORTED_FEATURES",
    "TOKENS_SINCE",
    "UNSERVED_FEATURES",
    "Acl",
    "AclChanges",
    "Acls",
    "Broker",
    "ClusterView",
    "ConfigPolicy",
    "ConfigResource",
    "Controller",
    "DelegationToken",
    "Delta",
    "Endpoint",
    "Image",
    "Partition",
    "PolicyViolationError",
    "ProposedConfig",
    "ProposedTopic",
    "QuotaEntity",
    "Record",
    "ResourceType",
    "Topic",
    "TopicPolicy",
    "apply",
    "apply_all",
    "decide",
    "delta_between",
    "lowered",
    "record_version",
    "snapshot_records",
]
