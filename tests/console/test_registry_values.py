"""Records that Confluent's serializer has written are searched and shown as the values that they are."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from tests.console.running import running_console
from tests.ports import free_port
from tests.registry.running import record
from tests.server import running_server
from tests.waiting import until


@pytest.mark.slow  # a broker, a registry and a console of its own; make test-console
def test_avro_values_are_searched_by_their_fields(tmp_path: Path) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    overrides = [f"ottla.registry.listeners={url}", "group.initial.rebalance.delay.ms=0"]
    with running_server(tmp_path, overrides=overrides) as server:
        client = SchemaRegistryClient({"url": url})
        until(lambda: client.get_subjects() == [], lambda: server.lines, past=(Exception,))
        serialize = AvroSerializer(client, record("Order", "amount"))
        producer = Producer({"bootstrap.servers": server.bootstrap})
        for amount in range(20):
            value = serialize({"amount": amount}, SerializationContext("orders", MessageField.VALUE))
            producer.produce("orders", key=str(amount), value=value)
        producer.produce("orders", key="odd", value=b"\x00\x00\x00\x99\x99no schema has this id")
        producer.flush()
        with running_console(server.bootstrap, "--schema-registry", url) as console:
            frames = console.scan(topic="orders", where="value.amount >= 17")
            rows = [row for frame in frames if frame["type"] == "rows" for row in frame["rows"]]
            assert sorted(json.loads(row["value"]["text"])["amount"] for row in rows) == [17, 18, 19]
            assert rows[0]["value"]["by"] == "avro by schema 1" and rows[0]["value"]["bytes"] == 6
            (odd,) = [
                row
                for frame in console.scan(topic="orders", where="key = 'odd'")
                if frame["type"] == "rows"
                for row in frame["rows"]
            ]
            assert odd["value"]["decoder"] == "hex"
            whole = console.get(f"/topics/orders/records/{rows[0]['partition']}/{rows[0]['offset']}")
            assert whole["value"]["by"] == "avro by schema 1"
