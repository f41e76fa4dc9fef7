"""Decisions: pure functions from an image and a request to records and a response."""

from ottla.metadata.decide.acls import FoundAcls, RemovedAcls, create_acls, delete_acls, find_acls, found_acls
from ottla.metadata.decide.alter_partition import alter_partition, check_broker_epoch
from ottla.metadata.decide.bootstrap import bootstrap, bootstrap_records
from ottla.metadata.decide.brokers import (
    BrokerState,
    Registration,
    fence_broker,
    heartbeat,
    register_broker,
    register_controller,
    unregister_broker,
)
from ottla.metadata.decide.client_quotas import AlteredQuotas, alter_client_quotas, matching_quotas
from ottla.metadata.decide.configs import AlteredConfig, ConfigOperation, alter_configs, replace_configs
from ottla.metadata.decide.decision import Decision
from ottla.metadata.decide.delegation_tokens import create_token, expire_token, renew_token, sweep_tokens, token_of
from ottla.metadata.decide.elections import balance_leaders, elect_leaders, elect_unclean_leaders, is_imbalanced
from ottla.metadata.decide.features import FeatureUpdate, UpgradeType, update_features
from ottla.metadata.decide.hand_over import Departure, HandOver, hand_over
from ottla.metadata.decide.names import validate_topic_name
from ottla.metadata.decide.partition_change import min_insync_replicas
from ottla.metadata.decide.placement import place
from ottla.metadata.decide.producer_ids import PRODUCER_ID_BLOCK_SIZE, ProducerIdBlock, allocate_producer_ids
from ottla.metadata.decide.reassignments import (
    alter_partition_reassignments,
    is_reassigning,
    list_partition_reassignments,
)
from ottla.metadata.decide.replica_directories import assign_replicas_to_dirs
from ottla.metadata.decide.resources import CLIENT_METRICS_KEYS
from ottla.metadata.decide.scram_credentials import (
    FoundCredentials,
    alter_scram_credentials,
    found_scram_credentials,
    scram_record,
)
from ottla.metadata.decide.topics import TopicRef, create_partitions, create_topics, delete_topics

__all__ = [
    "CLIENT_METRICS_KEYS",
    "PRODUCER_ID_BLOCK_SIZE",
    "AlteredConfig",
    "AlteredQuotas",
    "BrokerState",
    "ConfigOperation",
    "Decision",
    "Departure",
    "FeatureUpdate",
    "FoundAcls",
    "FoundCredentials",
    "HandOver",
    "ProducerIdBlock",
    "Registration",
    "RemovedAcls",
    "TopicRef",
    "UpgradeType",
    "allocate_producer_ids",
    "alter_client_quotas",
    "alter_configs",
    "alter_partition",
    "alter_partition_reassignments",
    "alter_scram_credentials",
    "assign_replicas_to_dirs",
    "balance_leaders",
    "bootstrap",
    "bootstrap_records",
    "check_broker_epoch",
    "create_acls",
    "create_partitions",
    "create_token",
    "create_topics",
    "delete_acls",
    "delete_topics",
    "elect_leaders",
    "elect_unclean_leaders",
    "expire_token",
    "fence_broker",
    "find_acls",
    "found_acls",
    "found_scram_credentials",
    "hand_over",
    "heartbeat",
    "is_imbalanced",
    "is_reassigning",
    "list_partition_reassignments",
    "matching_quotas",
    "min_insync_replicas",
    "place",
    "register_broker",
    "register_controller",
    "renew_token",
    "replace_configs",
    "scram_record",
    "sweep_tokens",
    "token_of",
    "unregister_broker",
    "update_features",
    "validate_topic_name",
]
