"""Metadata: brokers, topics and their leaders.

Version 0 asks for all topics with an empty list, later ones with null. Version 4 may forbid auto-creation, 5 lists
offline replicas, 7 leader epochs, 10 topic ids, 12 asks by id (KIP-516), 13 may tell a client to bootstrap again
(KIP-1102). Auto-creation answers UNKNOWN_TOPIC_OR_PARTITION, as Kafka's KRaft brokers do, and the client asks again.
"""

from __future__ import annotations

from collections.abc import Generator, Hashable, Iterable, Sequence
from functools import partial

from ottla.base import INTERNAL_TOPICS, ZERO_UUID, ErrorCode, KafkaError, Uuid
from ottla.broker.parts import MetadataParts
from ottla.broker.requests.answers import Answer, Encoded
from ottla.broker.requests.authorized_operations import NOT_ASKED, cluster_operations, topic_operations
from ottla.broker.requests.handler import Handler, RequestContext
from ottla.broker.requests.slices import at_once, now_or_in_slices, of_each
from ottla.broker.requests.turns import in_turn
from ottla.broker.topic_view import partition_view
from ottla.metadata import Image, Partition, Topic, decide
from ottla.security import Needs, Operation, Resource
from ottla.wire import encode_response
from ottla.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

__all__ = ["HANDLER"]

NAME_OR_ID = 12
"""The first version in which a topic may be asked for by id alone."""
TOPIC_BYTES, PARTITION_BYTES = 80, 48
"""About what a topic, and a partition of three copies, take in an answer."""
KEPT_NAMES_MAX = 1_000
"""Topics that a question may name whose answer is kept: a long one takes more memory than its answer."""
LISTENER_ERRORS = 6
"""The first version that knows LISTENER_NOT_FOUND."""


def metadata(context: RequestContext[MetadataParts], request: MetadataRequest) -> Answer:
    """Answer, in turn where the answer is large and too many lie unread."""
    answer = partial(_metadata, context, request)
    return in_turn(context, _size(context, request), answer) if context.services.answer_memory.is_full else answer()


def _is_short(request: MetadataRequest) -> bool:
    """Return whether so few topics are named that their names may be kept beside an answer."""
    return request.topics is None or len(request.topics) <= KEPT_NAMES_MAX


def _size(context: RequestContext[MetadataParts], request: MetadataRequest) -> int:
    """Return about how large the answer is."""
    image = context.services.image
    topics: Iterable[Topic | None] = image.topics.values()
    if request.topics or (request.topics is not None and context.api_version > 0):
        names = at_once(_names_and_ids(context, request.topics))
        topics = (image.topic(name) if name is not None else image.topic_by_id(topic_id) for name, topic_id in names)
    return sum(TOPIC_BYTES + PARTITION_BYTES * (0 if each is None else len(each.partitions)) for each in topics)


def _metadata(context: RequestContext[MetadataParts], request: MetadataRequest) -> Answer:
    """Answer from the committed image; topics that are missing begin to be created where that is allowed."""
    services = context.services
    image = services.image
    if not _is_short(request):
        return now_or_in_slices(context, _made(context, request, image))
    asked = _question(context, request)
    found = services.metadata_answers.find(image, asked, context.correlation_id)
    return now_or_in_slices(context, _kept(context, request, image, asked)) if found is None else found


def _kept(
    context: RequestContext[MetadataParts], request: MetadataRequest, image: Image, asked: Hashable
) -> Generator[None, None, MetadataResponse | Encoded]:
    """Answer, and keep the answer where nothing is missing in it, and the image has not changed in a pause."""
    missing: list[str] = []
    response = yield from _made(context, request, image, missing)
    if missing or image is not context.services.image:
        return response
    frame = encode_response(response, context.api_key, context.api_version, context.correlation_id)
    return context.services.metadata_answers.keep(image, asked, frame, context.correlation_id)


def _made(
    context: RequestContext[MetadataParts], request: MetadataRequest, image: Image, missing: list[str] | None = None
) -> Generator[None, None, MetadataResponse]:
    """Answer from one image; `missing` takes the topics that begin to be created."""
    wanted = request.topics
    missing = [] if missing is None else missing
    if wanted is None or (context.api_version == 0 and not wanted):
        topics = yield from _all_topics(context, request, image)
    else:
        topics = yield from _asked_topics(context, request, image, wanted, missing)
    response = _response(context, request, image, topics)
    if missing:
        context.services.auto_creation.create(missing, context.connected)
    return response


def _question(context: RequestContext[MetadataParts], request: MetadataRequest) -> Hashable:
    """Return all that an answer depends on besides the image."""
    topics = request.topics
    return (
        *(context.api_version, context.connected.listener, context.connected.principal, context.connected.client_host),
        *(request.include_cluster_authorized_operations, request.include_topic_authorized_operations),
        request.allow_auto_topic_creation,
        None if topics is None else tuple((each.name, bytes(each.topic_id)) for each in topics),
    )


def _response(
    context: RequestContext[MetadataParts], request: MetadataRequest, image: Image, topics: list[MetadataResponseTopic]
) -> MetadataResponse:
    brokers = _brokers(image, context.connected.listener)
    return MetadataResponse(
        brokers=brokers,
        cluster_id=context.services.cluster_id,
        controller_id=brokers[context.services.rng.randrange(len(brokers))].node_id if brokers else -1,
        topics=topics,
        cluster_authorized_operations=(
            cluster_operations(context) if request.include_cluster_authorized_operations else NOT_ASKED
        ),
    )


