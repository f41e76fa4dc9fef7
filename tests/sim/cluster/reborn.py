"""A topic that is deleted and created again under its name: what one life was told says nothing about the next.

Requests that could be delayed into another life name the topic by its id. What a life has acknowledged is kept until
somebody deletes it; the last life is looked at in the end as every other topic.
"""

from __future__ import annotations

import asyncio

from ottla.base import ErrorCode
from ottla.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from ottla.wire.messages.produce import ProduceResponse
from tests.sim.batches import batch_of, values_of
from tests.sim.client import NoAnswer
from tests.sim.cluster.client import MOVING, Application, Clients
from tests.sim.cluster.producers import produce_request
from tests.sim.ledger import Violation
from tests.sim.workload import rows_of

__all__ = ["TOPIC", "live_again_and_again"]

TOPIC = "reborn"
BY_ID = 13
"""The version from which Produce and Fetch name topics by their id."""
CONFIGS = {"flush.messages": "3", "internal.segment.bytes": "40000", "segment.index.bytes": "2048"}
"""So that checkpoints say something of a life, which they must not say of the next."""
LIFE_BATCHES_MIN, LIFE_BATCHES_SPREAD = 2, 40
RETRY_S = 0.15
CREATED = {ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS}
REFUSED = {ErrorCode.INVALID_REPLICATION_FACTOR, ErrorCode.THROTTLING_QUOTA_EXCEEDED}


async def live_again_and_again(clients: Clients, stop: asyncio.Event) -> None:
    """Create, write, read, delete; when it is over, the last life stays."""
    application = Application(clients, "reborn")
    dead: set[bytes] = set()
    life = 0
    while True:
        life += 1
        topic_id = await _create(application, dead)
        clients.ledger.created(TOPIC, topic_id, 1)
        clients.trace.note(f"life {life} of {TOPIC}")
        await _live(application, f"life-{life}", LIFE_BATCHES_MIN + clients.rng.randrange(LIFE_BATCHES_SPREAD), stop)
        if stop.is_set():
            break
        dead.add(topic_id)
        del clients.ledger.topics[TOPIC], clients.ledger.partitions[TOPIC, 0]
        await _delete(application, topic_id)
    application.close()


async def _create(application: Application, dead: set[bytes]) -> bytes:
    """Create the topic until it is there with an id that it never had; return the id."""
    configs = [CreatableTopicConfig(name=key, value=value) for key, value in CONFIGS.items()]
    wanted = CreatableTopic(name=TOPIC, num_partitions=1, replication_factor=3, configs=configs)
    request = CreateTopicsRequest(topics=[wanted], timeout_ms=3000)
    while True:
        try:
            answer = await application.ask(await application.anyone(), request, CreateTopicsResponse)
            code = ErrorCode(answer.topics[0].error_code)
            if code not in CREATED | REFUSED | MOVING:
                raise Violation(f"creating {TOPIC}: {code.name}")
            found = (await application.refresh(TOPIC)).topics[0]
            if found.error_code == 0 and found.topic_id not in dead:
                return bytes(found.topic_id)
        except NoAnswer:
            pass
        application.leave_any()
        await asyncio.sleep(RETRY_S)


async def _delete(application: Application, topic_id: bytes) -> None:
    """Delete by id until nobody knows the id any more: a request that comes late harms no later life."""
    request = DeleteTopicsRequest(topics=[DeleteTopicState(name=None, topic_id=topic_id)], timeout_ms=3000)
    while True:
        try:
            answer = await application.ask(await application.anyone(), request, DeleteTopicsResponse, 6)
            code = ErrorCode(answer.responses[0].error_code)
            if code in (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_ID):
                break
            if code not in REFUSED | MOVING:
                raise Violation(f"deleting {TOPIC}: {code.name}")
        except NoAnswer:
            pass
        application.leave_any()
        await asyncio.sleep(RETRY_S)
    application.forget(TOPIC, 0)


async def _live(application: Application, name: str, batches: int, stop: asyncio.Event) -> None:
    """Write batches, each once, and read now and then from the start."""
    clients = application.clients
    for number in range(batches):
        if stop.is_set():
            return
        try:
            await _write(application, values_of(clients.rng, clients.style, name, number))
            if clients.rng.random() < 0.3:
                await _read(application, name)
        except NoAnswer:
            application.forget(TOPIC, 0)
            await asyncio.sleep(RETRY_S)
        await asyncio.sleep(0.2 * clients.rng.random())


async def _write(application: Application, values: list[bytes]) -> None:
    clients = application.clients
    link = await application.leader(TOPIC, 0)
    request = produce_request(
        clients, TOPIC, 0, -1, bytes(batch_of(clients.rng, clients.style, clients.now_ms(), values))
    )
    answer = await application.ask(link.connection, request, ProduceResponse, BY_ID)
    told = answer.responses[0].partition_responses[0]
    code = ErrorCode(told.error_code)
    if code in MOVING:
        raise NoAnswer(code.name)
    if code is not ErrorCode.NONE:
        raise Violation(f"a batch for {TOPIC} was refused: {code.name}")
    clients.ledger.partitions[TOPIC, 0].acknowledge(told.base_offset, values, told.log_append_time_ms)
    clients.trace.note(f"acked {TOPIC} {told.base_offset} {len(values)}")


async def _read(application: Application, name: str) -> None:
    """Read from the start what the leader shows: nothing of another life, nothing else than before."""
    topic = application.clients.ledger.topics[TOPIC]
    link = await application.leader(TOPIC, 0)
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    wanted = [FetchTopic(topic_id=topic.topic_id, partitions=[partition])]
    request = FetchRequest(
        replica_id=-1, max_wait_ms=0, min_bytes=0, max_bytes=1 << 20, session_epoch=-1, topics=wanted
    )
    answer = await application.ask(link.connection, request, FetchResponse, BY_ID)
    if answer.error_code or not answer.responses:
        raise NoAnswer(ErrorCode(answer.error_code).name)
    data = answer.responses[0].partitions[0]
    code = ErrorCode(data.error_code)
    if code in MOVING:
        raise NoAnswer(code.name)
    if code is not ErrorCode.NONE:
        raise Violation(f"fetch of {TOPIC} from its start: {code.name}")
    rows = rows_of(data, 0)
    if strange := [value for _, value, _ in rows if not value.startswith(name.encode() + b":")]:
        raise Violation(f"{TOPIC}: {name} holds {strange[:3]}")
    application.clients.ledger.partitions[TOPIC, 0].observe(rows)
