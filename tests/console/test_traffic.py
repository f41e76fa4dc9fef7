"""Lineage and cost: whose bytes they are, what flows a second, and what that comes to in a month."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ottla.base import TopicPartition
from ottla.console.figures.costs import MONTH_S, Prices, client_costs, topic_costs
from ottla.console.figures.lineage import Actor, Connector, Lineage, lineage, of_topic
from ottla.console.figures.samples import (
    Flow,
    GroupSample,
    Moved,
    PartitionSample,
    Sample,
    Traffic,
    flow_rates,
    topic_figures,
)
from ottla.console.rights import Rights

MB = 10**6
SECONDS = 15


def flow(topic: str, client_id: str, principal: str | None = "User:ANONYMOUS") -> Flow:
    return Flow(topic, client_id, principal)


def cluster(*flows: tuple[Flow, Moved, Moved], **groups: GroupSample) -> Sample:
    """Return a cluster of two topics and an internal one, whose brokers have counted twice."""
    partition = PartitionSample(1, (1, 2), (1, 2), 0, 1000)
    topics = {name: {0: partition} for name in ("orders", "alerts", "__consumer_offsets")}
    return Sample(
        100_000,
        "c",
        1,
        {},
        topics,
        frozenset({"__consumer_offsets"}),
        groups,
        sizes={"orders": 4 * 10**9},
        traffic=Traffic(100_000, {1: {each: after for each, _, after in flows}}),
        traffic_before=Traffic(100_000 - SECONDS * 1000, {1: {each: before for each, before, _ in flows}}),
    )


def moved(bytes_in: int = 0, records_in: int = 0, bytes_out: int = 0) -> Moved:
    return Moved(bytes_in, records_in, bytes_out)


def edges(found: Lineage) -> dict[tuple[str, str, str], tuple[float | None, float | None]]:
    """Return figures by actor, topic and direction."""
    return {
        (f"{each.actor.kind} {each.actor.name}", "writes" if each.writes else "reads", each.topic): (
            each.bytes_per_s,
            each.records_per_s,
        )
        for each in found.edges.values()
    }


def test_clients_are_their_groups_and_connectors() -> None:
    sample = cluster(
        (flow("orders", "shop"), moved(0, 0), moved(15 * MB, 150)),
        (flow("orders", "app-7-StreamThread-1-consumer"), moved(), moved(bytes_out=15 * MB)),
        (flow("alerts", "app-7-StreamThread-1-producer"), moved(), moved(3 * MB, 30)),
        (flow("alerts", "connector-consumer-sink-0"), moved(), moved(bytes_out=MB)),
        app=GroupSample("Stable", "classic", "stream", {TopicPartition("orders", 0): 900}, frozenset({"app-7-x"})),
        **{"connect-sink": GroupSample("Stable", "classic", "", {TopicPartition("alerts", 0): 1000})},
    )
    before = replace(
        sample,
        at_ms=95_000,
        groups={"app": replace(sample.groups["app"], committed={TopicPartition("orders", 0): 850})},
    )
    found = lineage(sample, before, [Connector("sink", "w", "sink", ("alerts",))])
    assert found.counted and found.workers == {"sink": "w"}
    assert edges(found) == {
        ("client shop", "writes", "orders"): (MB, 10),
        ("group app", "reads", "orders"): (MB, 10),
        ("group app", "writes", "alerts"): (MB / 5, 2),
        ("connector sink", "reads", "alerts"): (MB / SECONDS, None),
    }
    assert found.edges[Actor("group", "app"), "orders", False].lag == 100
    query = GroupSample("Stable", "classic", "", {TopicPartition("orders", 0): 1000})
    asked = lineage(cluster(**{"_confluent-ksql-default_query_CSAS_A_0": query}), None, [])
    assert edges(asked) == {("query default_query_CSAS_A_0", "reads", "orders"): (None, None)}
    assert found.edges[Actor("group", "app"), "orders", False].clients == ("app-7-StreamThread-1-consumer", "app-7-x")


def test_around_a_topic_is_what_its_writers_read_and_its_readers_write() -> None:
    sample = cluster(
        (flow("orders", "shop"), moved(), moved(MB, 1)),
        (flow("orders", "app-1"), moved(), moved(bytes_out=MB)),
        (flow("alerts", "app-1"), moved(), moved(MB, 1)),
        (flow("alerts", "pager"), moved(), moved(bytes_out=MB)),
    )
    whole = lineage(sample, None, [])
    assert len(edges(whole)) == 4
    assert edges(of_topic(whole, "alerts")).keys() == edges(whole).keys() - {("client shop", "writes", "orders")}
    assert edges(of_topic(whole, "orders")).keys() == edges(whole).keys() - {("client pager", "reads", "alerts")}


def test_internal_topics_are_left_out_unless_asked_for() -> None:
    sample = cluster((flow("__consumer_offsets", "looker"), moved(), moved(bytes_out=5)))
    assert not lineage(sample, None, []).edges
    assert len(lineage(sample, None, [], internal=True).edges) == 1


def test_where_nobody_counts_groups_and_connectors_are_what_is_known() -> None:
    sample = replace(
        cluster(app=GroupSample("Stable", "consumer", "", {TopicPartition("orders", 0): 900})), traffic=None
    )
    found = lineage(sample, None, [Connector("pump", "w", "source", ("orders", "gone"))])
    assert not found.counted
    assert edges(found) == {
        ("group app", "reads", "orders"): (None, None),
        ("connector pump", "writes", "orders"): (None, None),
    }
    assert flow_rates(sample) is None


def test_a_broker_that_began_anew_or_was_silent_moves_no_false_bytes() -> None:
    shop = flow("orders", "shop")
    sample = cluster((shop, moved(900 * MB, 9), moved(MB, 1)))
    assert [each.bytes_in for each in flow_rates(sample) or ()] == [0]
    assert sample.traffic is not None
    joined = replace(sample.traffic, flows={**sample.traffic.flows, 2: {shop: moved(10**12, 1)}})
    assert [each.bytes_in for each in flow_rates(replace(sample, traffic=joined)) or ()] == [0]


def test_a_month_costs_what_lies_and_what_moves_to_each_copy() -> None:
    sample = cluster(
        (flow("orders", "shop", "User:shop"), moved(), moved(3 * 15 * MB, 1)),
        (flow("orders", "till", "User:till"), moved(), moved(15 * MB, 1)),
        (flow("orders", "app", "User:app"), moved(), moved(bytes_out=2 * 15 * MB)),
    )
    prices = Prices(stored=0.5, written=0.01, read=0.02)
    rows = topic_costs(sample, topic_figures(sample, None), prices)
    assert rows[0].topic == "orders"
    assert rows[0].cost_stored == 2.0
    assert rows[0].cost_written == pytest.approx(4 * MB * 2 * MONTH_S / 1e9 * 0.01)
    assert rows[0].cost_read == pytest.approx(2 * MB * MONTH_S / 1e9 * 0.02)
    who = {each.name: each for each in client_costs(sample, rows, prices) or ()}
    assert who["User:shop"].stored == 3e9 and who["User:till"].stored == 1e9
    assert sum(each.cost for each in who.values()) == pytest.approx(rows[0].cost)


def test_who_may_see_one_topic_sees_its_clients_and_no_names_of_users() -> None:
    sample = cluster(
        (flow("orders", "shop", "User:a"), moved(), moved(15, 1)),
        (flow("orders", "shop", "User:b"), moved(), moved(30, 1)),
        (flow("alerts", "pager", "User:c"), moved(), moved(15, 1)),
    )
    from ottla.console.figures.history import History
    from ottla.console.figures.offset_times import OffsetTimes
    from ottla.console.figures.views import Seen

    seen = Seen(sample, None, History(), OffsetTimes(), 5.0)
    shown = Rights(topics={"orders": frozenset({"DESCRIBE"})}).narrowed(seen).sample
    assert [(each.flow, each.bytes_in) for each in flow_rates(shown) or ()] == [(Flow("orders", "shop", None), 3)]
    text = str(lineage(shown, None, [], internal=True).shown()) + str(topic_costs(shown, [], Prices()))
    assert not any(each in text for each in ("alerts", "pager", "User:"))
