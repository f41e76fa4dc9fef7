"""What strangers send, and what happens to the topic behind a registry's back: each costs its own answer, and no more."""

from __future__ import annotations

import asyncio
import gzip
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from socket import create_server
from typing import Any

import pytest

from ottla.base import TopicPartition
from ottla.client import BlockingClient, Client, NewTopic, batch_of, create_topics
from ottla.registry.core import RegistryError, State, Unreadable, Wanted, decode, register
from ottla.registry.core.records import INT_MAX, ModeSet, SchemaStored, StoredSchema
from ottla.registry.settings import registry_settings
from ottla.registry.store import Store
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tests.registry.running import RegistryProcess, record
from tests.server import Server
from tests.waiting import until, until_async

NEWEST = "https://json-schema.org/draft/2020-12/schema"


def as_json(schema: Any) -> dict[str, str]:
    return {"schema": json.dumps(schema), "schemaType": "JSON"}


@pytest.fixture
def visits() -> Iterator[tuple[str, list[bytes]]]:
    """An address that nobody may ask, and what it was asked."""
    found: list[bytes] = []
    with create_server(("127.0.0.1", 0)) as server:

        def take() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                found.append(connection.recv(1000))
                connection.close()

        threading.Thread(target=take, daemon=True).start()
        yield f"127.0.0.1:{server.getsockname()[1]}", found


def test_nothing_that_a_json_schema_names_is_fetched(
    registry: RegistryProcess, subject: str, visits: tuple[str, list[bytes]]
) -> None:
    address, asked = visits
    for target in (f"http://{address}/x.json", f"//{address}/x", "file:///etc/passwd", "../../../etc/passwd"):
        for key in ("$ref", "$dynamicRef", "$recursiveRef"):
            schema = {"$schema": NEWEST, "properties": {"a": {key: target}}}
            assert registry.error("POST", f"/subjects/{subject}/versions", as_json(schema))[1] == 42201, (key, target)
    based = {"$id": f"http://{address}/d", "properties": {"a": {"$ref": "other.json"}}}
    assert registry.error("POST", f"/subjects/{subject}/versions", as_json(based))[1] == 42201
    assert registry.register(subject, **as_json({"$schema": f"http://{address}/dialect", "type": "object"})) > 0
    assert not asked


def test_patterns_that_take_for_ever_are_never_matched(registry: RegistryProcess, subject: str) -> None:
    patterns = {"^(a+)+$": {}, "^(([a-z])+.)+[A-Z]([a-z])+$": {"type": "string"}}
    name = "a" * 60 + "!"
    closed = {"type": "object", "patternProperties": patterns, "additionalProperties": False}
    assert registry.register(subject, **as_json(closed)) > 0
    assert registry.register(subject, **as_json({**closed, "properties": {name: {"type": "string"}}})) > 0


@pytest.mark.parametrize("name", ["../x.proto", "/tmp/evil.proto", "a/../../b.proto", "", "a\\b.proto", "x\0.proto"])
def test_no_import_has_a_name_that_leads_out_of_its_folder(registry: RegistryProcess, subject: str, name: str) -> None:
    message = 'syntax = "proto3"; message A {}'
    registry.register(subject, message, schemaType="PROTOBUF")
    body = {
        "schema": f"{message} message B {{}}",
        "schemaType": "PROTOBUF",
        "references": [{"name": name, "subject": subject, "version": 1}],
    }
    assert registry.error("POST", f"/subjects/{subject}/versions", body)[1] == 42201


def test_no_file_of_the_machine_is_imported(registry: RegistryProcess, subject: str, tmp_path: Path) -> None:
    (tmp_path / "secret.proto").write_text('syntax = "proto3"; message Secret {}')
    for place in (str(tmp_path / "secret.proto"), f"../../..{tmp_path}/secret.proto"):
        text = f'syntax = "proto3"; import "{place}"; message A {{}}'
        body = {"schema": text, "schemaType": "PROTOBUF"}
        assert registry.error("POST", f"/subjects/{subject}/versions", body)[1] == 42201


def test_a_schema_that_the_topic_does_not_take_is_too_large_and_costs_nothing_else(
    registry: RegistryProcess, subject: str
) -> None:
    quoted = json.dumps({"type": "record", "name": "Q", "fields": [], "doc": '"' * 300_000})
    assert len(quoted) < 1 << 20, "the text is not too large: what the record makes of it is"
    assert registry.error("POST", f"/subjects/{subject}/versions", {"schema": quoted})[:2] == (422, 42209)
    described = {"schema": record("M"), "metadata": {"properties": {"a": "x" * 2_000_000}}}
    assert registry.error("POST", f"/subjects/{subject}/versions", described)[:2] == (422, 42209)
    assert registry.get("/health")["is_primary"]
    assert registry.register(subject, record("Small")) > 0


