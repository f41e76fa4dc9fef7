"""Records by a registry's schemas keep their logical types on the way into PostgreSQL, S3 and files."""

from __future__ import annotations

import io
from collections.abc import Iterator
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("psycopg")
pytest.importorskip("confluent_kafka.schema_registry")

import pyarrow.parquet as pq
import sqlalchemy as sa
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from ottla.base import TopicPartition
from ottla.client import BlockingClient
from ottla.connect import SchemaBuilder, SinkRecord, Struct, data
from ottla.connect.plugins import PluginKind, discover
from ottla.connectors.s3 import S3SinkTask
from tests.connectors.jdbc import worker as jdbc
from tests.connectors.s3_server import KEYS, S3Server, Worker, running_s3
from tests.registry.running import RegistryProcess, running_registry
from tests.server import Server
from tests.spark.conftest import create_topic
from tests.spark.query_tasks import produce, query_task, until
from tools.postgres import PASSWORD, USER, PostgresServer, missing, private_cluster

# slow: Spark, PostgreSQL and S3 together, for what seldom changes
pytestmark = [pytest.mark.compat, pytest.mark.slow, pytest.mark.timeout(600)]
CONVERTERS = {
    "avro": "io.confluent.connect.avro.AvroConverter",
    "json": "io.confluent.connect.json.JsonSchemaConverter",
    "protobuf": "io.confluent.connect.protobuf.ProtobufConverter",
}
SALE = (
    SchemaBuilder.struct()
    .name("shop.Sale")
    .field("id", data.INT64)
    .field("price", data.decimal_schema(2))
    .field("day", data.DATE_SCHEMA)
    .field("hour", data.TIME_SCHEMA)
    .field("at", data.TIMESTAMP_SCHEMA)
    .build()
)
VALUES = {
    "id": 7,
    "price": Decimal("12.30"),
    "day": date(2024, 2, 29),
    "hour": time(23, 59, 58, 5000),
    "at": datetime(2024, 2, 29, 12, 30, 0, 123000, tzinfo=UTC),
}
AVRO = """{"type": "record", "name": "Sale", "namespace": "shop", "fields": [{"name": "id", "type": "long"},
 {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
 {"name": "day", "type": {"type": "int", "logicalType": "date"}},
 {"name": "hour", "type": {"type": "int", "logicalType": "time-millis"}},
 {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}}]}"""
FORMATS = [*CONVERTERS, "confluent's avro"]


@pytest.fixture(scope="module")
def registry(server: Server) -> Iterator[RegistryProcess]:
    overrides = ["kafkastore.topic=_sinks", "schema.registry.group.id=sinks"]
    with running_registry(server.bootstrap, overrides=overrides) as found:
        yield found


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    if (reason := missing()) is not None:
        pytest.skip(reason)
    with private_cluster() as found:
        yield found


@pytest.fixture(scope="module")
def s3() -> Iterator[S3Server]:
    with running_s3() as found:
        yield found


def converter(registry: RegistryProcess, form: str) -> Any:
    made = discover().require(PluginKind.CONVERTER, CONVERTERS[form.split()[-1]])()
    made.configure({"schema.registry.url": registry.url}, is_key=False)
    return made


def written(registry: RegistryProcess, form: str, topic: str) -> bytes:
    """Return a record's bytes: those of the converter, or of Confluent's own serializer."""
    if form in CONVERTERS:
        found: bytes = converter(registry, form).from_connect(topic, SALE, Struct(SALE, VALUES))
        return found
    serializer = AvroSerializer(SchemaRegistryClient({"url": registry.url}), AVRO)
    made: bytes = serializer(VALUES, SerializationContext(topic, MessageField.VALUE))
    return made


def received(registry: RegistryProcess, form: str, topic: str) -> SinkRecord:
    found = converter(registry, form).to_connect(topic, written(registry, form, topic))
    return SinkRecord(topic=topic, partition=0, value_schema=found.schema, value=found.value, offset=0, timestamp=1)


@pytest.mark.parametrize("form", FORMATS)
def test_postgresql_gets_decimals_dates_and_times(
    registry: RegistryProcess, postgres: PostgresServer, form: str
) -> None:
    table = "sales_" + "".join(each for each in form if each.isalpha())
    props = {
        "connection.url": postgres.jdbc_url("postgres"),
        "connection.user": USER,
        "connection.password": PASSWORD,
        "auto.create": "true",
        "table.name.format": table,
        "topics": table,
    }
    task = jdbc.sink(props)
    task.put([received(registry, form, table)])
    jdbc.stop_all()
    engine = sa.create_engine(postgres.url, poolclass=sa.NullPool)
    with engine.begin() as connection:
        types = connection.execute(
            sa.text("SELECT column_name, data_type FROM information_schema.columns WHERE table_name = :name"),
            {"name": table},
        )
        kinds = dict(row.tuple() for row in types)
        [row] = connection.execute(sa.text(f"SELECT id, price, day, hour, at FROM {table}"))
    assert tuple(row) == tuple({**VALUES, "at": VALUES["at"].replace(tzinfo=None)}.values())  # type: ignore[attr-defined]
    assert kinds["price"] == "numeric" and kinds["day"] == "date"
    assert kinds["hour"].startswith("time ") and kinds["at"].startswith("timestamp ")


@pytest.mark.parametrize("form", FORMATS)
def test_parquet_on_s3_has_decimals_dates_and_times(registry: RegistryProcess, s3: S3Server, form: str) -> None:
    topic = "sales-" + "".join(each for each in form if each.isalpha())
    bucket = s3.bucket(topic)
    props = {
        **KEYS,
        "s3.bucket.name": bucket,
        "store.url": s3.url,
        "flush.size": "1",
        "topics": topic,
        "storage.class": "io.confluent.connect.s3.storage.S3Storage",
        "format.class": "io.confluent.connect.s3.format.parquet.ParquetFormat",
    }
    sink = Worker(S3SinkTask, props, {TopicPartition(topic, 0): [received(registry, form, topic)]})
    sink.run()
    sink.stop()
    [content] = s3.objects(bucket).values()
    assert pq.read_table(io.BytesIO(content)).to_pylist() == [VALUES]


@pytest.mark.spark
@pytest.mark.parametrize("form", FORMATS)
def test_parquet_files_have_decimals_dates_and_times(
    server: Server, registry: RegistryProcess, spark: Any, tmp_path: Path, form: str
) -> None:
    name = "files-" + "".join(each for each in form if each.isalpha())
    with BlockingClient(server.bootstrap) as client:
        topic = create_topic(client, name, 1)
        produce(client, topic, [written(registry, form, topic)])
        config = {
            "connector.class": "FilesystemSink",
            "rotate.interval.ms": "250",
            "name": name,
            "topics": topic,
            "path": str(tmp_path),
            "key.converter": "org.apache.kafka.connect.converters.ByteArrayConverter",
            "value.converter": CONVERTERS[form.split()[-1]],
            "value.converter.schema.registry.url": registry.url,
        }
        with query_task(spark, server.bootstrap, config) as port:
            until(port, lambda: port.records == 1)
    rows = spark.read.parquet(str(tmp_path / topic))
    kinds = {each.name: each.dataType.simpleString() for each in rows.schema}
    assert kinds["price"].startswith("decimal(") and kinds["price"].endswith(",2)")
    assert (kinds["day"], kinds["at"]) == ("date", "timestamp")
    [row] = rows.selectExpr("id", "price", "day", "cast(at as string) as at").collect()
    assert (row.id, row.price, row.day) == (7, VALUES["price"], VALUES["day"])
