"""Produce: check, append, and answer when as many copies have the records as `acks` asks for.

- acks 0 is not answered; an error closes the connection, so that the client learns that something was lost (as Kafka
does).
- acks 1 is answered once the leader has appended, acks -1 (all) once the high watermark has passed the records.
- Version 13 names topics by id (KIP-516); 8 added `record_errors` (KIP-467); 10 the new leader and its endpoint, so
that the client need not ask for metadata (KIP-951).
- A transaction's coordinator is asked before the transaction begins to write to a partition: whether the client has
  told it (KIP-890), and from version 12 on to add the partition.
- A topic whose `compression.type` is not `producer` has its batches recompressed in the worker process; nothing that
  follows on the connection overtakes them.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Mapping
from functools import partial
from typing import Final, NamedTuple

from ottla.background import count_failure, supervise
from ottla.base import INTERNAL_TOPICS, ErrorCode, KafkaError, ProducerEpoch, ProducerId, TopicPartition, WireError
from ottla.broker.coordinators.transaction_admission import Admission, Admitted, Writer, admit
from ottla.broker.parts import ProduceParts
from ottla.broker.replicas.decompressing import ROOM
from ottla.broker.replicas.local_partition import LocalPartition
from ottla.broker.replicas.produce_answer import Appended, acknowledged, tell_leader
from ottla.broker.replicas.quick_produce import QuickProduce
from ottla.broker.replicas.recompression import recompressed, walked
from ottla.broker.replicas.verification import Verification
from ottla.broker.requests.answers import Answer, Deferred, Encoded, Reply, reply_of
from ottla.broker.requests.handler import Handler, RequestContext
from ottla.broker.requests.refusals import not_allowed
from ottla.broker.requests.slices import Pauses
from ottla.security import Needs, Operation, Resource
from ottla.wire import (
    BATCH_OVERHEAD,
    Attributes,
    BatchHeader,
    BatchRules,
    Codec,
    Message,
    Produce,
    ProducedPartition,
    ProducedTopic,
    ProducePartition,
    ProduceTopic,
    RecordsRefused,
    batch_bound,
    batch_too_large,
    has_many_records,
    read_batch_header,
    read_produce_request,
)

__all__ = ["HANDLER"]

log = logging.getLogger(__name__)

TOPIC_IDS_FROM: Final = 13
ADMIN_CLIENT_ID: Final = "__admin_client"
"""The client id that Kafka lets write to them all the same."""
SECOND_PROTOCOL_FROM: Final = 12
"""The first version with which partitions are added to a transaction as they are written to (KIP-890)."""
ABORTABLE_FROM: Final = 11
"""The first version that knows TRANSACTION_ABORTABLE."""
ATTRIBUTES_LOW_BYTE: Final = 22
"""Where a batch's codec stands."""


PARTITIONS_AT_ONCE_MAX: Final = 512
"""Partitions of one request that are appended to without a pause: producers name far fewer, attackers more."""
PARTITIONS_PER_STEP: Final = 64
"""Partitions of a longer request after which others have their turn."""

_Known = Mapping[TopicPartition, Admission]
"""Partitions of which it is known before the append why there is none, or with what of a transaction there is."""
_NOTHING_KNOWN: _Known = {}
_Checked = Mapping[int, KafkaError | None]
"""What came of batches that were looked into elsewhere: None for those that are sound.

By the identity of their `ProducePartition`, since a partition may be named twice.
"""
_NONE_CHECKED: _Checked = {}


def produce(context: RequestContext[ProduceParts], request: Produce) -> Answer:
    """Append every partition's batch; answer at once, or when the high watermark has passed what was appended."""
    if request.transactional_id is not None:
        return _produce_in_transaction(context, request)
    if _has_transactional(request):
        raise not_allowed(Resource.TRANSACTIONAL_ID)  # nobody's transaction, which nobody may write to (CVE-2018-17196)
    return _produce_any(context, request, _NOTHING_KNOWN)


