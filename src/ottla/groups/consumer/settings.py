"""What a consumer group is configured with: `group.consumer.*` of the broker, and the group's own `consumer.*`."""

from __future__ import annotations

from dataclasses import dataclass

from ottla.base import ConfigError
from ottla.config import BrokerSettings
from ottla.groups.consumer.assignors import ASSIGNORS
from ottla.groups.decision import DecisionContext

__all__ = ["ConsumerSettings", "MigrationPolicy", "assignor_names", "check_assignors", "settings_of"]

_CLASS_NAMES = {
    "org.apache.kafka.coordinator.group.assignor.UniformAssignor": "uniform",
    "org.apache.kafka.coordinator.group.assignor.RangeAssignor": "range",
}
"""Kafka's own assignors by class, as a configuration may name them."""


@dataclass(frozen=True, slots=True)
class MigrationPolicy:
    """In which directions a group may change its protocol while it has members."""

    upgrades: bool
    downgrades: bool


@dataclass(frozen=True, slots=True)
class ConsumerSettings:
    """What is in effect for one group."""

    session_timeout_ms: int
    heartbeat_interval_ms: int
    assignment_interval_ms: int
    regex_refresh_interval_ms: int
    size_max: int
    assignors: tuple[str, ...]
    migration: MigrationPolicy


_POLICIES = {
    "disabled": MigrationPolicy(upgrades=False, downgrades=False),
    "upgrade": MigrationPolicy(upgrades=True, downgrades=False),
    "downgrade": MigrationPolicy(upgrades=False, downgrades=True),
    "bidirectional": MigrationPolicy(upgrades=True, downgrades=True),
}


def assignor_names(broker: BrokerSettings) -> tuple[str, ...]:
    """Return the server-side assignors that members may ask for, the default one first."""
    return tuple(_CLASS_NAMES.get(each, each) for each in broker.group_consumer_assignors)


def check_assignors(broker: BrokerSettings) -> None:
    """Raise ConfigError where `group.consumer.assignors` names what is no assignor of this broker."""
    for name in assignor_names(broker):
        if name not in ASSIGNORS:
            raise ConfigError("group.consumer.assignors", name, f"assignors are {', '.join(ASSIGNORS)}")


def settings_of(group_id: str, context: DecisionContext) -> ConsumerSettings:
    """Return the settings of a group; its own stay within the broker's bounds, whenever those were set."""
    broker = context.settings
    own = context.cluster.group_config(group_id)

    def within(key: str, default: int, lowest: int, highest: int) -> int:
        return min(max(int(own[key]), lowest), highest) if key in own else default

    return ConsumerSettings(
        session_timeout_ms=within(
            "consumer.session.timeout.ms",
            broker.group_consumer_session_timeout_ms,
            broker.group_consumer_min_session_timeout_ms,
            broker.group_consumer_max_session_timeout_ms,
        ),
        heartbeat_interval_ms=within(
            "consumer.heartbeat.interval.ms",
            broker.group_consumer_heartbeat_interval_ms,
            broker.group_consumer_min_heartbeat_interval_ms,
            broker.group_consumer_max_heartbeat_interval_ms,
        ),
        assignment_interval_ms=within(
            "consumer.assignment.interval.ms",
            broker.group_consumer_assignment_interval_ms,
            broker.group_consumer_min_assignment_interval_ms,
            broker.group_consumer_max_assignment_interval_ms,
        ),
        regex_refresh_interval_ms=broker.group_consumer_regex_refresh_interval_ms,
        size_max=broker.group_consumer_max_size,
        assignors=assignor_names(broker),
        migration=_POLICIES[broker.group_consumer_migration_policy.lower()],
    )
