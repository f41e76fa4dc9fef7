"""Internal topics get Kafka Streams' numbers of partitions and configurations, and its words where topics do not fit."""

from __future__ import annotations

import pytest

from ottla.base import KafkaError
from ottla.spark.streams.internal_topics import internal_topics
from ottla.streams import (
    SourceNode,
    StoreSpec,
    StreamsBuilder,
    StreamsSettings,
    Topology,
    TopologyError,
    partition_plan,
)
from tests.streams.run.plans import TEXT, count_by_word, joined, mapped, topology

SETTINGS = StreamsSettings.of(application_id="app", bootstrap_servers="localhost:1")


def test_a_repartition_topic_is_as_wide_as_what_writes_to_it_and_the_store_as_its_source() -> None:
    plan = partition_plan(count_by_word(), {"in": 3, "other": 9})
    assert plan.topics == {"in": 3, "counts-repartition": 3}
    assert plan.stores == {"counts": 3}


def test_a_given_number_of_partitions_wins() -> None:
    assert partition_plan(count_by_word(partitions=7), {"in": 3}).stores == {"counts": 7}


def test_topics_that_are_joined_take_the_wider_number() -> None:
    plan = partition_plan(joined(), {"one": 2, "two": 5})
    assert plan.topics["a-repartition"] == plan.topics["b-repartition"] == 5
    assert plan.stores == {"seen": 5}
    assert partition_plan(joined(left=4), {"one": 2, "two": 5}).topics["b-repartition"] == 4


def test_two_given_numbers_must_agree_and_kafkas_words_say_so() -> None:
    with pytest.raises(TopologyError) as error:
        partition_plan(joined(left=4, right=3), {"one": 2, "two": 5})
    assert str(error.value) == (
        "Invalid topology: Following topics do not have the same number of partitions: "
        "[{a-repartition=4, b-repartition=3}]"
    )


def two_topics(*groups: frozenset[str]) -> Topology:
    return topology(
        SourceNode("one", ("one",), key=TEXT, value=TEXT),
        SourceNode("two", ("two",), key=TEXT, value=TEXT),
        copartitioned=groups,
    )


def test_source_topics_that_are_joined_must_be_copartitioned() -> None:
    plan = two_topics(frozenset({"one", "two"}))
    with pytest.raises(TopologyError) as error:
        partition_plan(plan, {"one": 2, "two": 5})
    assert str(error.value) == "Invalid topology: Topics not co-partitioned: [{one=2, two=5}]"
    assert partition_plan(plan, {"one": 2, "two": 2}).topics == {"one": 2, "two": 2}


def test_a_source_topic_that_is_not_there_is_named() -> None:
    with pytest.raises(KafkaError, match="Missing source topics: in"):
        partition_plan(mapped(), {"other": 1})


def test_internal_topics_have_kafkas_configurations() -> None:
    found = {
        each.name: each for each in internal_topics(joined(), partition_plan(joined(), {"one": 2, "two": 2}), SETTINGS)
    }
    assert dict(found["app-a-repartition"].config) == {
        "message.timestamp.type": "CreateTime",
        "cleanup.policy": "delete",
        "segment.bytes": "52428800",
        "retention.ms": "-1",
    }
    assert dict(found["app-seen-changelog"].config) == {
        "message.timestamp.type": "CreateTime",
        "cleanup.policy": "compact,delete",
        "retention.ms": "90000000",
    }


def test_only_real_repartition_topics_and_logged_stores_have_topics() -> None:
    plan = partition_plan(count_by_word(), {"in": 3})
    names = [each.name for each in internal_topics(count_by_word(), plan, SETTINGS, repartition=())]
    assert names == ["app-counts-changelog"]
    unlogged = count_by_word(logged=False)
    assert internal_topics(unlogged, plan, SETTINGS, repartition=()) == []


def test_settings_for_topics_and_a_stores_own_come_on_top() -> None:
    settings = StreamsSettings.of(application_id="app", bootstrap_servers="x:1", **{"topic.segment.bytes": "1048576"})
    made = count_by_word(changelog_config={"min.insync.replicas": "2"})
    (changelog,) = internal_topics(made, partition_plan(made, {"in": 1}), settings, repartition=())
    assert changelog.config["segment.bytes"] == "1048576" and changelog.config["min.insync.replicas"] == "2"


def test_a_versioned_store_keeps_its_history_from_compaction() -> None:
    spec = StoreSpec("counts", "versioned", TEXT, TEXT, retention_ms=3_600_000)
    made = Topology(count_by_word().nodes, {"counts": spec}, count_by_word().repartition_topics)
    (changelog,) = internal_topics(made, partition_plan(made, {"in": 1}), SETTINGS, repartition=())
    assert changelog.config["min.compaction.lag.ms"] == "90000000"
    assert changelog.config["cleanup.policy"] == "compact"


def test_the_topics_of_a_foreign_key_join_have_the_partitions_of_the_tables_that_they_go_to() -> None:
    builder = StreamsBuilder(default_key_serde="string", default_value_serde="string")
    orders, users = builder.table("orders"), builder.table("users")
    joined = orders.join(users, lambda order, user: order + user, foreign_key=lambda order: order)
    joined.to_stream().to("joined")
    found = partition_plan(builder.build(), {"orders": 2, "users": 3, "joined": 1}).topics
    widths = {name.split("-")[-3 if "SUBSCRIPTION" in name else 0]: count for name, count in found.items()}
    assert widths == {"orders": 2, "users": 3, "REGISTRATION": 3, "RESPONSE": 2}
