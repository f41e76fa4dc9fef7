"""Which operations a client may do on a resource, as a bit field (KIP-430)."""

from __future__ import annotations

from ottla.broker.requests.handler import AccessParts, RequestContext
from ottla.security import CLUSTER_NAME, Operation, Resource

__all__ = ["NOT_ASKED", "cluster_operations", "group_operations", "topic_operations"]

NOT_ASKED = -(1 << 31)
"""What an answer says where the client did not ask."""

_CLUSTER = (
    *(Operation.CREATE, Operation.CLUSTER_ACTION, Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS),
    *(Operation.IDEMPOTENT_WRITE, Operation.ALTER, Operation.DESCRIBE),
)
_TOPIC = (
    *(Operation.READ, Operation.WRITE, Operation.CREATE, Operation.DESCRIBE, Operation.DELETE, Operation.ALTER),
    *(Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS),
)

_GROUP = (Operation.READ, Operation.DELETE, Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS)


def cluster_operations(context: RequestContext[AccessParts]) -> int:
    """Return the bits of what the client may do to the cluster; none where it may not even describe it."""
    if not context.would_allow(Operation.DESCRIBE, Resource.CLUSTER):
        return 0
    return _bits(context, _CLUSTER, Resource.CLUSTER, CLUSTER_NAME)


def topic_operations(context: RequestContext[AccessParts], name: str) -> int:
    """Return the bits of what the client may do to a topic."""
    return _bits(context, _TOPIC, Resource.TOPIC, name)


def group_operations(context: RequestContext[AccessParts], group_id: str) -> int:
    """Return the bits of what the client may do to a group."""
    return _bits(context, _GROUP, Resource.GROUP, group_id)


def _bits(
    context: RequestContext[AccessParts], operations: tuple[Operation, ...], resource: Resource, name: str
) -> int:
    return sum(1 << each for each in operations if context.would_allow(each, resource, name))
