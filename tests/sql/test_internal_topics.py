"""Whose an internal topic is: every name that a plan's topology gives is read back as its query's, and as no other's."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ottla.sql import parse_statement, split_statements
from ottla.sql.answers import application_id, query_of_topic, topology_of
from ottla.sql.commands import Catalogue, PersistentQuery, ServerState, decide

SOURCES = """
CREATE STREAM A (ID INT KEY, V INT) WITH (KAFKA_TOPIC='a', FORMAT='JSON', PARTITIONS=1);
CREATE STREAM B (ID INT KEY, W INT) WITH (KAFKA_TOPIC='b', FORMAT='JSON', PARTITIONS=1);
CREATE TABLE T (ID INT PRIMARY KEY, W INT) WITH (KAFKA_TOPIC='t', FORMAT='JSON', PARTITIONS=1);
CREATE TABLE U (ID INT PRIMARY KEY, X INT) WITH (KAFKA_TOPIC='u', FORMAT='JSON', PARTITIONS=1);
"""
QUERIES = (
    "CREATE TABLE {name} AS SELECT V, COUNT(*) AS C FROM A GROUP BY V;",
    "CREATE TABLE {name} AS SELECT V, COUNT(*) AS C FROM A WINDOW TUMBLING (SIZE 1 HOUR) GROUP BY V EMIT FINAL;",
    "CREATE TABLE {name} AS SELECT W, COUNT(*) AS C FROM T GROUP BY W;",
    "CREATE STREAM {name} AS SELECT A.V AS V, W FROM A JOIN B WITHIN 1 HOUR ON A.V = B.W;",
    "CREATE STREAM {name} AS SELECT ROWKEY, V, W FROM A FULL JOIN B WITHIN 1 HOUR GRACE PERIOD 1 HOUR ON A.V = B.W;",
    "CREATE STREAM {name} AS SELECT A.V AS V, B.W AS W, X FROM A LEFT JOIN B WITHIN 1 HOUR GRACE PERIOD 1 HOUR ON A.V = B.W "
    "JOIN U ON A.V = U.ID;",
    "CREATE TABLE {name} AS SELECT T.ID AS ID, W, X FROM T JOIN U ON T.W = U.ID;",
    "CREATE TABLE {name} AS SELECT T.ID AS ID, W, X FROM T LEFT JOIN U ON T.ID = U.ID;",
)


def queries(name: str) -> Iterator[PersistentQuery]:
    """Each query as one of a server of its own."""
    for query in QUERIES:
        state = ServerState(Catalogue())
        for number, text in enumerate([*(each.text for each in split_statements(SOURCES)), query.format(name=name)]):
            made = decide(parse_statement(text), text, state, properties={}, settings={}, number=number)
            assert made.expected is not None, text
            state = made.expected.state
        (found,) = state.queries.values()
        yield found


def topics(service_id: str, query: PersistentQuery) -> list[str]:
    topology = topology_of(query.plan)
    names = [*topology.repartition_topics, *(f"{each}-changelog" for each in topology.stores)]
    return [f"{application_id(service_id, query.id)}-{each}" for each in names]


@pytest.mark.parametrize("name", ["R", "`R_4-x`", "`R-Aggregate-GroupBy-repartition`", "`Join-left`"])
def test_every_internal_topic_of_a_query_is_that_querys(name: str) -> None:
    for query in queries(name):
        found = topics("default_", query)
        assert found, query.id
        assert {query_of_topic("default_", each) for each in found} == {query.id}


def test_what_an_inserting_query_of_a_chosen_id_keeps_is_its_own() -> None:
    topic = f"{application_id('s_', 'INSERTQUERY_1')}-Aggregate-GroupBy-repartition"
    assert query_of_topic("s_", topic) == "INSERTQUERY_1"
    assert query_of_topic("s_", topic.replace("INSERTQUERY_1", "MINE")) == "MINE"


@pytest.mark.parametrize("service_id", ["a", "a_", "my_", ""])
def test_topics_of_a_service_whose_id_begins_alike_are_not_ours(service_id: str) -> None:
    """`my_` and `my_query_service_` have one beginning in front of their queries' ids."""
    for query in queries("R"):
        for other in (f"{service_id}query_service_", f"{service_id}1", f"{service_id}query_"):
            assert {query_of_topic(service_id, each) for each in topics(other, query)} == {None}, other


@pytest.mark.parametrize("topic", ["_confluent-ksql-s_query_CTAS_R_1", "_confluent-ksql-s_query_CTAS_R_1-mine", "R"])
def test_a_topic_that_only_begins_like_an_internal_one_is_nobodys(topic: str) -> None:
    assert query_of_topic("s_", topic) is None
