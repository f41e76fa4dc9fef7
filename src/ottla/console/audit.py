"""Who changed what: the newest changes in memory, each also a line of the log and a record of a topic (`audit_topic`)."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ottla.admin.actions import ActionPlan, Undo

__all__ = ["ENTRIES_MAX", "Audit", "AuditEntry", "entry_of"]

log = logging.getLogger("ottla.console.audit")

ENTRIES_MAX = 500
IDS_PER_MS = 1000
"""A change's number begins with its time, so that those of consoles before and beside this one differ."""
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

    def kept(self) -> dict[str, object]:
        """Return it as a topic keeps it; how to take it back only where that holds no secret."""
        undo = self.undo if self.undo is not None and not self.undo.is_secret else None
        return {
            "id": self.id,
            "at_ms": self.at_ms,
            "who": self.who,
            "action": self.action,
            "diff": list(self.diff),
            "cli": self.cli,
            "outcome": self.outcome,
            "undo": None if undo is None else {"action": undo.action, "arguments": dict(undo.arguments)},
        }


def entry_of(kept: Mapping[str, Any], cluster: str) -> AuditEntry:
    """Return a change as a topic keeps it; raises KeyError, TypeError, ValueError for anything else."""
    undo = kept.get("undo")
    return AuditEntry(
        *(int(kept["id"]), int(kept["at_ms"]), str(kept["who"]), cluster, str(kept["action"])),
        tuple({"path": str(each["path"]), "before": each["before"], "after": each["after"]} for each in kept["diff"]),
        *(str(kept["cli"]), str(kept["outcome"])),
        None if undo is None else Undo(str(undo["action"]), dict(undo["arguments"])),
    )


class Audit:
    """Keeps the newest changes."""

    def __init__(self) -> None:
        self._entries: OrderedDict[int, AuditEntry] = OrderedDict()
        self._last = 0

    def add(self, at_ms: int, who: str, cluster: str, plan: ActionPlan, outcome: str) -> AuditEntry:
        """Keep a change, and log it; values of secrets are in neither."""
        self._last = max(self._last + 1, at_ms * IDS_PER_MS)
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

    def take(self, entries: Iterable[AuditEntry]) -> None:
        """Take in changes that were kept elsewhere; those that are known stay as they are."""
        known = {each.id: each for each in entries} | self._entries
        self._entries = OrderedDict(sorted(known.items())[-ENTRIES_MAX:])
        self._last = max([self._last, *self._entries])

    def newest(self, cluster: str, who: str | None = None) -> list[AuditEntry]:
        """Return a cluster's changes, or those by somebody, the newest first."""
        return [
            each for each in reversed(self._entries.values()) if each.cluster == cluster and who in (None, each.who)
        ]

    def entry(self, number: int) -> AuditEntry | None:
        """Return one change."""
        return self._entries.get(number)
