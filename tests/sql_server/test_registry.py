"""Formats with schemas: a server beside a registry, read by a serializer's client that is not ours; and one that is away."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import Consumer
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext

from ottla.sql_server.schemas import registry_of
from tests.ports import free_port
from tests.registry.running import RegistryProcess, running_registry
from tests.server import Server
from tests.sql_server.running import SqlProcess, begun_sql, running_sql
from tests.sql_server.test_queries import pushed
from tests.waiting import until

NAMESPACE = "io.confluent.ksql.avro_schemas"
SERVICE = "ksql.service.id=registry_"


@pytest.fixture(scope="module")
def registry(broker: Server) -> Iterator[RegistryProcess]:
    with running_registry(broker.bootstrap) as found:
        yield found


@pytest.fixture(scope="module")
def avro(broker: Server, registry: RegistryProcess) -> Iterator[SqlProcess]:
    overrides = [SERVICE, f"ksql.schema.registry.url={registry.url}"]
    with running_sql(broker.bootstrap, overrides=overrides) as found:
        yield found


def test_explain_registers_nothing(avro: SqlProcess, registry: RegistryProcess, name: str) -> None:
    avro.ksql(f"CREATE STREAM {name} (k INT KEY, v INT) WITH (kafka_topic='{name}', format='JSON', partitions=1);")
    before = registry.get("/subjects")
    (told,) = avro.ksql(f"EXPLAIN CREATE STREAM {name}_a WITH (value_format='AVRO') AS SELECT * FROM {name};")
    assert f"{name}_A" in told["queryDescription"]["topology"]
    refused = (
        f"EXPLAIN CREATE STREAM {name}_b (v INT) WITH (kafka_topic='{name}_b', value_format='AVRO', partitions=1);"
    )
    assert "does not run a ksql query" in avro.refused(refused)[2]
    assert registry.get("/subjects") == before


def wait_avro(broker: Server, registry: RegistryProcess, topic: str, wanted: object) -> None:
    """Return when a value is in a topic, as Confluent's deserializer reads it."""
    read = AvroDeserializer(SchemaRegistryClient({"url": registry.url}))
    consumer = Consumer(
        {"bootstrap.servers": broker.bootstrap, "group.id": f"read-{topic}", "auto.offset.reset": "earliest"}
    )
    found: list[object] = []

    def enough() -> bool:
        message = consumer.poll(0.2)
        if message is not None and message.error() is None:
            found.append(read(message.value(), SerializationContext(topic, MessageField.VALUE)))
        return wanted in found

    try:
        consumer.subscribe([topic])
        until(enough, lambda: f"{topic}: {found}")
    finally:
        consumer.close()


def test_rows_of_avro_are_read_by_confluents_deserializer(
    broker: Server, registry: RegistryProcess, avro: SqlProcess, name: str
) -> None:
    avro.ksql(
        f"CREATE STREAM {name} (id STRING KEY, item STRING, qty INT) "
        f"WITH (kafka_topic='{name}', value_format='AVRO', partitions=1);"
    )
    for item, qty in (("fig", 1), ("fig", 2), ("pear", 5)):
        avro.ksql(f"INSERT INTO {name} VALUES ('o', '{item}', {qty});")
    avro.ksql(f"CREATE TABLE {name}_t AS SELECT item, SUM(qty) AS total FROM {name} GROUP BY item;")
    avro.wait_rows(f"SELECT * FROM {name}_t;", [["fig", 3], ["pear", 5]])
    wait_avro(broker, registry, f"{name}_T", {"TOTAL": 5})
    assert {f"{name}-value", f"{name}_T-value"} <= set(registry.get("/subjects"))
    with pushed(avro, f"SELECT item, qty FROM {name} EMIT CHANGES LIMIT 3;", auto_offset_reset="earliest") as (
        _,
        lines,
    ):
        assert [json.loads(next(lines)) for _ in range(3)] == [["fig", 1], ["fig", 2], ["pear", 5]]


def test_columns_are_those_of_the_registry_and_of_records_written_by_another_schema(
    registry: RegistryProcess, avro: SqlProcess, name: str
) -> None:
    fields = [{"name": "A", "type": ["null", "long"], "default": None}]
    registry.register(
        f"{name}-value",
        json.dumps({"type": "record", "name": "KsqlDataSourceSchema", "namespace": NAMESPACE, "fields": fields}),
    )
    avro.ksql(f"CREATE STREAM {name} WITH (kafka_topic='{name}', value_format='AVRO', partitions=1);")
    (told,) = avro.ksql(f"DESCRIBE {name};")
    assert [each["name"] for each in told["sourceDescription"]["fields"]] == ["A"]
    avro.ksql(f"CREATE STREAM {name}_more (a BIGINT, b STRING) WITH (kafka_topic='{name}', value_format='AVRO');")
    avro.ksql(f"INSERT INTO {name}_more VALUES (1, 'x');")
    assert avro.rows(f"SELECT * FROM {name};") == [[1]]
    assert avro.rows(f"SELECT * FROM {name}_more;") == [[1, "x"]]


