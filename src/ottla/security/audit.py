"""Decisions of the authorizer as lines of the logger `kafka.authorizer.logger`, in Kafka's words and at Kafka's levels.

What was asked for and denied is INFO, what was allowed DEBUG; what was only looked up, to filter a list or to say what a
client may do, is TRACE. Each level has so many lines a second; how many were left out is said in a line of its own. Names
are clients' own, so what is no visible character is escaped, and long ones are cut.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

from ottla.security.access import Operation, Resource
from ottla.security.acls import Acl, java_host
from ottla.security.kept_decisions import Decision

__all__ = ["AuditLog", "AuditedRequest"]

LOGGER = "kafka.authorizer.logger"
TRACE = 5
logging.addLevelName(TRACE, "TRACE")
LINES_PER_SECOND = 200
NAME_CHARACTERS_MAX = 512
_TYPES = {
    Resource.TOPIC: "Topic",
    Resource.GROUP: "Group",
    Resource.CLUSTER: "Cluster",
    Resource.TRANSACTIONAL_ID: "TransactionalId",
    Resource.DELEGATION_TOKEN: "DelegationToken",
    Resource.USER: "User",
}


@dataclass(frozen=True, slots=True)
class AuditedRequest:
    """Who asked, from where, and by which API."""

    principal: str
    host: str
    api: str
    """The API's name, such as `Produce`."""


class _Budget:
    """The lines of one level in the second that runs."""

    __slots__ = ("left_out", "second", "used")

    def __init__(self) -> None:
        self.second = -1
        self.used = 0
        self.left_out = 0


class AuditLog:
    """The one owner of how many lines were written lately; times are milliseconds of any clock."""

    def __init__(self, *, lines_per_second: int = LINES_PER_SECOND, logger: logging.Logger | None = None) -> None:
        assert lines_per_second > 0
        self._lines_per_second = lines_per_second
        self._log = logger or logging.getLogger(LOGGER)
        self._budgets = {level: _Budget() for level in (logging.INFO, logging.DEBUG, TRACE)}
        self.left_out = 0
        """How many lines were left out since the start."""
        self.is_on: Callable[[int], bool] = self._log.isEnabledFor
        """Whether lines of a level are written at all: asked at each request, so it is the logger's own method."""

    def record(
        self,
        decision: Decision,
        request: AuditedRequest,
        *,
        operation: Operation,
        resource: Resource,
        name: str,
        now_ms: int,
        references: int = 1,
        is_asked_for: bool = True,
    ) -> None:
        """Write a decision's line, where its level is on and has a line left.

        `is_asked_for` is False where nothing is granted or refused by it; `references` is how often the request names the
        resource.
        """
        level = TRACE if not is_asked_for else logging.DEBUG if decision.allowed else logging.INFO
        if not self._log.isEnabledFor(level) or not self._takes(level, now_ms):
            return
        self._log.log(
            level,
            "Principal = %s is %s operation = %s from host = %s on resource = %s:LITERAL:%s for request = %s "
            "with resourceRefCount = %s based on rule %s",
            _shown(request.principal),
            "Allowed" if decision.allowed else "Denied",
            operation.name,
            java_host(request.host),
            _TYPES.get(resource, "Unknown"),
            _shown(name),
            request.api,
            references,
            _rule(decision),
        )

    def flush(self, now_ms: int) -> None:
        """Say how many lines were left out in seconds that are over; to be called now and then."""
        for level, budget in self._budgets.items():
            if now_ms // 1000 != budget.second:
                self._say_left_out(level, budget)

    def _takes(self, level: int, now_ms: int) -> bool:
        budget = self._budgets[level]
        if now_ms // 1000 != budget.second:
            self._say_left_out(level, budget)
            budget.second, budget.used = now_ms // 1000, 0
        if budget.used < self._lines_per_second:
            budget.used += 1
            return True
        budget.left_out += 1
        self.left_out += 1
        return False

    def _say_left_out(self, level: int, budget: _Budget) -> None:
        if budget.left_out:
            self._log.log(
                level,
                "%d more decisions were not logged: more than %d a second",
                budget.left_out,
                self._lines_per_second,
            )
            budget.left_out = 0


def _rule(decision: Decision) -> str:
    return decision.rule if decision.acl is None else f"{decision.rule}(acl={_acl(decision.acl)})"


def _acl(acl: Acl) -> str:
    return (
        f"StandardAcl[resourceType={acl.resource_type.name}, resourceName={_shown(acl.resource_name)}, "
        f"patternType={acl.pattern_type.name}, principal={_shown(acl.principal)}, host={_shown(acl.host)}, "
        f"operation={acl.operation.name}, permissionType={acl.permission_type.name}]"
    )


def _shown(name: str) -> str:
    kept = name if len(name) <= NAME_CHARACTERS_MAX else f"{name[:NAME_CHARACTERS_MAX]}…"
    if kept.isprintable():
        return kept
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in kept)
