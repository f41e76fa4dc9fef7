"""What somebody's own rules judge before a topic is made or a configuration changed (KIP-108, KIP-133)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from ottla.base import ErrorCode, KafkaError, OttlaError

__all__ = ["ConfigPolicy", "PolicyViolationError", "ProposedConfig", "ProposedTopic", "TopicPolicy", "held_against"]


class PolicyViolationError(OttlaError):
    """Raised by a policy that refuses; the client is told its text with POLICY_VIOLATION."""


@dataclass(frozen=True, slots=True)
class ProposedTopic:
    """A topic that would be made: counts where the controller places its copies, else who holds each partition."""

    name: str
    num_partitions: int | None
    replication_factor: int | None
    assignments: Mapping[int, tuple[int, ...]] | None
    configs: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ProposedConfig:
    """Values that would be set on a resource; keys that would be removed are not among them."""

    resource_type: str
    """`TOPIC`, `BROKER`, `GROUP` or `CLIENT_METRICS`."""
    resource_name: str
    """The name; empty for all brokers."""
    configs: Mapping[str, str]


TopicPolicy = Callable[[ProposedTopic], None]
"""Raises PolicyViolationError for a topic that must not be made; must neither wait nor change anything."""
ConfigPolicy = Callable[[ProposedConfig], None]
"""The same for values."""
Proposed = TypeVar("Proposed", ProposedTopic, ProposedConfig)


def held_against(policy: Callable[[Proposed], None], proposed: Proposed) -> None:
    """Ask a policy; raises POLICY_VIOLATION with its words, and UNKNOWN_SERVER_ERROR where it fails itself."""
    try:
        policy(proposed)
    except PolicyViolationError as error:
        raise KafkaError(ErrorCode.POLICY_VIOLATION, str(error)) from error
    except KafkaError:
        raise
    except Exception as error:  # another's code: whatever it raises, nothing must be let through by it
        text = f"The policy failed: {type(error).__name__}"
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, text) from error