def test_without_a_registry_a_format_with_schemas_names_the_setting(sql: SqlProcess, name: str) -> None:
    refused = sql.refused(
        f"CREATE STREAM {name} (v INT) WITH (kafka_topic='{name}', value_format='AVRO', partitions=1);"
    )
    assert refused[1] == 40001 and "ksql.schema.registry.url" in refused[2]


@contextmanager
def silence() -> Iterator[str]:
    """An address that takes connections and never answers."""
    port = free_port()
    with socket.create_server(("127.0.0.1", port), backlog=64):
        yield f"http://127.0.0.1:{port}"


def test_a_registry_that_never_answers_costs_one_statement_its_time_and_nobody_else(broker: Server, name: str) -> None:
    with silence() as url:
        overrides = [
            "ksql.service.id=silent_",
            f"ksql.schema.registry.url={url}",
            "ottla.sql.registry.timeout.ms=500",
            "ksql.schema.registry.http.read.timeout.ms=1000",
            "ksql.schema.registry.max.retries=0",
        ]
        with running_sql(broker.bootstrap, overrides=overrides) as sql:
            status, code, words = sql.refused(
                f"CREATE STREAM {name} (v INT) WITH (kafka_topic='{name}', value_format='AVRO', partitions=1);"
            )
            assert (status, code) == (400, 40001)
            assert "did not answer" in words and url in words
            sql.ksql(f"CREATE STREAM {name}_j (v INT) WITH (kafka_topic='{name}', value_format='JSON', partitions=1);")
            explain = f"EXPLAIN CREATE STREAM {name}_x WITH (kafka_topic='{name}', value_format='AVRO', partitions=1);"
            assert "ottla.sql.registry.timeout.ms" in sql.refused(explain)[2], "asked beside the loop, too"
            assert sql.ask("GET", "/info").status == 200


def test_commands_wait_for_the_registry_at_a_replay_and_lose_no_query(broker: Server, name: str) -> None:
    port = free_port()
    overrides = [
        "ksql.service.id=waiting_",
        f"ksql.schema.registry.url=http://127.0.0.1:{port}",
        "ottla.sql.registry.timeout.ms=2000",
        "ksql.schema.registry.max.retries=0",
    ]
    registry_topic = f"kafkastore.topic=schemas-{name}"
    with (
        running_registry(broker.bootstrap, port=port, overrides=[registry_topic]),
        running_sql(broker.bootstrap, overrides=overrides) as sql,
    ):
        sql.ksql(
            f"CREATE STREAM {name} (v INT) WITH (kafka_topic='{name}', value_format='AVRO', partitions=1);"
            f"CREATE TABLE {name}_t AS SELECT v, COUNT(*) AS n FROM {name} GROUP BY v;"
            f"INSERT INTO {name} VALUES (7);"
        )
        sql.wait_rows(f"SELECT * FROM {name}_t;", [[7, 1]])
    with begun_sql(broker.bootstrap, overrides) as sql:
        until(lambda: "waits for the schema registry" in sql.said(), sql.said)
        with running_registry(broker.bootstrap, port=port, overrides=[registry_topic]):
            until(lambda: bool(sql.url), sql.said)
            sql.ksql(f"INSERT INTO {name} VALUES (7);")
            sql.wait_rows(f"SELECT * FROM {name}_t;", [[7, 2]])
            assert sql.ask("GET", "/info").body["KsqlServerInfo"]["serverStatus"] == "RUNNING"


def test_settings_of_the_registry_have_the_names_that_its_client_knows() -> None:
    found = registry_of(
        {
            "ksql.schema.registry.url": "https://r:8081",
            "ksql.schema.registry.basic.auth.credentials.source": "USER_INFO",
            "ksql.schema.registry.basic.auth.user.info": "a:b",
            "ksql.schema.registry.ssl.truststore.location": "/t",
            "ksql.schema.registry.http.read.timeout.ms": "7",
        },
        2.0,
    )
    assert found is not None
    assert dict(found.properties) == {
        "schema.registry.url": "https://r:8081",
        "schema.registry.ssl.truststore.location": "/t",
        "basic.auth.credentials.source": "USER_INFO",
        "basic.auth.user.info": "a:b",
        "http.read.timeout.ms": "7",
        "http.connect.timeout.ms": "2000",
    }
    assert "a:b" not in repr(found)