def _produce_any(context: RequestContext[ProduceParts], request: Produce, known: _Known) -> Answer:
    if context.services.partitions.any_recompresses or _has_long_batches(request):
        elsewhere = _to_check(context, request)
        if elsewhere:
            return _produce_checked(context, request, known, elsewhere)
    if _is_long(request):
        return _produce_in_slices(context, request, known)
    return _produce(context, request, known)


def _produce(
    context: RequestContext[ProduceParts], request: Produce, known: _Known, checked: _Checked = _NONE_CHECKED
) -> Encoded | Deferred[Encoded] | None:
    appended: list[Appended] = []
    responses = [_append_topic(context, request, topic, appended, known, checked) for topic in request.topic_data]
    return _answered(context, request, responses, appended)


async def _produce_in_slices(
    context: RequestContext[ProduceParts], request: Produce, known: _Known, checked: _Checked = _NONE_CHECKED
) -> Reply:
    """The same for many partitions, between which others have their turn; each succeeds or fails by itself."""
    appended: list[Appended] = []
    responses = []
    pauses = Pauses(context, steps=PARTITIONS_PER_STEP)
    for topic in request.topic_data:
        answers: list[ProducedPartition] = []
        responses.append(ProducedTopic(topic.name, topic.topic_id, answers))
        for start in range(0, len(topic.partition_data) or 1, PARTITIONS_PER_STEP):
            some = topic.partition_data[start : start + PARTITIONS_PER_STEP]
            asked = ProduceTopic(topic.name, topic.topic_id, some)
            part = _append_topic(context, request, asked, appended, known, checked)
            responses[-1].name = part.name
            answers += part.partition_responses
            await pauses.step(len(some) + 1)  # a topic is work, too
    pauses.charge()
    return await reply_of(_answered(context, request, responses, appended))


def _is_long(request: Produce) -> bool:
    """Return whether so many partitions are named that the loop must not wait for all of them."""
    if len(request.topic_data) > PARTITIONS_AT_ONCE_MAX:
        return True
    count = 0
    for topic in request.topic_data:
        count += len(topic.partition_data)
    return count > PARTITIONS_AT_ONCE_MAX


def _answered(
    context: RequestContext[ProduceParts], request: Produce, responses: list[ProducedTopic], appended: list[Appended]
) -> Encoded | Deferred[Encoded] | None:
    """Answer as the producer wants it for what was appended."""
    if request.acks == 0:
        return _unacknowledged(context, responses)
    for partition, _, _, _ in appended:
        if partition.must_flush:
            _forget_records(request)
            return _acknowledged_when_durable(context, request, responses, appended)
    return _acknowledged(context, request, responses, appended)


def _acknowledged(
    context: RequestContext[ProduceParts], request: Produce, responses: list[ProducedTopic], appended: list[Appended]
) -> Encoded | Deferred[Encoded]:
    """Answer now, or with acks=all when every in-sync replica has the records."""
    answered = acknowledged(context, responses, appended, acks=request.acks, timeout_ms=request.timeout_ms)
    if isinstance(answered, Deferred):
        _forget_records(request)
    return answered


def _forget_records(request: Produce) -> None:
    """Let a request's frame go, which is in the log: the request is kept until it is answered."""
    for topic in request.topic_data:
        for data in topic.partition_data:
            data.records = None


