"""Plans that were shown and may be run: each for ten minutes and once, by its hash."""

from __future__ import annotations

import secrets
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace

from ottla.admin.actions import ActionPlan, Reach, plan_action
from ottla.base import OttlaError
from ottla.console.audit import Audit, AuditEntry
from ottla.console.entry import is_same
from ottla.console.places import Place
from ottla.http import HttpError

__all__ = ["PlanGoneError", "Plans", "WorldMovedError"]

SECONDS_MAX = 600.0
PLANS_MAX, OF_ONE_MAX = 500, 100
"""Plans that are kept, of all and of one user: the oldest make room."""


class PlanGoneError(OttlaError):
    """A plan that there is not, or not any more."""


class WorldMovedError(OttlaError):
    """A plan that would change something else by now; `shown` is the new one."""

    def __init__(self, shown: dict[str, object]) -> None:
        super().__init__("The cluster has changed since this was planned; nothing was done. Look at the new plan.")
        self.shown = shown


@dataclass(frozen=True, slots=True)
class _Kept:
    cluster: str
    who: str
    plan: ActionPlan
    until_s: float


class Plans:
    """Keeps plans until they are run."""

    def __init__(self, audit: Audit, *, now_s: Callable[[], float], now_ms: Callable[[], int]) -> None:
        self.audit = audit
        self._now_s, self._now_ms = now_s, now_ms
        self._kept: OrderedDict[str, _Kept] = OrderedDict()

    def keep(self, place: Place, plan: ActionPlan) -> str:
        """Keep a plan, and return the name by which who has made it runs it.

        What it would run is made anew then, and not kept: that may hold records.
        """
        name = secrets.token_urlsafe(12)
        kept = replace(plan, run=_planned_again)
        self._kept[name] = _Kept(place.cluster.name, place.who, kept, self._now_s() + SECONDS_MAX)
        mine = [each for each, one in self._kept.items() if one.who == place.who]
        for each in mine[: max(0, len(mine) - OF_ONE_MAX)]:
            del self._kept[each]
        while len(self._kept) > PLANS_MAX:
            self._kept.popitem(last=False)
        return name

    def known(self, place: Place, name: str) -> ActionPlan:
        """Return a plan that is kept for who asks; raises PlanGoneError."""
        kept = self._kept.get(name)
        mine = place.cluster.name, place.who
        if kept is None or (kept.cluster, kept.who) != mine or self._now_s() >= kept.until_s:
            raise PlanGoneError("There is no such plan (any more): plan again")
        return kept.plan

    async def run(self, place: Place, name: str, *, hash: object, typed: object) -> AuditEntry:
        """Run a plan, and return what is in the audit of it, a refusal by the brokers too.

        Raises PlanGoneError, WorldMovedError, and HttpError where the hash or the typed name is not the plan's.
        """
        plan, cluster = self.known(place, name), place.cluster
        if not isinstance(hash, str) or not is_same(hash, plan.hash):
            raise HttpError(400, "hash is not the plan's")
        if plan.typed is not None and typed != plan.typed:
            raise HttpError(400, f"Type the name, {plan.typed}: this cannot be taken back")
        del self._kept[name]
        again = await cluster.admin(
            lambda client: plan_action(place.reach(client), plan.action, plan.pinned or plan.arguments)
        )
        if again.hash != plan.hash:
            raise WorldMovedError({**again.shown(), "id": self.keep(place, again)})
        try:
            await cluster.admin(lambda client: again.run(place.reach(client)))
            outcome = "done"
        except OttlaError as error:
            outcome = str(error)
        entry = self.audit.add(self._now_ms(), place.who, cluster.name, plan, outcome)
        if place.audit_topic is not None:
            await place.audit_topic.write(entry)
        return entry


def _planned_again(reach: Reach) -> None:
    raise AssertionError("a plan that is kept is made anew before it runs")
