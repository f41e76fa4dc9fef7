"""Analysis: a statement and a catalogue give a plan, or are refused in ksqlDB's words."""

from __future__ import annotations

from ottla.sql.planning.ruled import NESTED_NULLS, PRESERVE_NULLS, ruled
from ottla.sql.planning.statements import (
    THROWS_ON_INVALID_TIMES,
    TOPIC_PREFIX,
    plan_create_as,
    plan_insert,
    plan_select,
)
from ottla.sql.planning.upgrades import check_upgrade

__all__ = [
    "NESTED_NULLS",
    "PRESERVE_NULLS",
    "THROWS_ON_INVALID_TIMES",
    "TOPIC_PREFIX",
    "check_upgrade",
    "plan_create_as",
    "plan_insert",
    "plan_select",
    "ruled",
]
