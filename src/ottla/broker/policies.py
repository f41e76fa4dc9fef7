"""Rules of one's own for topics and configurations: `create.topic.policy.class.name`, `alter.config.policy.class.name`."""

from __future__ import annotations

from dataclasses import dataclass

from ottla.broker.plugins import plugin
from ottla.config import BrokerConfig
from ottla.metadata import ConfigPolicy, TopicPolicy

__all__ = ["GROUP", "Policies", "policies_of"]

GROUP = "ottla.policies"
"""The group of entry points: each names a class with a method `validate`."""


@dataclass(frozen=True, slots=True)
class Policies:
    """What is asked before a topic is made, and before a configuration changes; None where everything may be."""

    topics: TopicPolicy | None = None
    configs: ConfigPolicy | None = None


def policies_of(config: BrokerConfig) -> Policies:
    """Return the policies that are configured; raises ConfigError for one that cannot be had."""
    settings = config.settings
    topics = settings.create_topic_policy_class_name
    configs = settings.alter_config_policy_class_name
    return Policies(
        plugin(config, "create.topic.policy.class.name", topics, GROUP, "validate").validate if topics else None,
        plugin(config, "alter.config.policy.class.name", configs, GROUP, "validate").validate if configs else None,
    )
