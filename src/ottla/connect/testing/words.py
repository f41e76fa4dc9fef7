"""What is said of cases: faults, and the names of source partitions."""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import Enum
from typing import Any

__all__ = ["Fault", "partition_name"]


class Fault(Enum):
    """What goes wrong at a step, once."""

    RETRIABLE = "a retriable error"
    FATAL = "a fatal error"
    REFUSED = "a refusal of records"
    TIMEOUT = "a lost answer"
    FENCED = "another that takes over"
    NEIGHBOUR = "a neighbour's transaction left open"
    STOP = "a stop"
    PAUSE = "a pause"
    RETRIABLE_STOP = "a retriable error, and a stop before it is tried again"
    RETRIABLE_PAUSE = "a retriable error, and a pause before it is tried again"
    REVOKED = "partitions taken away and given back"
    LOST = "partitions lost and given back"
    KILL_BEFORE = "a kill before it"
    KILL_AFTER = "a kill behind it"


def partition_name(partition: Mapping[str, Any]) -> str:
    """Return a source partition's name, whatever the order of its fields."""
    return json.dumps(dict(partition), sort_keys=True, default=repr)
