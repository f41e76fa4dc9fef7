"""What may change in an application without losing its state: a plan's fingerprint, and the differences that matter.

The fingerprint of the running plan is kept with the checkpoint. At the next start the new plan's is held against it: what
concerns no state may change at will (functions, filters, sinks, serdes of topics without a store, stages without state);
what would make the kept state mean something else is refused, and each refusal says how to go on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ottla.base import ErrorCode, KafkaError
from ottla.streams.plan.nodes import ProcessorNode, StoreSpec
from ottla.streams.plan.operations import SessionAggregate, StreamAggregate, TableAggregate, WindowAggregate
from ottla.streams.plan.topology import Topology

__all__ = ["FORMAT", "StageFacts", "UpgradeError", "check_upgrade", "differences", "fingerprint"]

FORMAT = 1
_STORE_WORDS = {
    "kind": "its kind",
    "key": "the serde of its keys",
    "value": "the serde of its values",
    "window_size_ms": "its window size",
    "retain_duplicates": "whether it keeps duplicates",
}
_AGGREGATES = (StreamAggregate, WindowAggregate, SessionAggregate, TableAggregate)


class UpgradeError(KafkaError):
    """The plan does not fit the state that is kept for it; `reasons` has one sentence each."""

    def __init__(self, reasons: tuple[str, ...]) -> None:
        lines = "".join(f"\n  - {reason}" for reason in reasons)
        super().__init__(
            ErrorCode.INVALID_REQUEST,
            f"this plan does not fit the state that the application has:{lines}\n"
            "`ottla streams reset` drops the state and processes the input anew; docs/streams-upgrades.md has the rules.",
        )
        self.reasons = reasons

    def __reduce__(self) -> tuple[type[KafkaError], tuple[object, ...]]:
        return UpgradeError, (self.reasons,)


@dataclass(frozen=True, slots=True)
class StageFacts:
    """What of a stage its state depends on: one Spark query with one checkpoint."""

    name: str
    kind: str
    """stateless, native or stateful."""
    nodes: frozenset[str]
    sources: tuple[str, ...]
    """The names of its inputs, in the order in which the query has them."""
    tasks: int = 0
    """The number of tasks of a stateful stage."""


def fingerprint(topology: Topology, stages: Iterable[StageFacts]) -> dict[str, Any]:
    """Return the fingerprint, fit for JSON."""
    return {"format": FORMAT, "stages": {stage.name: _stage(topology, stage) for stage in stages}}


def _stage(topology: Topology, stage: StageFacts) -> dict[str, Any]:
    nodes = [topology.nodes[name] for name in topology.nodes if name in stage.nodes]
    stores = dict.fromkeys(store for node in nodes for store in getattr(node, "stores", ()))
    found: dict[str, Any] = {
        "kind": stage.kind,
        "sources": list(stage.sources),
        "stores": {name: _store(topology.stores[name]) for name in stores if name in topology.stores},
    }
    if stage.kind == "stateful":
        found["tasks"] = stage.tasks
    if stage.kind == "native":
        found["aggregates"] = [_aggregate(node) for node in nodes if _is_aggregate(node)]
    return found


def _store(store: StoreSpec) -> dict[str, Any]:
    return {
        "kind": store.kind,
        "key": store.key.name,
        "value": store.value.name,
        "window_size_ms": store.window_size_ms,
        "retain_duplicates": store.retain_duplicates,
    }


def _is_aggregate(node: object) -> bool:
    return isinstance(node, ProcessorNode) and isinstance(node.operation, _AGGREGATES)


def _aggregate(node: Any) -> str:
    """Return what Spark's own state of an aggregate depends on; the grace, which moves only the watermark, is left out."""
    windows = getattr(node.operation, "windows", None)
    shape = ""
    if windows is not None:
        sizes = (f"{name}={getattr(windows, name)}" for name in windows.__slots__ if name != "grace_ms")
        shape = f" {type(windows).__name__}({', '.join(sizes)})"
    return f"{node.operation.aggregator.kind}{shape}"


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """Return why state kept under the old fingerprint does not fit the new plan; none where it does."""
    if old.get("format") != FORMAT:
        return [f"the checkpoint was written in format {old.get('format')}, and this version reads {FORMAT}"]
    found: list[str] = []
    fresh: Mapping[str, Any] = new["stages"]
    for name, was in old["stages"].items():
        if name in fresh:
            found += _stage_differences(name, was, fresh[name])
    kept = {store for stage in fresh.values() for store in stage["stores"]}
    for name, was in old["stages"].items():
        for store in was["stores"]:
            if store not in kept:
                found.append(
                    f"store {store} (of {name}) is not in the plan any more, so what it holds would be lost; give it its "
                    "name again (Materialized, Named), or say upgrade.drop.stores=true if it is to go"
                )
    return found + _moved(old["stages"], fresh)


def _moved(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """Name stores that are now kept by another query, whose checkpoint does not hold them."""
    was = {store: name for name, stage in old.items() for store in stage["stores"]}
    now = {store: name for name, stage in new.items() for store in stage["stores"]}
    return [
        f"store {store} has moved from {was[store]} to {now[store]}, whose checkpoint does not hold it"
        for store in was
        if store in now and now[store] != was[store]
    ]


def _stage_differences(name: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    stateful = bool(old["stores"]) or old["kind"] != "stateless"
    found = []
    if len(old["sources"]) != len(new["sources"]):
        found.append(
            f"{name} read {len(old['sources'])} inputs and now reads {len(new['sources'])}; its checkpoint has an offset "
            "for each. Name the new input's part so that it is a query of its own, or"
            + (
                " reset"
                if stateful
                else " remove the folder of this stage's checkpoint: it goes on from the group's offsets"
            )
        )
    if not stateful:
        return found
    if old["kind"] != new["kind"]:
        found.append(
            f"{name} was {old['kind']} and is now {new['kind']}: the two keep state differently (`stream.time`)"
        )
    if old.get("tasks", 0) != new.get("tasks", 0) and old["kind"] == new["kind"]:
        found.append(
            f"{name} had {old.get('tasks', 0)} tasks and would have {new.get('tasks', 0)}, since the number of partitions "
            "of its input has changed; keys would be looked for in the wrong task"
        )
    if old.get("aggregates") != new.get("aggregates") and old["kind"] == new["kind"]:
        found.append(f"{name} aggregated {_listed(old)} and now {_listed(new)}; Spark's state holds the former")
    for store, was in old["stores"].items():
        now = new["stores"].get(store)
        for field, words in _STORE_WORDS.items():
            if now is not None and was[field] != now[field]:
                found.append(f"store {store}: {words} was {was[field]} and is now {now[field]}")
    return found


def _listed(stage: Mapping[str, Any]) -> str:
    return ", ".join(stage.get("aggregates", ())) or "nothing"


def check_upgrade(old: Mapping[str, Any] | None, new: Mapping[str, Any], *, drop_stores: bool = False) -> None:
    """Raise UpgradeError where the new plan does not fit the kept state; without an old fingerprint everything fits."""
    reasons = differences(old, new) if old is not None else []
    if drop_stores:
        reasons = [reason for reason in reasons if "is not in the plan any more" not in reason]
    if reasons:
        raise UpgradeError(tuple(reasons))
