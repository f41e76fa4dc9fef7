"""What somebody is told who may not do what was asked, in Kafka's words."""

from __future__ import annotations

from collections.abc import Mapping

from ottla.base import ErrorCode, KafkaError
from ottla.security import Resource

__all__ = ["not_allowed"]

_REFUSALS: Mapping[Resource, tuple[ErrorCode, str]] = {
    Resource.TOPIC: (ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Topic authorization failed."),
    Resource.GROUP: (ErrorCode.GROUP_AUTHORIZATION_FAILED, "Group authorization failed."),
    Resource.CLUSTER: (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "Cluster authorization failed."),
    Resource.TRANSACTIONAL_ID: (
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        "Transactional Id authorization failed.",
    ),
}


def not_allowed(resource: Resource) -> KafkaError:
    """Return the error for a resource of this kind."""
    return KafkaError(*_REFUSALS[resource])
