"""CREATE OR REPLACE … AS SELECT: which query may go on in the place of another."""

from __future__ import annotations

from ottla.sql.errors import SqlError
from ottla.sql.plan import Aggregate, Explode, Join, QueryPlan, nodes


def check_upgrade(before: QueryPlan, after: QueryPlan) -> None:
    """Raise SqlError where a query cannot go on with what another has left: conditions and columns may change alone."""
    if [source.name for source in before.sources] != [source.name for source in after.sources]:
        raise SqlError(
            "Query is not upgradeable. Plan step of type StreamSource must match: it reads "
            f"{_listed(before)}, and what replaces it would read {_listed(after)}."
        )
    for plan in (after, before):
        step = _step_that_stays(plan)
        if step is not None:
            raise SqlError(f"Upgrades not yet supported for {step}")


def _listed(plan: QueryPlan) -> str:
    return ", ".join(source.name for source in plan.sources)


def _step_that_stays(plan: QueryPlan) -> str | None:
    """ksqlDB's name of the first step, from the sink on, that has to stay as it is."""
    if plan.rekeyed:
        return "StreamSelectKey"
    for node in nodes(plan.root):
        match node:
            case Aggregate(of=of, by=by):
                return (
                    "TableAggregate"
                    if of.kind == "TABLE"
                    else "StreamAggregate"
                    if by is None
                    else "StreamWindowedAggregate"
                )
            case Explode():
                return "StreamFlatMap"
            case Join(left=left, right=right):
                return "".join(side.kind.capitalize() for side in (left, right)) + "Join"
    return None
