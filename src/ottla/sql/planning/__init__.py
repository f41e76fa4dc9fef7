"""Analysis: a statement and a catalogue give a plan, or are refused in ksqlDB's words."""

from __future__ import annotations

from ottla.sql.planning.statements import plan_create_as, plan_insert, plan_select
from ottla.sql.planning.upgrades import check_upgrade

__all__ = ["check_upgrade", "plan_create_as", "plan_insert", "plan_select"]
