"""Decisions: pure functions from an image and a request to records and a response."""

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
from ottla.metadata.decide.names import validate_topic_name
from ottla.metadata.decide.placement import place
from ottla.metadata.decide.producer_ids import PRODUCER_ID_BLOCK_SIZE, ProducerIdBlock, allocate_producer_ids
from ottla.metadata.decide.resources import CLIENT_METRICS_KEYS
from ottla.metadata.decide.topics import TopicRef, create_partitions, create_topics, delete_topics

__all__ = [
    "CLIENT_METRICS_KEYS",
    "PRODUCER_ID_BLOCK_SIZE",
    "AlteredConfig",
    "AlteredQuotas",
    "BrokerState",
    "ConfigOperation",
    "Decision",
    "ProducerIdBlock",
    "Registration",
    "TopicRef",
    "allocate_producer_ids",
    "alter_client_quotas",
    "alter_configs",
    "bootstrap",
    "bootstrap_records",
    "create_partitions",
    "create_topics",
    "delete_topics",
    "fence_broker",
    "heartbeat",
    "matching_quotas",
    "place",
    "register_broker",
    "register_controller",
    "replace_configs",
    "unregister_broker",
    "validate_topic_name",
]
