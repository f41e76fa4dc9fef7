"""Serdes that go by topics learn which topic they write, by the names that Kafka gives to internal ones."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from ottla.streams import Materialized, SinkNode, SourceNode, StreamsBuilder, Topology


@dataclass(frozen=True)
class Topical:
    """A serde that asks for its topic."""

    topic: str = ""
    is_key: bool = False
    name: str = "topical"
    sql_type: str | None = None

    def of_topic(self, topic: str, *, is_key: bool) -> Topical:
        return replace(self, topic=topic, is_key=is_key)

    def serialize(self, value: Any) -> bytes | None:
        return None

    def deserialize(self, data: bytes | None) -> Any:
        return None

    def sql_decode(self, column: str) -> str:
        return column

    def sql_encode(self, column: str) -> str:
        return column


def topology(serde: Any) -> Topology:
    builder = StreamsBuilder()
    (
        builder.stream("orders", key_serde="string", value_serde=serde)
        .group_by(lambda key, value: key, key_serde="string", value_serde=serde)
        .aggregate(lambda: None, lambda key, value, before: value, materialized=Materialized("sums", value_serde=serde))
        .to_stream()
        .to("out", key_serde=serde, value_serde=serde)
    )
    return builder.build()


def test_sources_sinks_stores_and_internal_topics_are_told_apart() -> None:
    found = topology(Topical()).of_application("app")
    [sink] = [each for each in found.nodes.values() if isinstance(each, SinkNode) and each.topic == "out"]
    assert (sink.key, sink.value) == (Topical("out", True), Topical("out", False))
    [source] = [each for each in found.nodes.values() if isinstance(each, SourceNode) and each.topics == ("orders",)]
    assert source.value == Topical("orders")
    assert found.stores["sums"].value == Topical("app-sums-changelog")
    [internal] = found.repartition_topics.values()
    assert internal.value == Topical("app-sums-repartition")
    assert {each.value for each in found.nodes.values() if isinstance(each, SinkNode)} == {sink.value, internal.value}
    assert found.describe() == topology(Topical()).describe()


def test_a_plan_whose_serdes_ask_for_nothing_stays_the_same() -> None:
    plan = topology("json")
    assert plan.of_application("app") is plan