def _append_topic(
    context: RequestContext[ProduceParts],
    request: Produce,
    topic: ProduceTopic,
    appended: list[Appended],
    known: _Known,
    checked: _Checked,
) -> ProducedTopic:
    """Append to every partition of a topic, each by itself, and note which were."""
    services = context.services
    partitions = services.partitions
    now_ms = services.clock.now_ms()
    name, refusal = _resolve(context, request, topic)
    answers = []
    for data in topic.partition_data:
        try:
            if refusal is not None:
                raise refusal
            partition = partitions.writable(name, data.index)
            verification = _admission(known, partition) if known else None
            is_checked = id(data) in checked
            if is_checked and (unsound := checked[id(data)]) is not None:
                raise unsound
            if data.records is None:
                raise KafkaError(ErrorCode.INVALID_RECORD, "Produce requests must have exactly one record batch")
            if partition.recompress_to is not None and _has_other_codec(partition, data.records):
                # its log was not there yet, or its codec another, when batches were recompressed: the client sends it again
                raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            info = partition.append_from_client(
                data.records, acks=request.acks, now_ms=now_ms, verification=verification, is_checked=is_checked
            )
        except Exception as error:  # answered for this partition alone; what we did not foresee is logged
            failed = services.traffic.by_topic.get(name, services.traffic.elsewhere)
            failed.produces += 1
            failed.failed_produces += 1
            answers.append(_refused(context, name, data.index, error))
        else:
            answer = ProducedPartition(data.index, 0, info.first_offset, info.log_append_time, info.log_start_offset)
            answers.append(answer)
            appended.append((partition, answer, info.last_offset + 1, partition.replica.leader_epoch))
            traffic = partition.traffic
            traffic.produces += 1
            traffic.bytes_in += info.size
            traffic.messages_in += info.last_offset - info.first_offset + 1
            client = services.traffic.client(traffic, context.client_id or "", context.connected.principal)
            client.bytes_in += info.size
            client.messages_in += info.last_offset - info.first_offset + 1
    return ProducedTopic(name, topic.topic_id, answers)


def _admission(known: _Known, partition: LocalPartition) -> Verification | None:
    """Return with what a batch is appended; raises the KafkaError for which it is not."""
    found = known.get(partition.key)
    if isinstance(found, KafkaError):
        raise found
    return found


# -- transactions


def _produce_in_transaction(context: RequestContext[ProduceParts], request: Produce) -> Answer:
    """Ask the transaction's coordinator about every partition to which the transaction has not written yet."""
    identities: set[tuple[int, int]] = set()
    wanted: list[tuple[LocalPartition, int]] = []
    not_led: Admitted = {}
    for topic in request.topic_data:
        name, refusal = _resolve(context, request, topic)
        for data in topic.partition_data:
            header = _transactional_header(data)
            if header is None:
                continue
            identities.add((header.producer_id, header.producer_epoch))
            partition = context.services.partitions.get(name, data.index)
            if refusal is None and partition is not None and partition.replica.is_leader:
                wanted.append((partition, header.base_sequence))
            elif refusal is None:  # it may be led here by the time that the coordinator has answered about the others
                not_led[TopicPartition(name, data.index)] = KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    if not identities:
        return _produce_any(context, request, _NOTHING_KNOWN)
    transactional_id = request.transactional_id
    assert transactional_id is not None
    if not context.allows(Operation.WRITE, Resource.TRANSACTIONAL_ID, transactional_id):
        raise not_allowed(Resource.TRANSACTIONAL_ID)
    if len(identities) > 1:
        text = "Transactional records contained more than one producer ID"
        raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING, text)
    producer_id, epoch = identities.pop()
    version = context.api_version
    writer = Writer(
        transactional_id,
        ProducerId(producer_id),
        ProducerEpoch(epoch),
        is_second=version >= SECOND_PROTOCOL_FROM,
        knows_abortable=version >= ABORTABLE_FROM,
    )
    admitted = admit(context, writer, wanted)
    if isinstance(admitted, dict):
        return _produce_any(context, request, not_led | admitted)
    return _produce_when_admitted(context, request, not_led, admitted)


async def _produce_when_admitted(
    context: RequestContext[ProduceParts], request: Produce, not_led: Admitted, admitted: Awaitable[Admitted]
) -> Reply:
    return await reply_of(_produce_any(context, request, not_led | await admitted))


