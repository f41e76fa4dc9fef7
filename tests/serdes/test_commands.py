"""`ottla produce` and `ottla consume`, and Kafka's console tools, write and print by a registry's schemas."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from tests.ports import free_port
from tests.registry.running import RegistryProcess
from tests.server import Server

AVRO = '{"type":"record","name":"U","fields":[{"name":"name","type":"string"}]}'
JSON = '{"type":"object","properties":{"name":{"type":"string"}}}'
PROTO = 'syntax = "proto3"; message Other {} message U { string name = 1; }'
ANNA = '{"name":"Anna"}'


def ottla(*command: str, given: str = "") -> Any:
    line = [sys.executable, "-m", "ottla.cli.main", *command]
    return subprocess.run(line, input=given, capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize(
    ("form", "text", "more"),
    [("avro", AVRO, ()), ("json-schema", JSON, ()), ("protobuf", PROTO, ("--value-message", "U"))],
)
def test_what_is_produced_by_a_schema_is_consumed_as_it_was(
    broker: Server, registry: RegistryProcess, topic: str, tmp_path: Path, form: str, text: str, more: tuple[str, ...]
) -> None:
    file = tmp_path / "schema"
    file.write_text(text)
    where = ("--bootstrap-server", broker.bootstrap, "--schema-registry", registry.url)
    options = ("--value-format", form, "--value-schema-file", str(file), *more)
    sent = ottla("produce", topic, *where, *options, given=f"{ANNA}\n")
    assert (sent.returncode, sent.stderr) == (0, "")
    read = ottla("consume", topic, *where, "-e")
    assert (read.stdout, read.stderr) == (f"{ANNA}\n", "")
    latest = ottla("console-producer", "--topic", topic, *where, "--value-format", form, *more, given=f"{ANNA}\n")
    assert (latest.returncode, latest.stderr) == (0, "")
    again = ottla("console-consumer", "--topic", topic, *where, "--from-beginning", "--max-messages", "2")
    assert again.stdout == f"{ANNA}\n{ANNA}\n"


def test_what_confluents_serializer_wrote_is_printed_beside_what_has_no_schema(
    broker: Server, registry: RegistryProcess, topic: str
) -> None:
    serialize = AvroSerializer(SchemaRegistryClient({"url": registry.url}), AVRO)
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    producer.produce(topic, serialize({"name": "Anna"}, SerializationContext(topic, MessageField.VALUE)), partition=0)
    producer.produce(topic, b"plain", partition=0)
    producer.produce(topic, b"\x00\x00\x0f\x0f\x0flost", partition=0)
    producer.flush()
    del producer  # whose threads would look for the broker
    read = ottla("consume", topic, "--bootstrap-server", broker.bootstrap, "--schema-registry", registry.url, "-e")
    assert read.stdout.startswith(f"{ANNA}\nplain\n") and "lost" in read.stdout
    assert "40403" in read.stderr


def test_a_value_that_does_not_fit_is_refused_and_names_its_record(
    broker: Server, registry: RegistryProcess, topic: str, tmp_path: Path
) -> None:
    file = tmp_path / "schema"
    file.write_text(AVRO)
    where = ("--bootstrap-server", broker.bootstrap, "--schema-registry", registry.url)
    options = ("--value-format", "avro", "--value-schema-file", str(file))
    sent = ottla("produce", topic, *where, *options, given=f'{ANNA}\n{{"name":1}}\n')
    assert sent.returncode == 1
    assert "record 2" in sent.stderr and "Traceback" not in sent.stderr
    assert ottla("consume", topic, *where, "-e").stdout == f"{ANNA}\n"


@pytest.mark.parametrize(
    "wrong",
    [
        ("--value-format", "avro"),
        ("--schema-registry", "http://127.0.0.1:1"),
        ("--value-schema-file", "x"),
        ("--schema-registry", "nowhere", "--value-format", "avro"),
        ("--schema-registry", "http://127.0.0.1:1", "--value-format", "avro", "--value-schema-file", "/not/there"),
    ],
)
def test_options_that_make_no_sense_are_refused_in_a_line(broker: Server, topic: str, wrong: tuple[str, ...]) -> None:
    found = ottla("produce", topic, "--bootstrap-server", broker.bootstrap, *wrong, given="{}\n")
    assert found.returncode != 0 and found.stderr and "Traceback" not in found.stderr


def test_a_registry_that_is_away_ends_a_command_with_a_line(broker: Server, topic: str) -> None:
    away = ("--schema-registry", f"http://127.0.0.1:{free_port()}", "--registry-property", "max.retries=0")
    sent = ottla(
        "produce", topic, "--bootstrap-server", broker.bootstrap, *away, "--value-format", "avro", given="{}\n"
    )
    assert sent.returncode == 1 and "did not answer" in sent.stderr and "Traceback" not in sent.stderr


@pytest.mark.parametrize(("form", "text"), [("avro", AVRO), ("json-schema", JSON)])
def test_confluents_command_names_take_its_properties(
    broker: Server, registry: RegistryProcess, topic: str, form: str, text: str
) -> None:
    scripts = (sys.executable, "-m", "ottla.cli.scripts")
    where = (
        "--bootstrap-server",
        broker.bootstrap,
        "--topic",
        topic,
        "--property",
        f"schema.registry.url={registry.url}",
    )
    write = [*scripts, f"kafka-{form}-console-producer", *where, "--property", f"value.schema={text}"]
    sent = subprocess.run(write, input=f"{ANNA}\n", capture_output=True, text=True, timeout=120)
    waited = f"ottla console-producer: topic {topic} is not there yet; waiting for it\n"  # where others are slow
    assert (sent.returncode, sent.stderr.removeprefix(waited)) == (0, "")
    read = [*scripts, f"kafka-{form}-console-consumer", *where, "--from-beginning", "--max-messages", "1"]
    assert subprocess.run(read, capture_output=True, text=True, timeout=120).stdout == f"{ANNA}\n"
    assert f"{topic}-value" in registry.get("/subjects")
