"""Rows a second of Ottla's serdes and confluent-kafka's, in turn: `python -m bench.registry_serdes URL ROWS` prints them."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

__all__ = ["FORMATS", "rates"]

FORMATS = ("Avro", "JSON Schema", "Protobuf")
SECONDS_MAX = 600
TOPIC = "rows"
AVRO = json.dumps(
    {
        "type": "record",
        "name": "Row",
        "fields": [
            *({"name": name, "type": "string"} for name in ("name", "city", "street")),
            *({"name": name, "type": "long"} for name in ("id", "stamp")),
            *({"name": name, "type": "double"} for name in ("price", "weight")),
            {"name": "note", "type": ["null", "string"], "default": None},
        ],
    }
)
JSON = json.dumps(
    {
        "title": "Row",
        "type": "object",
        "properties": {
            **{name: {"type": "string"} for name in ("name", "city", "street")},
            **{name: {"type": "integer"} for name in ("id", "stamp")},
            **{name: {"type": "number"} for name in ("price", "weight")},
        },
    }
)
PROTOBUF = """syntax = "proto3";
message Row {
  string name = 1;
  string city = 2;
  string street = 3;
  int64 id = 4;
  int64 stamp = 5;
  double price = 6;
  double weight = 7;
}
"""
ROW: dict[str, Any] = {
    "name": "Anna Nowak",
    "city": "Gdańsk",
    "street": "Długa 7",
    "id": 7_000_000_001,
    "stamp": 1_790_000_000_000,
    "price": 12.25,
    "weight": 0.5,
}
Turn = Callable[[], object]


def rates(url: str, rows: int) -> dict[str, dict[str, float]]:
    """Return rows a second by `ours` or `theirs`, and by what was done; in a process of its own."""
    command = [sys.executable, "-m", "bench.registry_serdes", url, str(rows)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_MAX, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[-1])
    found: dict[str, dict[str, float]] = json.loads(done.stdout)
    return found


def _ours(url: str) -> dict[str, Turn]:
    from ottla.schemas import SchemaType
    from ottla.serdes import Deserializer, SchemaText, Serializer, serde_settings

    found: dict[str, Turn] = {}
    for name, kind, text in zip(FORMATS, SchemaType, (AVRO, JSON, PROTOBUF), strict=True):
        settings = serde_settings({"schema.registry.url": url, "json.fail.invalid.schema": "true"}, is_key=False)
        schema = SchemaText(kind, text)
        serializer, reader = Serializer(settings), Deserializer(settings)
        topic = f"{TOPIC}-{kind}"
        data = serializer.serialize(topic, ROW, schema)
        decoded = reader.deserialize(data)
        assert decoded is not None
        value = decoded.value if name == "Protobuf" else ROW
        found[f"{name}: write"] = _turn(serializer.serialize, topic, value, schema)
        found[f"{name}: read"] = _turn(reader.deserialize, data)
    return found


def _turn(call: Callable[..., object], *values: object) -> Turn:
    return lambda: call(*values)


def _theirs(url: str) -> dict[str, Turn]:
    from confluent_kafka.schema_registry import SchemaRegistryClient
    from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
    from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
    from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
    from confluent_kafka.serialization import MessageField, SerializationContext

    from ottla.schemas import SchemaType
    from ottla.serdes import Deserializer, SchemaText, Serializer, serde_settings

    client = SchemaRegistryClient({"url": url})
    settings = serde_settings({"schema.registry.url": url}, is_key=False)
    written = Serializer(settings).serialize(f"{TOPIC}-PROTOBUF", ROW, SchemaText(SchemaType.PROTOBUF, PROTOBUF))
    decoded = Deserializer(settings).deserialize(written)
    assert decoded is not None
    message: Any = decoded.value
    pairs = {
        "Avro": (AvroSerializer(client, AVRO), AvroDeserializer(client), ROW),
        "JSON Schema": (JSONSerializer(JSON, client), JSONDeserializer(None, schema_registry_client=client), ROW),
        "Protobuf": (
            ProtobufSerializer(type(message), client, {"use.deprecated.format": False}),
            ProtobufDeserializer(type(message), {"use.deprecated.format": False}, client),
            message,
        ),
    }
    found: dict[str, Turn] = {}
    for name, (serializer, reader, value) in pairs.items():
        context = SerializationContext(f"{TOPIC}-theirs-{name.split()[0]}", MessageField.VALUE)
        data = serializer(value, context)
        found[f"{name}: write"] = _turn(serializer, value, context)
        found[f"{name}: read"] = _turn(reader, data, context)
    return found


def _rate(turn: Turn, rows: int) -> float:
    for _ in range(min(rows, 200)):
        turn()
    begun = time.perf_counter()
    for _ in range(rows):
        turn()
    return rows / (time.perf_counter() - begun)


def main(url: str, rows: int) -> dict[str, dict[str, float]]:
    """Measure both, what is alike one after the other."""
    ours, theirs = _ours(url), _theirs(url)
    return {
        "ours": {name: _rate(turn, rows) for name, turn in ours.items()},
        "theirs": {name: _rate(turn, rows) for name, turn in theirs.items()},
    }


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], int(sys.argv[2]))))