def _has_transactional(request: Produce) -> bool:
    for topic in request.topic_data:
        for data in topic.partition_data:
            if _is_transactional(data):
                return True
    return False


def _is_transactional(data: ProducePartition) -> bool:
    """Return whether a batch says that it is in a transaction."""
    records = data.records
    return (
        records is not None
        and len(records) >= BATCH_OVERHEAD
        and bool(records[ATTRIBUTES_LOW_BYTE] & Attributes.TRANSACTIONAL)
    )


def _transactional_header(data: ProducePartition) -> BatchHeader | None:
    """Return the header of a batch that is in a transaction; None for others, and for what is no batch at all."""
    records = data.records
    if records is None or not _is_transactional(data):
        return None
    try:
        return read_batch_header(records)
    except KafkaError:  # the append says what is wrong with it
        return None


# -- recompression


class _Elsewhere(NamedTuple):
    """A batch, and what its topic asked for when it came: the topic may be configured while one is at work."""

    data: ProducePartition
    codec: Codec | None
    """The codec that it is to have; None for its own."""
    level: int | None
    rules: BatchRules
    log_name: str


def _has_long_batches(request: Produce) -> bool:
    size = 0
    for topic in request.topic_data:
        for data in topic.partition_data:
            if data.records is not None:
                size += batch_bound(data.records)
                if has_many_records(data.records):
                    return True
    return not ROOM.take(size)


def _to_check(context: RequestContext[ProduceParts], request: Produce) -> list[_Elsewhere]:
    """Return the batches that are not for the event loop, of topics that the client may write to.

    They have another codec than their topic's, many records, or become too much in all.
    """
    partitions = context.services.partitions
    found = []
    for topic in request.topic_data:
        name = topic.name or partitions.topic_name(topic.topic_id) or ""
        for data in topic.partition_data:
            hosted = partitions.get(name, data.index)
            if hosted is None or data.records is None:
                continue
            codec = hosted.recompress_to if _has_other_codec(hosted, data.records) else None
            if codec is None and not has_many_records(data.records) and ROOM.take(batch_bound(data.records)):
                continue
            if context.would_allow(Operation.WRITE, Resource.TOPIC, name):  # the append asks again, and refuses
                found.append(_Elsewhere(data, codec, hosted.compression_level, hosted.rules, hosted.log.name))
    return found


def _has_other_codec(partition: LocalPartition, records: memoryview) -> bool:
    wanted = partition.recompress_to
    return (
        wanted is not None
        and len(records) > ATTRIBUTES_LOW_BYTE
        and records[ATTRIBUTES_LOW_BYTE] & Attributes.CODEC != wanted
    )


async def _produce_checked(
    context: RequestContext[ProduceParts], request: Produce, known: _Known, elsewhere: list[_Elsewhere]
) -> Reply:
    """Have the worker process walk or recompress what is to be, then append what is sound."""
    services = context.services
    checked: dict[int, KafkaError | None] = {}
    work = partial(services.batch_work.run, context.connected, services.offload)
    for data, codec, level, rules, log_name in elsewhere:
        assert data.records is not None
        now_ms = services.clock.now_ms()
        try:
            if len(data.records) > rules.batch_bytes_max:
                raise batch_too_large(log_name, len(data.records), rules.batch_bytes_max)
            if codec is None:
                made = await work(walked, bytes(data.records), rules, now_ms)
            else:
                made = await work(recompressed, bytes(data.records), codec, level, rules, now_ms)
        except KafkaError as error:
            checked[id(data)] = error
        else:
            data.records = memoryview(made)
            checked[id(data)] = None
    if _is_long(request):
        return await _produce_in_slices(context, request, known, checked)
    return await reply_of(_produce(context, request, known, checked))


# -- refusing


