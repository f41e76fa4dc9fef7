"""Changes that were made, kept in a topic, so that a console that starts knows those of the one before, and of others.

Where the console may not write it, or the cluster does not answer, that is logged, and changes are kept in memory only, as
they are in the log in any case.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import Any

from ottla.base import Millis, OttlaError
from ottla.client import Client
from ottla.console.audit import ENTRIES_MAX, AuditEntry, entry_of
from ottla.console.own_topic import OwnTopic
from ottla.wire import Record

__all__ = ["AuditTopic"]

log = logging.getLogger(__name__)

FOR_EVER = {"cleanup.policy": "delete", "retention.ms": "-1"}


class AuditTopic:
    """The topic of one cluster; `name` is empty where there is to be none."""

    def __init__(self, client: Client, cluster: str, name: str) -> None:
        self._topic = OwnTopic(client, name, FOR_EVER)
        self._cluster = cluster

    async def load(self) -> list[AuditEntry]:
        """Return the newest changes that it holds, the oldest of them first; raises OttlaError."""
        records = self._topic.records(newest=ENTRIES_MAX)
        found = [_read(each, self._cluster) async for each in records]
        return [each for each in found if each is not None]

    async def write(self, entry: AuditEntry) -> None:
        """Append a change; what goes wrong is logged, since the change itself was made."""
        value = json.dumps(entry.kept(), ensure_ascii=False).encode(errors="replace")
        try:
            await self._topic.append(
                Record(timestamp=Millis(entry.at_ms), key=entry.who.encode(errors="replace"), value=value)
            )
        except OttlaError as error:
            log.warning("a change is not kept in %s: %s", self._topic.name, error)


def _read(record: Record, cluster: str) -> AuditEntry | None:
    """Return what a record holds; None for what a console has not written."""
    try:
        found: Any = json.loads(record.value or b"")
        return entry_of(found, cluster) if isinstance(found, Mapping) else None
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
