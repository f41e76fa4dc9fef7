"""Requests of every API that is served, made from their own fields, about names that are there, hidden, or not there.

A field says by its name what it holds, so an API that is new is asked, too, without a word here. What matters beside the
fields' own defaults is in VARIANTS.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ottla.base import ZERO_UUID, ErrorCode
from ottla.broker.requests.handler import Handler
from ottla.wire import APIS, ApiKey, Message
from ottla.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from ottla.wire.messages.alter_client_quotas import AlterClientQuotasRequest, EntityData, OpData, RequestEntryData
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest
from ottla.wire.messages.init_producer_id import InitProducerIdRequest
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.broker.node_client import batch

__all__ = ["Ask", "Names", "hidden_world", "lines", "requests_about", "sweeping_requests"]

Ask = Callable[[Message, int | None], Awaitable[Any]]
"""Asks a broker in a version and returns its answer."""


@dataclass(frozen=True)
class Names:
    """What a request is about."""

    topic: str
    topic_id: bytes
    group: str
    transactional_id: str

    def by_name(self) -> Names:
        """Return the same, without the topic's id."""
        return replace(self, topic_id=ZERO_UUID)


OTHER_TEXTS = {"principal": "User:x", "host": "*", "path": "/none", "client_host_address": "127.0.0.1", "assignor": ""}
VARIANTS: Mapping[ApiKey, tuple[Mapping[str, Any], ...]] = {
    ApiKey.PRODUCE: ({}, {"acks": -1, "transactional_id": None}),
    ApiKey.FETCH: ({}, {"replica_id": 1}),
    ApiKey.LIST_OFFSETS: ({"replica_id": -1}, {"replica_id": 1}),
    ApiKey.FIND_COORDINATOR: ({"key_type": 0}, {"key_type": 1}, {"key_type": 2}),
    ApiKey.INIT_PRODUCER_ID: ({"transaction_timeout_ms": 10_000}, {"transactional_id": None}),
    ApiKey.DESCRIBE_CONFIGS: ({"resource_type": 2}, {"resource_type": 32}, {"resource_type": 4, "resource_name": "1"}),
    ApiKey.ALTER_CONFIGS: ({"resource_type": 2}, {"resource_type": 32}, {"resource_type": 4, "resource_name": "1"}),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: (
        *({"resource_type": 2}, {"resource_type": 32}, {"resource_type": 4, "resource_name": "1"}),
        {"resource_type": 8, "resource_name": "1"},
    ),
    ApiKey.OFFSET_COMMIT: ({"generation_id_or_member_epoch": -1},),
}
"""Values that take a request elsewhere, by field: wherever in the message the field is."""


OPERATIONS_FROM = 8
"""The first version of Metadata that may ask what the client may do."""


class _Filling:
    """Fills one message for one use."""

    def __init__(self, names: Names, given: Mapping[str, Any], version: int) -> None:
        self._names = names
        self._version = version
        self._given = given

    def message(self, kind: type[Any]) -> Any:
        """Return a message, or a part of one, with a value in every field that says what it holds."""
        values = {}
        for each in kind.FIELDS:
            if not _has(each.versions, self._version):
                continue
            value = self._given[each.name] if each.name in self._given else self._value(kind, each)
            if value is not None or (each.name in self._given and _has(each.nullable, self._version)):
                values[each.name] = value
        return kind(**values)

    def _value(self, kind: type[Any], field: Any) -> Any:
        if field.kind == "[]struct":
            return [self.message(field.struct)]
        if field.kind == "struct":
            return None if _has(field.nullable, self._version) else self.message(field.struct)
        if field.kind == "string":
            return self._text(kind, field)
        if field.kind == "[]string":
            text = self._text(kind, field)
            return None if text is None else [text]
        if field.kind == "uuid":
            return self._names.topic_id if "topic" in field.name else None
        if field.kind in ("[]int32", "int32") and "partition" in field.name and "limit" not in field.name:
            return [0] if field.kind == "[]int32" else 0
        if field.name == "timeout_ms":
            return 10_000
        if field.kind == "records":
            return batch(b"x")
        return None

    def _text(self, kind: type[Any], field: Any) -> str | None:
        name = field.name
        if "transactional_id" in name and "pattern" not in name:
            return self._names.transactional_id
        if "group" in name and "instance" not in name:
            return self._names.group
        if name in ("key", "coordinator_keys"):
            return {0: self._names.group, 1: self._names.transactional_id}.get(self._given.get("key_type", 0), "g:t:0")
        if name == "resource_name":
            return self._names.group if self._given.get("resource_type") == 32 else self._names.topic
        about_topics = "Topic" in kind.__name__ and "Config" not in kind.__name__
        if name.startswith("topic") or name == "subscribed_topic_names" or (name == "name" and about_topics):
            return self._names.topic
        return OTHER_TEXTS.get(name)


def _has(versions: tuple[int, int] | None, version: int) -> bool:
    return versions is not None and versions[0] <= version <= versions[1]


def requests_about(handler: Handler[Any], names: Names, version: int) -> Iterator[Message]:
    """Yield requests of an API that name these things, by name and by id."""
    key = ApiKey(handler.api_key)
    for given in VARIANTS.get(key, ({},)):
        for known_as in dict.fromkeys((names.by_name(), names)):
            filling = _Filling(known_as, given, version)
            if key in (ApiKey.METADATA, ApiKey.DELETE_TOPICS) and known_as.topic_id != ZERO_UUID:
                filling = _Filling(known_as, {"name": None, "topic_names": []}, version)
            yield filling.message(APIS[handler.api_key].request)


