"""Rules of one's own for topics and configurations: `create.topic.policy.class.name`, `alter.config.policy.class.name`."""

from __future__ import annotations

from dataclasses import dataclass

from ottla.broker.plugins import plugin
from ottla.config import BrokerConfig
from ottla.metadata import ConfigPolicy, TopicPolicy
from ottla.security import QuotaCallback

__all__ = ["GROUP", "QUOTA_CALLBACK", "Policies", "policies_of"]

GROUP = "ottla.policies"
"""The group of entry points: each names a class with a method `validate`."""

QUOTA_CALLBACK = "client.quota.callback.class"
QUOTA_GROUP = "ottla.quotas"
"""The group of entry points: each names a class with the methods of Kafka's ClientQuotaCallback."""
QUOTA_METHODS = (
    *("quota_metric_tags", "quota_limit", "update_quota", "remove_quota"),
    *("quota_reset_required", "update_cluster_metadata"),
)


@dataclass(frozen=True, slots=True)
class Policies:
    """What is asked before a topic is made, and before a configuration changes; None where everything may be."""

    topics: TopicPolicy | None = None
    configs: ConfigPolicy | None = None
    quotas: QuotaCallback | None = None
    """What says what clients are limited to, in place of the quotas that are set."""


def policies_of(config: BrokerConfig) -> Policies:
    """Return the policies that are configured; raises ConfigError for one that cannot be had."""
    settings = config.settings
    topics = settings.create_topic_policy_class_name
    configs = settings.alter_config_policy_class_name
    quotas = settings.client_quota_callback_class
    return Policies(
        plugin(config, "create.topic.policy.class.name", topics, GROUP, "validate").validate if topics else None,
        plugin(config, "alter.config.policy.class.name", configs, GROUP, "validate").validate if configs else None,
        plugin(config, QUOTA_CALLBACK, quotas, QUOTA_GROUP, *QUOTA_METHODS) if quotas else None,
    )