def _resolve(
    context: RequestContext[ProduceParts], request: Produce, topic: ProduceTopic
) -> tuple[str, KafkaError | None]:
    """Return a topic's name, and the error that refuses all of its partitions if there is one."""
    name = topic.name
    if context.api_version >= TOPIC_IDS_FROM:
        found = context.services.partitions.topic_name(topic.topic_id)
        if found is None:
            return "", KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
        name = found
    if not context.allows(Operation.WRITE, Resource.TOPIC, name, len(topic.partition_data)):
        return name, KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    if not -1 <= request.acks <= 1:
        return name, KafkaError(ErrorCode.INVALID_REQUIRED_ACKS)
    if name in INTERNAL_TOPICS and context.client_id != ADMIN_CLIENT_ID:
        return name, KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Cannot append to internal topic {name}")
    return name, None


def _refused(context: RequestContext[ProduceParts], name: str, index: int, error: Exception) -> ProducedPartition:
    """Render what kept a batch from being appended; a mistake of ours is logged here, once."""
    if not isinstance(error, KafkaError):
        log.error("Appending to %s-%s failed", name, index, exc_info=error)
        count_failure("requests Produce")
        error = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
    says_more = error.message != error.code.name  # else clients have a sentence of their own for it
    answer = ProducedPartition(index, int(error.code), error_message=error.message if says_more else None)
    if isinstance(error, RecordsRefused):
        answer.record_errors = error.record_errors
    tell_leader(context, answer, TopicPartition(name, index), error.code)
    return answer


# -- answering


def _unacknowledged(context: RequestContext[ProduceParts], responses: list[ProducedTopic]) -> Encoded | None:
    """Answer acks=0: not at all, or by closing the connection, which is all that such a client can notice."""
    for topic in responses:
        for answer in topic.partition_responses:
            if answer.error_code:
                raise WireError(
                    f"records for {topic.name}-{answer.index} sent with acks=0 were refused: "
                    f"{ErrorCode(answer.error_code).name}"
                )
    quotas = context.services.quotas
    return None if quotas is None else Encoded((), throttle_time_ms=quotas.produced(context, answers=False))


def _acknowledged_when_durable(
    context: RequestContext[ProduceParts], request: Produce, responses: list[ProducedTopic], appended: list[Appended]
) -> Deferred[Encoded]:
    """Answer once the device has what `flush.messages` asks for."""
    deferred: Deferred[Encoded] = Deferred()

    async def flush() -> None:
        for partition, answer, _, _ in appended:
            try:
                if partition.must_flush:
                    await partition.flush()
            except KafkaError as error:
                answer.error_code, answer.base_offset = int(error.code), -1
        answered = _acknowledged(context, request, responses, appended)
        deferred.resolve(await answered.wait() if isinstance(answered, Deferred) else answered)

    loop = context.services.loop
    supervise(flush(), name="flush before an answer", serves="Produce", failed=deferred.fail_late, loop=loop)
    return deferred


def refuse(request: Produce, error: KafkaError) -> Message:
    """Say of every partition that the request failed."""
    from ottla.wire.messages.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse

    return ProduceResponse(
        responses=[
            TopicProduceResponse(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=[
                    PartitionProduceResponse(
                        index=each.index, error_code=int(error.code), base_offset=-1, error_message=error.message
                    )
                    for each in topic.partition_data
                ],
            )
            for topic in request.topic_data
        ]
    )


ADVERTISED_FROM: Final = 0
"""What Kafka advertises although it refuses versions 0 to 2 by closing the connection, as here: librdkafka up to 2.10 takes
a broker without version 0 for one that knows no gzip, snappy or lz4, and sends uncompressed (KAFKA-18659)."""

HANDLER = Handler(
    Produce,
    api_key=0,
    versions=(3, 13),
    advertised_from=ADVERTISED_FROM,
    needs=Needs(Operation.WRITE, Resource.TOPIC),
    handle=produce,
    read=read_produce_request,
    quick=QuickProduce,
    error_response=refuse,
)
