"""Spark's columns and Streams' serdes by a registry, beside what Confluent's own serializers write and read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("confluent_kafka.schema_registry")

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from confluent_kafka.schema_registry import SchemaRegistryClient, header_schema_id_serializer
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from ottla.schemas import SchemaType
from ottla.serdes import SchemaText, SerdeError
from ottla.spark import StreamsApplication
from ottla.spark.registry import from_registry, to_registry
from ottla.spark.registry_serde import registry_serde
from ottla.streams import Materialized, StreamsBuilder
from tests.compat.registry_messages import greeting_class
from tests.registry.running import RegistryProcess, running_registry
from tests.server import Server

pytestmark = [pytest.mark.compat, pytest.mark.spark, pytest.mark.timeout(600)]
V1 = json.dumps(
    {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}, {"name": "who", "type": "string"}]}
)
V2_FIELDS = [*json.loads(V1)["fields"], {"name": "price", "type": ["null", "double"], "default": None}]
V2 = json.dumps({"type": "record", "name": "Order", "fields": V2_FIELDS})
COUNTED = json.dumps(
    {
        "type": "record",
        "name": "Counted",
        "fields": [{"name": "who", "type": "string"}, {"name": "orders", "type": "long"}],
    }
)
PERSON = json.dumps(
    {"title": "Person", "type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer"}}}
)
GREETING = 'syntax = "proto3"; package ottla; message Greeting { string words = 1; int32 times = 2; }'


@pytest.fixture(scope="module")
def registry(server: Server) -> Iterator[RegistryProcess]:
    overrides = ["kafkastore.topic=_spark", "schema.registry.group.id=spark"]
    with running_registry(server.bootstrap, overrides=overrides) as found:
        yield found


@pytest.fixture
def client(registry: RegistryProcess) -> SchemaRegistryClient:
    return SchemaRegistryClient({"url": registry.url})


@pytest.fixture
def options(registry: RegistryProcess) -> dict[str, str]:
    return {"schema.registry.url": registry.url}


def make_topic(server: Server, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": server.bootstrap})
    for each in admin.create_topics([NewTopic(topic, 1, 1)]).values():
        each.result(30)


def write(server: Server, topic: str, rows: list[tuple[bytes | None, list[tuple[str, bytes]]]]) -> None:
    make_topic(server, topic)
    producer = Producer({"bootstrap.servers": server.bootstrap})
    for value, headers in rows:
        producer.produce(topic, value, headers=headers)
    assert producer.flush(30) == 0


def consumed(server: Server, topic: str, count: int) -> list[Any]:
    consumer = Consumer(
        {"bootstrap.servers": server.bootstrap, "group.id": f"{topic}-reader", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([topic])
    found: list[Any] = []
    try:
        for _ in range(600):
            found += [each for each in consumer.consume(100, timeout=0.5) if each.error() is None]
            if len(found) >= count:
                break
        return found
    finally:
        consumer.close()


def rows_of(spark: Any, server: Server, topic: str, **more: str) -> Any:
    reading = spark.read.format("ottla").option("kafka.bootstrap.servers", server.bootstrap).option("subscribe", topic)
    return reading.options(**more).load()


def context(topic: str) -> SerializationContext:
    return SerializationContext(topic, MessageField.VALUE)


def test_records_of_two_versions_are_columns_of_the_latest(
    spark: Any, server: Server, client: SchemaRegistryClient, options: dict[str, str], topic: str
) -> None:
    old, new = AvroSerializer(client, V1), AvroSerializer(client, V2)
    data = [
        old({"id": 1, "who": "Anna"}, context(topic)),
        new({"id": 2, "who": "Åsa", "price": 1.5}, context(topic)),
        None,
    ]
    write(server, topic, [(each, []) for each in data])
    found = rows_of(spark, server, topic).select(from_registry("value", topic, options).alias("order"))
    assert found.schema.simpleString() == "struct<order:struct<id:bigint,who:string,price:double>>"
    rows = [row.order and row.order.asDict() for row in found.collect()]
    assert rows == [{"id": 1, "who": "Anna", "price": None}, {"id": 2, "who": "Åsa", "price": 1.5}, None]
    again = found.where("order is not null").select(
        to_registry("order", f"{topic}-out", options, schema=V2).alias("value")
    )
    writing = (
        again.write.format("ottla").option("kafka.bootstrap.servers", server.bootstrap).option("topic", f"{topic}-out")
    )
    make_topic(server, f"{topic}-out")
    writing.mode("append").save()
    read = AvroDeserializer(client)
    assert [read(each.value(), context(f"{topic}-out")) for each in consumed(server, f"{topic}-out", 2)] == rows[:2]
    assert client.get_latest_version(f"{topic}-out-value").version == 1


def test_what_cannot_be_read_is_null_or_ends_the_query(
    spark: Any, server: Server, client: SchemaRegistryClient, options: dict[str, str], topic: str
) -> None:
    good = AvroSerializer(client, V1)({"id": 1, "who": "Anna"}, context(topic))
    bad = [b"", b"text", b"\0\0\0\0", b"\0\0\0\x7f\x7f" + good[5:], good[:-1], good[:5]]
    write(server, topic, [(each, []) for each in (*bad, good, *bad)])
    rows = rows_of(spark, server, topic)
    found = rows.select(from_registry("value", topic, options, mode="PERMISSIVE").alias("order")).collect()
    assert [row.order is not None for row in found] == [*[False] * 6, True, *[False] * 6]
    with pytest.raises(Exception, match="SerdeError"):
        rows.select(from_registry("value", topic, options)).collect()
    with pytest.raises(SerdeError, match="asking for the latest schema"):
        from_registry("value", "nobody", options)


def test_schemas_that_headers_name_are_found(
    spark: Any,
    server: Server,
    registry: RegistryProcess,
    client: SchemaRegistryClient,
    options: dict[str, str],
    topic: str,
) -> None:
    serializer = AvroSerializer(client, V1, conf={"schema.id.serializer": header_schema_id_serializer})
    headers: list[tuple[str, bytes]] = []
    data = serializer({"id": 7, "who": "Åsa"}, SerializationContext(topic, MessageField.VALUE, headers))
    prefixed = AvroSerializer(client, V1)({"id": 8, "who": "Bo"}, context(topic))
    write(server, topic, [(data, headers), (prefixed, [])])
    rows = rows_of(spark, server, topic, includeHeaders="true")
    found = rows.select(from_registry("value", topic, options, headers="headers").alias("order")).collect()
    assert [row.order.id for row in found] == [7, 8]


def test_json_and_protobuf_are_columns_both_ways(
    spark: Any, server: Server, client: SchemaRegistryClient, options: dict[str, str], topic: str
) -> None:
    kind = greeting_class()
    protobuf = ProtobufSerializer(kind, client, {"use.deprecated.format": False})
    write(server, topic, [(protobuf(kind(words="hello", times=3), context(topic)), [])])
    found = rows_of(spark, server, topic).select(from_registry("value", topic, options).alias("v"))
    assert [row.v.asDict() for row in found.collect()] == [{"words": "hello", "times": 3}]
    greeting = SchemaText(SchemaType.PROTOBUF, GREETING)
    written = found.select(to_registry("v", f"{topic}-p", options, schema=greeting).alias("v")).collect()[0].v
    read = ProtobufDeserializer(kind, {"use.deprecated.format": False}, client)
    assert read(bytes(written), context(topic)) == kind(words="hello", times=3)

    serialize = JSONSerializer(PERSON, client)
    write(server, f"{topic}-json", [(serialize({"name": "Anna", "age": 7}, context(f"{topic}-json")), [])])
    people = rows_of(spark, server, f"{topic}-json").select(from_registry("value", f"{topic}-json", options).alias("v"))
    assert people.schema.simpleString() == "struct<v:struct<name:string,age:bigint>>"
    assert [row.v.asDict() for row in people.collect()] == [{"name": "Anna", "age": 7}]
    text = people.select(to_registry("v", f"{topic}-json", options).alias("v")).collect()[0].v
    assert JSONDeserializer(PERSON, schema_registry_client=client)(bytes(text), context(topic)) == {
        "name": "Anna",
        "age": 7,
    }


def test_a_streams_application_reads_keeps_and_writes_by_the_registry(
    server: Server, client: SchemaRegistryClient, options: dict[str, str], topic: str
) -> None:
    serialize = AvroSerializer(client, V1)
    orders = [serialize({"id": each, "who": "Anna" if each % 3 else "Åsa"}, context(topic)) for each in range(9)]
    write(server, topic, [(each, []) for each in orders])
    make_topic(server, f"{topic}-out")
    order, counted = registry_serde(options, V1), registry_serde(options, COUNTED)
    builder = StreamsBuilder()

    def count(who: str, value: Any, before: Any) -> Any:
        return {"who": who, "orders": (before["orders"] if before else 0) + 1}

    (
        builder.stream(topic, key_serde="bytes", value_serde=order)
        .group_by(lambda key, value: value["who"], key_serde="string", value_serde=order)
        .aggregate(lambda: None, count, materialized=Materialized("counts", value_serde=counted))
        .to_stream()
        .to(f"{topic}-out", key_serde="string", value_serde=counted)
    )
    application = f"{topic}-app"
    settings = {
        "application.id": application,
        "bootstrap.servers": server.bootstrap,
        "auto.offset.reset": "earliest",
        "statestore.cache.max.bytes": "0",
    }
    with StreamsApplication(builder.build(), settings):
        found = consumed(server, f"{topic}-out", 9)
    read = AvroDeserializer(client)
    last = {each.key(): read(each.value(), context(f"{topic}-out")) for each in found}
    assert last == {b"Anna": {"who": "Anna", "orders": 6}, "Åsa".encode(): {"who": "Åsa", "orders": 3}}
    subjects = client.get_subjects()
    assert f"{topic}-out-value" in subjects
    assert any(each.startswith(application) and each.endswith("-changelog-value") for each in subjects), subjects
