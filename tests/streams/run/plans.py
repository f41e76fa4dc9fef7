"""Small topologies for tests of how an application lives, made of nodes, without the DSL."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ottla.streams import Function, ProcessorNode, RepartitionTopic, SinkNode, SourceNode, StoreSpec, Topology
from ottla.streams import operations as ops
from ottla.streams.plan.nodes import Node

__all__ = ["LONG", "TEXT", "count_by_word", "joined", "mapped"]


@dataclass(frozen=True)
class Plain:
    """A serde of text or of Java's long."""

    name: str = "string"
    sql_type: str | None = "string"

    def serialize(self, value: Any) -> bytes | None:
        if value is None:
            return None
        return str(value).encode() if self.name == "string" else int(value).to_bytes(8, "big", signed=True)

    def deserialize(self, data: bytes | None) -> Any:
        if data is None:
            return None
        return data.decode() if self.name == "string" else int.from_bytes(data, "big", signed=True)

    def sql_decode(self, column: str) -> str:
        return f"cast({column} as string)" if self.name == "string" else f"conv(hex({column}), 16, -10)"

    def sql_encode(self, column: str) -> str:
        return f"cast({column} as binary)" if self.name == "string" else f"unhex(lpad(hex({column}), 16, '0'))"


TEXT, LONG = Plain(), Plain("long", "bigint")


def topology(*nodes: Node, stores: tuple[StoreSpec, ...] = (), **more: Any) -> Topology:
    return Topology({node.name: node for node in nodes}, {store.name: store for store in stores}, **more)


def mapped() -> Topology:
    """in → upper → out."""
    return topology(
        SourceNode("source", ("in",), key=TEXT, value=TEXT),
        ProcessorNode("upper", ops.MapValues(Function.of("upper(value)"), TEXT), ("source",)),
        SinkNode("sink", "out", ("upper",), TEXT, TEXT),
    )


def count_by_word(partitions: int | None = None, store: str = "counts", **spec: Any) -> Topology:
    """in → re-keyed → repartition topic → count → out."""
    repartition = f"{store}-repartition"
    return topology(
        SourceNode("source", ("in",), key=TEXT, value=TEXT),
        ProcessorNode("key", ops.SelectKey(Function.of("value"), TEXT), ("source",)),
        SinkNode("to-repartition", repartition, ("key",), TEXT, TEXT),
        SourceNode("from-repartition", (repartition,), key=TEXT, value=TEXT),
        ProcessorNode(
            "count", ops.StreamAggregate(store, ops.Aggregator("count")), ("from-repartition",), stores=(store,)
        ),
        ProcessorNode("rows", ops.TableToStream(), ("count",)),
        SinkNode("sink", "out", ("rows",), TEXT, LONG),
        stores=(StoreSpec(store, "timestamped_key_value", TEXT, spec.pop("value", LONG), **spec),),
        repartition_topics={repartition: RepartitionTopic(store, partitions)},
    )


def joined(left: int | None = None, right: int | None = None) -> Topology:
    """Two topics, each through a repartition topic, that must have as many partitions as one another."""
    return topology(
        SourceNode("one", ("one",), key=TEXT, value=TEXT),
        SinkNode("to-a", "a-repartition", ("one",), TEXT, TEXT),
        SourceNode("two", ("two",), key=TEXT, value=TEXT),
        SinkNode("to-b", "b-repartition", ("two",), TEXT, TEXT),
        SourceNode("a", ("a-repartition",), key=TEXT, value=TEXT),
        SourceNode("b", ("b-repartition",), key=TEXT, value=TEXT),
        ProcessorNode("merge", ops.PassThrough(), ("a", "b"), stores=("seen",)),
        SinkNode("sink", "out", ("merge",), TEXT, TEXT),
        stores=(StoreSpec("seen", "window", TEXT, TEXT, retention_ms=3_600_000, window_size_ms=60_000),),
        repartition_topics={
            "a-repartition": RepartitionTopic("a", left),
            "b-repartition": RepartitionTopic("b", right),
        },
        copartitioned=(frozenset({"a-repartition", "b-repartition"}),),
    )
