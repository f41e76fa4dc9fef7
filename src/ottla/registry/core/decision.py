"""What a decision is: records to append, the answer once they are committed, and what has to fit together before."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ottla.registry.core.records import AVRO, Record, StoredSchema
from ottla.schemas import SchemaReference

__all__ = ["NO_LEVEL", "Decision", "Wanted"]

NO_LEVEL = "NONE"


@dataclass(frozen=True)
class Wanted:
    """A schema that a client registers or looks up, in its canonical text."""

    text: str
    schema_type: str = AVRO
    references: tuple[SchemaReference, ...] = ()
    metadata: Mapping[str, Any] | None = None
    rule_set: Mapping[str, Any] | None = None
    version: int = 0
    """The version that it is to be; 0 is the next one."""
    id: int | None = None
    """The id that it is to have, where the mode is IMPORT."""


@dataclass(frozen=True)
class Decision:
    """The answer holds where the records are appended; without records nothing changes.

    `new` has to fit the older versions, the oldest first, at this level: whoever carries the decision out checks that.
    """

    records: tuple[Record, ...]
    answer: Any
    new: StoredSchema | None = None
    older: tuple[StoredSchema, ...] = field(default=())
    level: str = NO_LEVEL
