"""Keys and values by schemas in files: what they are is searched, shown and masked as JSON; what does not fit stays."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fastavro
import pytest
from confluent_kafka import Producer
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

from ottla.base import ConfigError, Millis
from ottla.console.records.file_decoders import FileDecoder, file_decoders, values_of
from ottla.console.records.reads import Read
from ottla.wire import Record
from tests.console.running import RunningConsole, running_console
from tests.server import running_server

AVRO = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "long"}, {"name": "card", "type": "string"}],
}
PROTO = (
    'syntax = "proto3"; package shop; message Other { int32 x = 1; } message Order { int64 id = 1; string card = 2; }'
)


def avro(number: int) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(AVRO), {"id": number, "card": f"4929-{number:04}"})
    return out.getvalue()


def descriptors() -> FileDescriptorProto:
    file = FileDescriptorProto(name="shop.proto", package="shop", syntax="proto3")
    message = file.message_type.add(name="Order")
    kinds = {"id": FieldDescriptorProto.TYPE_INT64, "card": FieldDescriptorProto.TYPE_STRING}
    for number, (name, kind) in enumerate(kinds.items(), 1):
        message.field.add(name=name, number=number, type=kind, label=FieldDescriptorProto.LABEL_OPTIONAL)
    return file


def protobuf(number: int) -> bytes:
    pool = DescriptorPool()
    pool.Add(descriptors())
    made: Any = GetMessageClass(pool.FindMessageTypeByName("shop.Order"))(id=number, card=f"4929-{number:04}")
    return bytes(made.SerializeToString())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("schemas")
    (found / "order.avsc").write_text(json.dumps(AVRO))
    (found / "order.proto").write_text(PROTO)
    (found / "all.desc").write_bytes(FileDescriptorSet(file=[descriptors()]).SerializeToString())
    rules = [
        {"topics": "avro*", "value": "order.avsc"},
        {"topics": "proto", "key": "order.proto#shop.Order", "value": "order.proto#Order"},
        {"topics": "desc", "value": "all.desc#shop.Order"},
        {"topics": "*", "value": "order.proto"},
    ]
    (found / "decoders.json").write_text(json.dumps(rules))
    return found


def read(rules: tuple[FileDecoder, ...], topic: str, value: bytes | None, key: bytes | None = None) -> Record | Read:
    values = values_of(rules, None, topic)
    assert values is not None
    (found,) = asyncio.run(values.read([Record(timestamp=Millis(1), key=key, value=value)]))
    return found


def test_the_first_rule_that_fits_a_topic_reads_its_part(folder: Path) -> None:
    rules = file_decoders(str(folder / "decoders.json"), "s")
    for topic, data, said in (
        ("avro-orders", avro(7), "avro by order.avsc"),
        ("proto", protobuf(7), "protobuf by order.proto#Order"),
        ("desc", protobuf(7), "descriptors by all.desc#shop.Order"),
    ):
        found = read(rules, topic, data)
        assert isinstance(found, Read) and found.value is not None
        order = json.loads(found.value)
        assert (int(order["id"]), order["card"]) == (7, "4929-0007")
        assert (found.value_by, found.value_bytes, found.key_by) == (said, len(data), None)
    both = read(rules, "proto", protobuf(1), protobuf(2))
    assert isinstance(both, Read) and both.key_by == "protobuf by order.proto#shop.Order"


@pytest.mark.parametrize("data", [None, b"", b"\xff" * 20, b"no avro at all", b"\x0e"])
def test_what_does_not_fit_stays_as_it_is(folder: Path, data: bytes | None) -> None:
    found = read(file_decoders(str(folder / "decoders.json"), "s"), "avro", data)
    assert isinstance(found, Record) and found.value == data


def test_a_topic_without_a_rule_is_read_by_the_registry_alone(folder: Path) -> None:
    assert values_of(file_decoders(str(folder / "decoders.json"), "s")[:1], None, "other") is None


@pytest.mark.parametrize(
    ("rules", "words"),
    [
        ("nonsense", "a JSON list of rules"),
        ("{}", "a JSON list of rules"),
        ('[{"topics": "a"}]', "names a schema"),
        ('[{"value": "order.avsc"}]', "each rule has topics"),
        ('[{"topics": "a", "value": "order.avsc", "more": 1}]', "each rule has topics"),
        ('[{"topics": "a", "value": "order.txt"}]', "a file that ends with"),
        ('[{"topics": "a", "value": "none.avsc"}]', "a schema's file"),
        ('[{"topics": "a", "value": "all.desc"}]', "is named: all.desc#shop.Order"),
        ('[{"topics": "a", "value": "all.desc#shop.None"}]', "no message shop.None"),
        ('[{"topics": "a", "value": "order.proto#None"}]', "no message None"),
        ('[{"topics": "a", "value": "bad.avsc"}]', "a schema that can be used"),
    ],
)
def test_a_rule_that_cannot_be_says_why(folder: Path, rules: str, words: str) -> None:
    (folder / "bad.avsc").write_text('{"type": "nothing"}')
    (folder / "wrong.json").write_text(rules)
    with pytest.raises(ConfigError, match=words):
        file_decoders(str(folder / "wrong.json"), "s")


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory, folder: Path) -> Iterator[RunningConsole]:
    with running_server(tmp_path_factory.mktemp("broker")) as server:
        producer = Producer({"bootstrap.servers": server.bootstrap})
        for number in range(50):
            producer.produce("avro", avro(number))
            producer.produce("proto", protobuf(number), key=protobuf(number))
        producer.flush()
        masks = json.dumps([{"topics": "proto", "path": "value.card", "how": "hide"}])
        options = ("--override", f"ottla.console.decoders.file={folder / 'decoders.json'}")
        with running_console(server.bootstrap, *options, "--override", f"ottla.console.masks={masks}") as found:
            yield found


def test_searches_see_the_fields_and_pages_by_what_they_were_read(console: RunningConsole) -> None:
    found = console.scan(topic="avro", where="value.id >= 48", **{"from": "oldest"})
    rows = [row for frame in found if frame["type"] == "rows" for row in frame["rows"]]
    assert [json.loads(each["value"]["text"]) for each in rows] == [
        {"id": 48, "card": "4929-0048"},
        {"id": 49, "card": "4929-0049"},
    ]
    assert rows[0]["value"]["by"] == "avro by order.avsc"
    one = console.get("/topics/avro/records/0/3")
    assert json.loads(one["value"]["text"])["id"] == 3 and one["value"]["by"] == "avro by order.avsc"


def test_masks_hide_what_a_file_lets_be_read(console: RunningConsole) -> None:
    found = console.scan(topic="proto", **{"from": "oldest"})
    values = [row["value"]["text"] for frame in found if frame["type"] == "rows" for row in frame["rows"]]
    assert len(values) == 50 and not any("4929" in each for each in values)
    assert console.post("/scans", {"topic": "proto", "where": "value.card LIKE '4%'"}).status == 403
    assert "4929" not in console.get("/topics/proto/records/0/3")["value"]["text"]
