"""Who writes: a store that was fenced writes no more, an election settles, and instances stand in for each other."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from ottla.client import Client, JoinedMember
from ottla.registry.core import Noop
from ottla.registry.core.records import SchemaStored, StoredSchema
from ottla.registry.identities import DUPLICATE_URLS, Assignment, Identity, assign, read_assignment
from ottla.registry.settings import RegistrySettings, registry_settings
from ottla.registry.store import FencedError, Store
from ottla.wire.messages.end_txn import EndTxnRequest
from tests.registry.running import record, running_registry
from tests.server import Server
from tests.waiting import until

GROUP = (
    *("kafkagroup.session.timeout.ms=6000", "kafkagroup.heartbeat.interval.ms=200"),
    *("kafkastore.topic=_shared", "schema.registry.group.id=shared"),
)


def settings_of(broker: Server, topic: str) -> RegistrySettings:
    given = {
        "kafkastore.bootstrap.servers": broker.bootstrap,
        "kafkastore.topic": topic,
        "schema.registry.group.id": topic,
        "listeners": "http://127.0.0.1:0",
    }
    return registry_settings(given, {})


def with_stores(broker: Server, topic: str, body: Callable[[Store, Store], Awaitable[None]]) -> None:
    async def run() -> None:
        settings = settings_of(broker, topic)
        stores = [Store(settings, lambda purpose: Client(broker.bootstrap)) for _ in range(2)]
        try:
            for each in stores:
                await each.start()
            await body(*stores)
        finally:
            for each in stores:
                await each.close()

    asyncio.run(run())


def stored(number: int) -> SchemaStored:
    return SchemaStored(StoredSchema(f"s{number}", 1, number, f'"{number}"'))


def test_two_that_take_themselves_for_the_primary_never_both_write(broker: Server) -> None:
    async def body(first: Store, second: Store) -> None:
        with pytest.raises(FencedError):
            await first.write([stored(1)])
        await first.claim()
        await first.write([stored(1), stored(2)])
        await second.claim()
        assert set(second.state.versions("s2")) == {1}, "who takes over has read what was written before"
        with pytest.raises(FencedError):
            await first.write([stored(3)])
        await second.write([stored(4)])
        with pytest.raises(FencedError):
            await first.write([stored(5)])
        for each in (first, second):
            await each.refresh()
            assert [str(name) for name in each.state.subjects()] == ["s1", "s2", "s4"]

    with_stores(broker, "_two", body)


def test_what_was_left_open_by_the_one_before_is_not_part_of_the_state(broker: Server) -> None:
    async def body(first: Store, second: Store) -> None:
        await first.claim()
        writing = [asyncio.create_task(first.write([stored(number)])) for number in range(1, 4)]
        await asyncio.sleep(0)
        for each in writing:
            each.cancel()
        await asyncio.gather(*writing, return_exceptions=True)
        await second.claim()
        before = [str(name) for name in second.state.subjects()]
        await second.write([stored(9), Noop()])
        assert [str(name) for name in second.state.subjects()] == sorted([*before, "s9"])
        await first.refresh()
        assert first.state.max_ids == second.state.max_ids

    with_stores(broker, "_open", body)


def member(member_id: str, host: str, *, eligible: bool = True) -> JoinedMember:
    return JoinedMember(member_id, Identity(host, 8081, eligible).encoded())


def test_who_leaves_the_office_while_it_claims_the_topic_writes_nothing(broker: Server) -> None:
    async def body(first: Store, second: Store) -> None:
        claiming = asyncio.create_task(first.claim())
        await asyncio.sleep(0)
        first.release()
        with pytest.raises(FencedError):
            await claiming
        assert not first.is_claimed
        with pytest.raises(FencedError):
            await first.write([stored(1)])
        await first.claim()
        await first.write([stored(1)])

    with_stores(broker, "_left", body)


class SlowToEnd(Client):
    """A client whose transactions do not end before they may."""

    ends: asyncio.Event
    may_end: asyncio.Event

    async def request(self, message: Any, **more: Any) -> Any:
        if isinstance(message, EndTxnRequest):
            self.ends.set()
            await self.may_end.wait()
        return await super().request(message, **more)


def test_a_write_that_fails_under_an_older_claim_leaves_the_newer_one(broker: Server) -> None:
    async def run() -> None:
        SlowToEnd.ends, SlowToEnd.may_end = asyncio.Event(), asyncio.Event()
        store = Store(settings_of(broker, "_older"), lambda purpose: SlowToEnd(broker.bootstrap))
        await store.start()
        try:
            await store.claim()
            writing = asyncio.create_task(store.write([stored(1)]))
            await SlowToEnd.ends.wait()
            await store.claim()
            SlowToEnd.may_end.set()
            with pytest.raises(FencedError):
                await writing
            assert store.is_claimed
            await store.write([stored(2)])
        finally:
            await store.close()

    asyncio.run(run())


def test_the_primary_stays_where_it_may_and_is_else_the_first_by_address() -> None:
    members = [member("m2", "b"), member("m1", "a", eligible=False), member("m3", "c")]
    assert assign(members).member_id == "m2"
    assert assign(members, "m3").member_id == "m3"
    assert assign(members, "gone").member_id == "m2"
    assert assign([member("m1", "a", eligible=False)]) == Assignment()
    assert assign([member("m1", "a"), member("m2", "a")]).error == DUPLICATE_URLS
    assert assign([JoinedMember("x", b"\xff"), member("m2", "b")]).member_id == "m2"


def test_messages_of_the_group_are_confluents() -> None:
    identity = Identity("sr-node-1", 8081)
    found = json.loads(Assignment("id-1", identity).encoded())
    said = {"host": "sr-node-1", "port": 8081, "master_eligibility": True, "scheme": "http", "version": 1}
    assert found == {"error": 0, "master": "id-1", "master_identity": said, "version": 1}
    assert json.loads(identity.encoded()) == said
    assert read_assignment(Assignment("id-1", identity).encoded()) == Assignment("id-1", identity)
    for wrong in (b"[]", b"\xff", b'{"master_identity": 7}'):
        with pytest.raises(ValueError):
            read_assignment(wrong)


def test_a_settings_file_may_have_confluents_old_names_and_mistakes_are_said() -> None:
    settings = registry_settings({"kafkastore.bootstrap.servers": "PLAINTEXT://a:1,b:2", "what": "x"}, {})
    assert (settings.bootstrap, settings.level, settings.listeners[0].port) == ("a:1,b:2", "BACKWARD", 8081)
    assert settings.warnings == ("what is not a setting of this registry; it has no effect",)
    for key in ("schema.compatibility.level", "listeners", "kafkastore.timeout.ms", "authentication.method"):
        with pytest.raises(Exception, match=key):
            registry_settings({"kafkastore.bootstrap.servers": "a:1", key: "!"}, {})


def test_writes_are_forwarded_and_another_instance_takes_over_from_one_that_stops(broker: Server) -> None:
    with running_registry(broker.bootstrap, overrides=GROUP) as first:
        first.register("before", record("Before"))
        with running_registry(broker.bootstrap, overrides=GROUP) as second:
            assert second.register("through-second", record("Second")) == 2
            assert second.get("/schemas/ids/2")["schema"] == record("Second")
            assert first.get("/schemas/ids/2")["schema"] == record("Second")
            assert second.error("POST", "/subjects/before/versions", {"schema": "{"})[1] == 42201
            first.process.terminate()
            assert second.register("after", record("After")) == 3
            assert first.process.wait(60) == 0
            assert second.get("/schemas/ids/1")["schema"] == record("Before")


def test_a_damaged_record_costs_a_line_and_no_more(broker: Server) -> None:
    overrides = ["kafkastore.topic=_damaged", "schema.registry.group.id=damaged"]
    with running_registry(broker.bootstrap, overrides=overrides) as registry:
        registry.register("sound", record("Sound"))
        spoil(broker, "_damaged", b"nonsense", b"\xff")
        until(lambda: "is passed over" in registry.said(), registry.said)
        assert registry.register("next", record("Next")) == 2


def spoil(broker: Server, topic: str, key: bytes, value: bytes) -> None:
    """Write a record as a stranger does."""
    from ottla.base import TopicPartition
    from ottla.client import BlockingClient, batch_of

    with BlockingClient(broker.bootstrap) as client:
        client.produce({TopicPartition(topic, 0): batch_of([(key, value)])})


def test_no_instance_that_may_not_be_the_primary_writes(broker: Server) -> None:
    overrides = [
        *("leader.eligibility=false", "kafkastore.topic=_none", "schema.registry.group.id=none"),
        "leader.read.timeout.ms=300",
    ]
    with running_registry(broker.bootstrap, overrides=overrides) as registry:
        assert registry.error("POST", "/subjects/a/versions", {"schema": record("A")})[1] == 50004
        assert registry.get("/subjects") == []