def _brokers(image: Image, listener: str) -> list[MetadataResponseBroker]:
    found = []
    for broker_id in sorted(image.brokers):
        broker = image.brokers[broker_id]
        endpoint = broker.endpoint(listener)
        if endpoint is not None and not broker.fenced:
            found.append(
                MetadataResponseBroker(node_id=broker.id, host=endpoint.host, port=endpoint.port, rack=broker.rack)
            )
    return found


def _all_topics(
    context: RequestContext[MetadataParts], request: MetadataRequest, image: Image
) -> Generator[None, None, list[MetadataResponseTopic]]:
    topics = []
    for name in sorted(image.topics):
        if context.would_allow(Operation.DESCRIBE, Resource.TOPIC, name):
            topics.append((yield from _described(context, request, image, image.topics[name])))
        yield
    return topics


def _asked_topics(
    context: RequestContext[MetadataParts],
    request: MetadataRequest,
    image: Image,
    wanted: Sequence[MetadataRequestTopic],
    missing: list[str],
) -> Generator[None, None, list[MetadataResponseTopic]]:
    """Describe topics by name or id; `missing` takes the names that are to be created."""
    topics: list[MetadataResponseTopic] = []
    for name, topic_id in (yield from _names_and_ids(context, wanted)):
        yield
        topic = image.topic(name) if name is not None else image.topic_by_id(topic_id)
        known_as = name if topic is None else topic.name
        if known_as is not None and not context.allows(Operation.DESCRIBE, Resource.TOPIC, known_as):
            # Who asked by id does not learn the name of what it may not see.
            topics.append(_failed(name, topic_id, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
        elif topic is not None:
            topics.append((yield from _described(context, request, image, topic)))
        elif name is None:
            topics.append(_failed(None, topic_id, ErrorCode.UNKNOWN_TOPIC_ID))
        else:
            topics.append(_missing(context, request, name, missing))
    return topics


def _names_and_ids(
    context: RequestContext[MetadataParts], wanted: Iterable[MetadataRequestTopic]
) -> Generator[None, None, list[tuple[str | None, Uuid]]]:
    found: dict[tuple[str | None, Uuid], None] = {}
    for topic in wanted:
        yield
        topic_id = Uuid(bytes(topic.topic_id))
        if context.api_version < NAME_OR_ID:
            if topic.name is None:
                raise _invalid(f"Topic name can not be null for version {context.api_version}")
            if topic_id != ZERO_UUID:
                raise _invalid(f"Topic IDs are not supported in requests for version {context.api_version}")
        found[(topic.name if topic_id == ZERO_UUID else None, topic_id)] = None
    return list(found)


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)


def _missing(
    context: RequestContext[MetadataParts], request: MetadataRequest, name: str, missing: list[str]
) -> MetadataResponseTopic:
    """Answer for a topic that is not there, and note it where it is to be created."""
    operations = topic_operations(context, name) if request.include_topic_authorized_operations else NOT_ASKED
    try:
        decide.validate_topic_name(name)
    except KafkaError as error:
        return _failed(name, ZERO_UUID, error.code, operations)
    may_create = (
        request.allow_auto_topic_creation and context.services.configuration.broker.settings.auto_create_topics_enable
    )
    if may_create:
        if not (
            context.would_allow(Operation.CREATE, Resource.CLUSTER)
            or context.allows(Operation.CREATE, Resource.TOPIC, name)
        ):
            return _failed(name, ZERO_UUID, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        missing.append(name)
    return _failed(name, ZERO_UUID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, operations)


def _failed(name: str | None, topic_id: Uuid, code: ErrorCode, operations: int = NOT_ASKED) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        error_code=int(code),
        name=name,
        topic_id=topic_id,
        is_internal=name in INTERNAL_TOPICS,
        topic_authorized_operations=operations,
    )


def _described(
    context: RequestContext[MetadataParts], request: MetadataRequest, image: Image, topic: Topic
) -> Generator[None, None, MetadataResponseTopic]:
    partitions = yield from of_each(topic.in_order(), lambda each: _partition(context, image, *each))
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.id,
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=partitions,
        topic_authorized_operations=(
            topic_operations(context, topic.name) if request.include_topic_authorized_operations else NOT_ASKED
        ),
    )


def _partition(
    context: RequestContext[MetadataParts], image: Image, index: int, partition: Partition
) -> MetadataResponsePartition:
    view = partition_view(image, partition, context.connected.listener)
    error, replicas, isr = view.error, view.replicas, view.isr
    if error is ErrorCode.LISTENER_NOT_FOUND and context.api_version < LISTENER_ERRORS:
        error = ErrorCode.LEADER_NOT_AVAILABLE
    if context.api_version == 0:
        # Version 0 names only replicas that can be reached, and says so where that leaves some out.
        replicas = tuple(each for each in replicas if each not in view.offline)
        isr = tuple(each for each in isr if each not in view.offline)
        if view.offline and error is ErrorCode.NONE:
            error = ErrorCode.REPLICA_NOT_AVAILABLE
    return MetadataResponsePartition(
        error_code=int(error),
        partition_index=index,
        leader_id=view.leader_id,
        leader_epoch=view.leader_epoch,
        replica_nodes=replicas,
        isr_nodes=isr,
        offline_replicas=view.offline,
    )


def refuse(request: MetadataRequest, error: KafkaError) -> MetadataResponse:
    """Say of every topic asked for that the request failed; version 13 says it of the whole."""
    topics = [_failed(each.name or "", Uuid(bytes(each.topic_id)), error.code) for each in request.topics or ()]
    return MetadataResponse(topics=topics, error_code=int(error.code))


HANDLER = Handler(
    MetadataRequest,
    versions=(0, 13),
    needs=Needs(Operation.DESCRIBE, Resource.TOPIC),
    handle=metadata,
    error_response=refuse,
)