def test_a_packed_body_is_refused_before_it_is_unpacked(registry: RegistryProcess, subject: str) -> None:
    packed = gzip.compress(b" " * (64 << 20), 9)
    found = registry.ask("POST", f"/subjects/{subject}/versions", packed, Content_Encoding="gzip")
    assert (found.status, found.body["error_code"]) == (415, 415)


def test_subjects_that_stand_for_each_other_are_answered(registry: RegistryProcess, subject: str) -> None:
    for name, other in (("a", "b"), ("b", "a")):
        assert registry.ask("PUT", f"/config/{subject}-{name}", {"alias": f"{subject}-{other}"}).status == 200
    assert registry.error("GET", f"/subjects/{subject}-a/versions")[1] == 40401


def stored(schema_id: int, version: int = 1, subject: str = "s") -> SchemaStored:
    return SchemaStored(StoredSchema(subject, version, schema_id, f'"{schema_id}"'))


def test_ids_and_versions_end_where_no_record_can_hold_the_next() -> None:
    state = State()
    state.apply(stored(INT_MAX))
    with pytest.raises(RegistryError, match="No ids are left"):
        register(state, "t", Wanted("next"), default_level="NONE")
    assert register(state, "t", Wanted(f'"{INT_MAX}"'), default_level="NONE").answer.id == INT_MAX
    state.apply(ModeSet(None, "IMPORT"))
    state.apply(stored(1, INT_MAX, "v"))
    with pytest.raises(RegistryError, match="No versions are left"):
        register(state, "v", Wanted("next", id=2), default_level="NONE")


@pytest.mark.parametrize(
    "config",
    [
        {"compatibilityLevel": "NONSENSE"},
        {"alias": 7},
        {"normalize": "yes"},
        {"defaultMetadata": 7},
        {"overrideRuleSet": ["x"]},
        {"compatibilityGroup": {}},
    ],
)
def test_a_strangers_configuration_that_would_break_later_is_passed_over(config: dict[str, Any]) -> None:
    key = b'{"keytype":"CONFIG","subject":"s","magic":0}'
    assert isinstance(decode(key, json.dumps(config).encode()), Unreadable)


CYCLE = [
    ({"keytype": "SCHEMA", "subject": name, "version": 1, "magic": 1},
     {"subject": name, "version": 1, "id": number, "deleted": False,
      "references": [{"name": other, "subject": other, "version": 1}],
      "schema": json.dumps({"type": "record", "name": name, "fields": [{"name": "x", "type": ["null", other]}]})})
    for number, name, other in ((7001, "round", "about"), (7002, "about", "round"))
]  # fmt: skip


def test_schemas_of_a_stranger_that_refer_to_each_other_are_refused_and_no_more(
    broker: Server, registry: RegistryProcess
) -> None:
    with BlockingClient(broker.bootstrap) as client:
        entries = [(json.dumps(key).encode(), json.dumps(value).encode()) for key, value in CYCLE]
        client.produce({TopicPartition("_schemas", 0): batch_of(entries)})
    until(lambda: registry.ask("GET", "/subjects/about/versions/1").status == 200, registry.said)
    assert registry.error("GET", "/subjects/round/versions/1?format=resolved")[1] == 42201
    body = {"schema": record("next"), "references": [{"name": "round", "subject": "round", "version": 1}]}
    assert registry.error("POST", "/subjects/next/versions", body)[1] == 42201
    assert registry.register("apart", record("Apart")) > 7002


def test_what_was_read_of_a_topic_is_not_mixed_with_one_that_was_made_again(broker: Server) -> None:
    topic = "_again"
    settings = registry_settings({"kafkastore.bootstrap.servers": broker.bootstrap, "kafkastore.topic": topic}, {})
    heard: list[str] = []

    async def run() -> None:
        store = Store(settings, lambda purpose: Client(broker.bootstrap), replaced=lambda: heard.append("replaced"))
        try:
            await store.start()
            await store.claim()
            await store.write([stored(1)])
            async with Client(broker.bootstrap) as client:
                gone = DeleteTopicsRequest(topics=[DeleteTopicState(name=topic)], timeout_ms=30_000)
                answer = await client.request(gone, controller=True, lowest=6)
                assert not answer.responses[0].error_code
                await create_topics(client, [NewTopic(topic, 1, 1, {"cleanup.policy": "compact"})])
            await until_async(lambda: store.lost, "that it is noticed")
            assert "was deleted and made again" in store.lost and heard == ["replaced"]
            for refused in (store.refresh(), store.claim(), store.write([stored(2)])):
                with pytest.raises(RegistryError, match="registers nothing"):
                    await refused
            assert set(store.state.versions("s")) == {1} and not store.is_followed
        finally:
            await store.close()

    asyncio.run(run())
