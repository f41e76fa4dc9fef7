"""Avro of a registry goes through Connect into an S3 object and back, and is of the same schema and values."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from ottla.connect import SinkRecord
from ottla.connect.plugins import PluginKind, discover
from ottla.connectors.s3 import S3SinkTask
from tests.connectors.avro_schemas import shape
from tests.connectors.s3_server import S3Server, Worker
from tests.connectors.test_avro_files import SALE, SHOP
from tests.connectors.test_s3_sink import PLACE, properties
from tests.connectors.test_s3_source import Stored, polled, source_properties, started
from tests.registry.running import running_registry
from tests.server import running_server


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder: Path = tmp_path_factory.mktemp("broker")
    with running_server(folder) as server, running_registry(server.bootstrap) as found:
        yield found.url


def converter(url: str) -> Any:
    made = discover().require(PluginKind.CONVERTER, "io.confluent.connect.avro.AvroConverter")()
    made.configure({"schema.registry.url": url}, is_key=False)
    return made


def test_avro_of_a_registry_comes_back_from_an_s3_object_as_it_was(s3: S3Server, registry: str) -> None:
    client = SchemaRegistryClient({"url": registry})
    write = AvroSerializer(client, json.dumps(SHOP), conf={"use.latest.version": False})
    sales = [SALE, {**SALE, "any": None, "before": None}, {**SALE, "any": 7}, {**SALE, "any": ("shop.v1.A", {})}]
    plain = [_told(each) for each in sales]
    topic, bucket = SerializationContext("connect-test", MessageField.VALUE), s3.bucket("avro-there-and-back")
    records = []
    for number, each in enumerate(plain):
        found = converter(registry).to_connect("connect-test", write(each, topic))
        kept = {"value_schema": found.schema, "value": found.value, "offset": number, "timestamp": 1_700_000_000_000}
        records.append(SinkRecord(topic="connect-test", partition=0, **kept))
    Worker(S3SinkTask, properties(s3, bucket, format_class="AvroFormat", flush_size="4"), {PLACE: records}).run()
    (body,) = s3.objects(bucket).values()
    assert shape(fastavro.reader(io.BytesIO(body)).writer_schema) == shape(SHOP)

    stored: Stored = {}
    back = polled(started(source_properties(s3, bucket, "AvroFormat"), stored), stored)
    assert [(each.value_schema, each.value) for each in back] == [(each.value_schema, each.value) for each in records]
    again = SerializationContext("again", MessageField.VALUE)
    written = [converter(registry).from_connect("again", each.value_schema, each.value) for each in back]
    read = AvroDeserializer(client)
    assert [read(each, again) for each in written] == [read(write(each, topic), topic) for each in plain]
    told = json.loads(str(client.get_latest_version("again-value").schema.schema_str))
    assert shape(told) == shape(SHOP)


def _told(sale: dict[str, Any]) -> dict[str, Any]:
    """Return a value with its logical types, as Confluent's serializer takes it."""
    return {**sale, "price": Decimal("2.56"), "day": date(1970, 1, 3), "at": datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)}
