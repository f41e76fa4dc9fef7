"""What joins become: which sides go through repartition topics, and that a plan and its topology travel."""

from __future__ import annotations

import pickle

import pytest

from ottla.sql.catalogue import Catalogue
from ottla.sql.definitions import define
from ottla.sql.lowering import topology_of
from ottla.sql.parser.texts import parse_statement, split_statements
from ottla.sql.plan import QueryPlan
from ottla.sql.planning import plan_create_as, plan_select
from ottla.sql.testing.topics import LazyRegistry
from ottla.sql.tree import statements as s
from ottla.streams import Topology

SOURCES = """
CREATE STREAM S (ID INT KEY, V INT) WITH (KAFKA_TOPIC='s', KEY_FORMAT='KAFKA', VALUE_FORMAT='JSON');
CREATE STREAM S2 (ID INT KEY, V INT) WITH (KAFKA_TOPIC='s2', KEY_FORMAT='KAFKA', VALUE_FORMAT='DELIMITED');
CREATE STREAM SJ (ID INT KEY, V INT) WITH (KAFKA_TOPIC='sj', KEY_FORMAT='JSON', VALUE_FORMAT='JSON');
CREATE STREAM NOKEY (ID INT, V INT) WITH (KAFKA_TOPIC='nokey', VALUE_FORMAT='JSON');
CREATE TABLE T (ID INT PRIMARY KEY, V INT) WITH (KAFKA_TOPIC='t', KEY_FORMAT='KAFKA', VALUE_FORMAT='JSON');
CREATE TABLE TJ (ID INT PRIMARY KEY, V INT) WITH (KAFKA_TOPIC='tj', KEY_FORMAT='JSON', VALUE_FORMAT='JSON');
CREATE TABLE TA (ID INT PRIMARY KEY, V INT) WITH (KAFKA_TOPIC='ta', KEY_FORMAT='AVRO', VALUE_FORMAT='JSON');
"""
WITHIN = "WITHIN 1 HOUR"


def catalogue() -> Catalogue:
    known = Catalogue(registry=LazyRegistry(()))
    for each in split_statements(SOURCES):
        statement = parse_statement(each.text)
        assert isinstance(statement, s.CreateSource)
        known = define(statement, known, {})
    return known


def plan_of(clause: str) -> QueryPlan:
    made = "TABLE" if clause.startswith("T") else "STREAM"
    statement = parse_statement(f"CREATE {made} R AS SELECT * FROM {clause};")
    assert isinstance(statement, s.CreateAs)
    return plan_create_as(statement, catalogue(), {}, 3)


def topics_of(topology: Topology) -> list[str]:
    return sorted(topic for topic in topology.repartition_topics if topic.endswith("repartition"))


@pytest.mark.parametrize(
    ("clause", "topics"),
    [
        (f"S JOIN S2 {WITHIN} ON S.ID = S2.ID", []),
        (f"S JOIN S2 {WITHIN} ON S.V = S2.ID", ["Join-left-repartition"]),
        (f"S JOIN S2 {WITHIN} ON S.ID = S2.V", ["Join-right-repartition"]),
        (f"S JOIN SJ {WITHIN} ON S.ID = SJ.ID", ["Join-right-repartition"]),
        (f"NOKEY N JOIN S {WITHIN} ON N.ID = S.ID", ["Join-left-repartition"]),
        (f"NOKEY N JOIN SJ {WITHIN} ON N.ID = SJ.ID", ["Join-left-repartition"]),
        ("S JOIN T ON S.ID = T.ID", []),
        ("S JOIN T ON S.ID + 1 = T.ID", ["Join-repartition"]),
        ("S JOIN TJ ON S.ID = TJ.ID", ["Join-left-repartition"]),
        ("S JOIN TA ON S.ID = TA.ID", ["Join-left-repartition", "Join-right-repartition"]),
        ("T JOIN TJ ON T.ID = TJ.ID", ["Join-right-repartition"]),
        ("T JOIN TJ ON T.V = TJ.ID", []),
        ("S JOIN T ON S.ID = T.ID JOIN TJ ON T.ID = TJ.ID", ["Join-right-repartition"]),
        ("S JOIN TJ ON S.ID = TJ.ID JOIN T ON S.ID = T.ID", ["Join-right-repartition", "L_Join-left-repartition"]),
        ("S JOIN TJ ON S.ID = TJ.ID JOIN T ON TJ.V = T.ID", ["Join-repartition", "L_Join-left-repartition"]),
        (f"S FULL JOIN S2 {WITHIN} ON S.ID = S2.ID JOIN T ON S.ID = T.ID", ["Join-repartition"]),
    ],
)
def test_a_side_moves_where_its_key_is_another_or_in_another_format(clause: str, topics: list[str]) -> None:
    assert topics_of(topology_of(plan_of(clause))) == topics


@pytest.mark.parametrize(
    "clause",
    [f"S FULL JOIN NOKEY N {WITHIN} ON ABS(S.ID) = N.V", "S LEFT JOIN TJ ON S.V = TJ.ID", "T JOIN TJ ON T.V = TJ.ID"],
)
def test_plans_of_joins_and_their_topologies_travel(clause: str) -> None:
    plan = plan_of(clause)
    assert pickle.loads(pickle.dumps(plan)) == plan
    topology = topology_of(plan)
    assert pickle.loads(pickle.dumps(topology)).describe() == topology.describe()


def test_a_query_that_is_asked_needs_no_key_in_its_projection() -> None:
    statement = parse_statement(f"SELECT S.V, N.V FROM S FULL JOIN NOKEY N {WITHIN} ON S.ID = N.ID EMIT CHANGES;")
    assert isinstance(statement, s.QueryStatement)
    plan = plan_select(statement.query, catalogue(), {}, "asked")
    assert [each.name for each in plan.value] == ["S_V", "N_V"]
    assert topics_of(topology_of(plan)) == ["Join-right-repartition"]
    assert plan.store is None and plan_of("T JOIN TJ ON T.ID = TJ.ID").store is None