def sweeping_requests(handler: Handler[Any], version: int) -> Iterator[Message]:
    """Yield requests of an API that name nothing: what they list is all that there is to be seen."""
    kind: type[Any] = APIS[handler.api_key].request
    if handler.api_key == ApiKey.PRODUCE:
        return
    yield kind()
    every: dict[str, Any] = {
        each.name: None for each in kind.FIELDS if each.kind == "[]struct" and _has(each.nullable, version)
    }
    if handler.api_key == ApiKey.METADATA and version >= OPERATIONS_FROM:
        every["include_topic_authorized_operations"] = True
    if every:
        yield kind(**every)
    if handler.api_key == ApiKey.OFFSET_FETCH and version > 1:
        yield _Filling(Names("", ZERO_UUID, "open-group", ""), {"topics": None}, version).message(kind)


def lines(answer: Any, names: Names) -> frozenset[str]:
    """Return what an answer says, field by field, with words in the place of the names that were asked about.

    One error stands for a topic id that is hidden and for one that is not there: as in Kafka they differ, and who has an
    id, which is 122 random bits, has had it from somebody who may know it. Ids of fetch sessions are random.
    """
    words = {value: f"<{name}>" for name, value in vars(names).items() if isinstance(value, str)}
    found: set[str] = set()

    def walk(value: Any, path: str) -> None:
        if isinstance(value, Message):
            for each in value.FIELDS:
                walk(getattr(value, each.name), f"{path}.{each.name}")
        elif isinstance(value, list | tuple):
            for at, each in enumerate(value):
                walk(each, f"{path}[{at}]")
        elif isinstance(value, bytes | memoryview | bytearray):
            found.add(f"{path}={'<topic_id>' if bytes(value) == names.topic_id else bytes(value).hex()}")
        elif path.endswith("error_code") and value == ErrorCode.UNKNOWN_TOPIC_ID:
            found.add(f"{path}={int(ErrorCode.TOPIC_AUTHORIZATION_FAILED)}")
        elif value == "This server does not host this topic ID.":
            found.add(f"{path}=Topic authorization failed.")
        elif not path.endswith("session_id"):
            found.add(f"{path}={words.get(value, value)}")

    walk(answer, "")
    return frozenset(found)


async def hidden_world(admin: Ask, wait: Callable[[], Awaitable[None]]) -> Names:
    """Have an administrator make a topic, a group and a transaction that others are not to know of."""
    await _coordinated(admin, wait, 0, "secret-group")
    await _coordinated(admin, wait, 1, "secret-id")
    topics = [CreatableTopic(name=each, num_partitions=1, replication_factor=1) for each in ("open", "secret-topic")]
    created = await admin(CreateTopicsRequest(topics=topics, timeout_ms=10_000), None)
    assert not any(each.error_code for each in created.topics), created
    ids = {each.name: bytes(each.topic_id) for each in created.topics}
    for name in ids:
        partition = PartitionProduceData(index=0, records=batch(b"secret"))
        request = ProduceRequest(
            acks=-1, timeout_ms=10_000, topic_data=[TopicProduceData(name=name, partition_data=[partition])]
        )
        await _until_done(admin, wait, request, 12, lambda answer: answer.responses[0].partition_responses[0])
        commit = OffsetCommitRequest(
            group_id="secret-group",
            generation_id_or_member_epoch=-1,
            topics=[
                OffsetCommitRequestTopic(
                    name=name, partitions=[OffsetCommitRequestPartition(partition_index=0, committed_offset=1)]
                )
            ],
        )
        for group in ("secret-group", "open-group"):
            await _until_done(
                admin, wait, commit.replace(group_id=group), 9, lambda answer: answer.topics[0].partitions[0]
            )
    begin = InitProducerIdRequest(transactional_id="secret-id", transaction_timeout_ms=60_000)
    begun = await _until_done(admin, wait, begin, 4, lambda answer: answer)
    adding = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="secret-id",
        v3_and_below_producer_id=begun.producer_id,
        v3_and_below_producer_epoch=begun.producer_epoch,
        v3_and_below_topics=[_txn_topic("secret-topic")],
    )
    await admin(adding, 3)
    quota = RequestEntryData(
        entity=[EntityData(entity_type="user", entity_name="secret-user")],
        ops=[OpData(key="producer_byte_rate", value=1000.0, remove=False)],
    )
    await admin(AlterClientQuotasRequest(entries=[quota], validate_only=False), None)
    return Names("secret-topic", ids["secret-topic"], "secret-group", "secret-id")


def _txn_topic(name: str) -> Any:
    from ottla.wire.messages.add_partitions_to_txn import AddPartitionsToTxnTopic

    return AddPartitionsToTxnTopic(name=name, partitions=[0])


async def _coordinated(admin: Ask, wait: Callable[[], Awaitable[None]], key_type: int, key: str) -> None:
    request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key])
    await _until_done(admin, wait, request, 4, lambda answer: answer.coordinators[0])


async def _until_done(
    admin: Ask, wait: Callable[[], Awaitable[None]], request: Message, version: int, result: Callable[[Any], Any]
) -> Any:
    """Ask again and again, while a coordinator or a leader is on its way."""
    for _ in range(2000):
        answer = await admin(request, version)
        if result(answer).error_code == 0:
            return answer
        await wait()
    raise AssertionError(f"{request} is answered {answer}")
