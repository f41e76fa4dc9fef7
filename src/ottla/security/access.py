"""The access that a request needs: what it does, and to which kind of resource, in the codes of Kafka's ACLs."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

__all__ = ["CLUSTER_NAME", "NEEDS_NOTHING", "Needs", "Operation", "Resource"]


class Operation(IntEnum):
    """What a request does to a resource: the codes of Kafka's `AclOperation`."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class Resource(IntEnum):
    """What a request touches: the codes of Kafka's `ResourceType` for ACLs."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


CLUSTER_NAME = "kafka-cluster"
"""The name of the one CLUSTER resource."""


@dataclass(frozen=True, slots=True)
class Needs:
    """The access that an API needs: an operation on a kind of resource."""

    operation: Operation | None
    resource: Resource | None


NEEDS_NOTHING = Needs(None, None)
"""For what everyone may ask, such as ApiVersions."""
