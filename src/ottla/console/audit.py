"""Who changed what: the newest changes in memory, each also a line of the log."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass

from ottla.admin.actions import ActionPlan, Undo

__all__ = ["Audit", "AuditEntry"]

log = logging.getLogger("ottla.console.audit")

ENTRIES_MAX = 500
CHANGES_MAX = 200
"""Differences that are kept of one change."""


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """One change: when, by whom, of which cluster, and what came of it."""

    id: int
    at_ms: int
    who: str
    cluster: str
    action: str
    diff: tuple[Mapping[str, object], ...]
    cli: str
    outcome: str
    """`done`, or the error's text."""
    undo: Undo | None = None

    def shown(self) -> dict[str, object]:
        """Return it in JSON's terms."""
        return {
            "id": self.id,
            "at_ms": self.at_ms,
            "who": self.who,
            "cluster": self.cluster,
            "action": self.action,
            "diff": list(self.diff),
            "cli": self.cli,
            "outcome": self.outcome,
            "undo": self.undo is not None,
        }


class Audit:
    """Keeps the newest changes."""

    def __init__(self) -> None:
        self._entries: OrderedDict[int, AuditEntry] = OrderedDict()
        self._last = 0

    def add(self, at_ms: int, who: str, cluster: str, plan: ActionPlan, outcome: str) -> AuditEntry:
        """Keep a change, and log it; values of secrets are in neither."""
        self._last += 1
        diff = tuple(
            {"path": each.path, "before": each.before, "after": each.after} for each in plan.differences[:CHANGES_MAX]
        )
        undo = plan.undo if outcome == "done" else None
        entry = AuditEntry(self._last, at_ms, who, cluster, plan.action, diff, plan.cli, outcome, undo)
        self._entries[entry.id] = entry
        while len(self._entries) > ENTRIES_MAX:
            self._entries.popitem(last=False)
        changes = "; ".join(f"{each.path}: {each.before} -> {each.after}" for each in plan.differences[:20])
        log.info("%s of %s by %s: %s (%s)", plan.action, cluster, who, changes or "nothing", outcome)
        return entry

    def newest(self, cluster: str, who: str | None = None) -> list[AuditEntry]:
        """Return a cluster's changes, or those by somebody, the newest first."""
        return [
            each for each in reversed(self._entries.values()) if each.cluster == cluster and who in (None, each.who)
        ]

    def entry(self, number: int) -> AuditEntry | None:
        """Return one change."""
        return self._entries.get(number)
