"""Creating and deleting topics, and adding partitions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from ottla.base import METADATA_TOPIC, ConfigError, ErrorCode, KafkaError, NodeId, Rng, Uuid, random_uuid
from ottla.config import BrokerConfig, TopicConfig, validate_topic_configs
from ottla.metadata.apply import Record, apply
from ottla.metadata.decide.assignments import PARTITIONS_PER_REQUEST_MAX, chosen, new_partition, validate_assignment
from ottla.metadata.decide.decision import Decision
from ottla.metadata.decide.names import collision_key, may_collide, validate_topic_name
from ottla.metadata.image import Image, Partition, ResourceType
from ottla.metadata.policies import ProposedTopic, TopicPolicy, held_against
from ottla.metadata.snapshot import partition_record
from ottla.wire.messages.config_record import ConfigRecord
from ottla.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from ottla.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.wire.messages.remove_topic_record import RemoveTopicRecord
from ottla.wire.messages.topic_record import TopicRecord

__all__ = ["TopicRef", "create_partitions", "create_topics", "delete_topics"]

TopicRef = tuple[str | None, Uuid]
"""How a request names a topic: by name, or by id with no name."""
Charge = Callable[[int], None]
"""Counts partitions against the client's quota; raises THROTTLING_QUOTA_EXCEEDED where they have to wait (KIP-599)."""


def create_topics(
    image: Image,
    request: CreateTopicsRequest,
    *,
    config: BrokerConfig,
    rng: Rng,
    charge: Charge | None = None,
    policy: TopicPolicy | None = None,
) -> Decision[CreateTopicsResponse]:
    """Choose the records that create these topics; each topic succeeds or fails by itself, also before the policy.

    Raises POLICY_VIOLATION for more partitions in one request than fit in an atomic batch. With `validate_only` there
    are no records, and the response is what it would have been.
    """
    asked = sum(_partitions_asked(topic, config) for topic in request.topics)
    if asked > PARTITIONS_PER_REQUEST_MAX:
        raise KafkaError(ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions per request.")
    doubled = {name for name, count in Counter(topic.name for topic in request.topics).items() if count > 1}
    collisions = _CollisionCheck(image)
    configs = _Configs(config)
    records: list[Record] = []
    results: list[CreatableTopicResult] = []
    told: set[str] = set()
    for topic in request.topics:
        if topic.name in told:
            continue  # a name that is asked for twice has one answer
        try:
            if topic.name in doubled:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            _validate_new_name(image, topic.name, collisions)
            created, result = _create_topic(image, topic, configs, rng)
            if policy is not None:
                held_against(policy, _proposed(topic, result))
            if charge is not None:
                charge(result.num_partitions)
            collisions.add(topic.name)
            records += created
        except KafkaError as error:
            result = CreatableTopicResult(name=topic.name, error_code=error.code, error_message=error.message)
        told.add(topic.name)
        results.append(result)
    response = CreateTopicsResponse(topics=results)
    return Decision(() if request.validate_only else tuple(records), response)


def _partitions_asked(topic: CreatableTopic, config: BrokerConfig) -> int:
    """Return how many a topic is to have; one that is refused is work, too."""
    if topic.assignments:
        return len(topic.assignments)
    return config.settings.num_partitions if topic.num_partitions == -1 else max(topic.num_partitions, 1)


class _CollisionCheck:
    """The names that a new one may collide with: those in the image, and those created before it in this request.

    They are looked through once for all new names, and not at all where no new one has a dot or an underscore.
    """

    def __init__(self, image: Image) -> None:
        self._image = image
        self._created: list[str] = []
        self._first: dict[str, str] | None = None
        """The first name in sorted order of those that metric names cannot tell apart."""

    def add(self, name: str) -> None:
        self._created.append(name)
        if self._first is not None:
            self._keep(self._first, name)

    def of(self, name: str) -> str | None:
        """Return what a name that is not there yet collides with."""
        if not may_collide(name):
            return None
        if self._first is None:
            self._first = {}
            for each in (*self._image.topics, *self._created):
                self._keep(self._first, each)
        return self._first.get(collision_key(name))

    @staticmethod
    def _keep(first: dict[str, str], name: str) -> None:
        if may_collide(name):
            key = collision_key(name)
            first[key] = min(name, first.get(key, name))


def _validate_new_name(image: Image, name: str, collisions: _CollisionCheck) -> None:
    if name == METADATA_TOPIC:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Creation of internal topic {METADATA_TOPIC} is prohibited.")
    if name in image.topics:
        raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
    validate_topic_name(name)
    other = collisions.of(name)
    if other is not None:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic '{name}' collides with existing topic: {other}")


def _create_topic(
    image: Image, topic: CreatableTopic, configs: _Configs, rng: Rng
) -> tuple[list[Record], CreatableTopicResult]:
    overrides = _requested_configs(topic)
    described = configs.described(overrides)
    partitions = _new_partitions(image, topic, configs.broker, rng)
    topic_id = _new_topic_id(image, rng)
    records: list[Record] = [TopicRecord(name=topic.name, topic_id=topic_id)]
    records += [
        ConfigRecord(resource_type=ResourceType.TOPIC, resource_name=topic.name, name=name, value=value)
        for name, value in sorted(overrides.items())
    ]
    records += [partition_record(topic_id, index, partition) for index, partition in enumerate(partitions)]
    result = CreatableTopicResult(
        name=topic.name,
        topic_id=topic_id,
        error_code=ErrorCode.NONE,
        error_message=None,
        num_partitions=len(partitions),
        replication_factor=len(partitions[0].replicas),
        configs=described,
    )
    return records, result


def _proposed(topic: CreatableTopic, result: CreatableTopicResult) -> ProposedTopic:
    is_placed = bool(topic.assignments)
    return ProposedTopic(
        topic.name,
        None if is_placed else result.num_partitions,
        None if is_placed else result.replication_factor,
        {each.partition_index: tuple(each.broker_ids) for each in topic.assignments} if is_placed else None,
        _requested_configs(topic),
    )


def _requested_configs(topic: CreatableTopic) -> dict[str, str]:
    without = [each.name for each in topic.configs if each.value is None]
    if without:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG, f"Null value not supported for topic configs: {','.join(sorted(without))}"
        )
    return {each.name: each.value for each in topic.configs if each.value is not None}


class _Configs:
    """Validates and describes topics' configuration; topics of one request often share theirs, which then is done once."""

    def __init__(self, broker: BrokerConfig) -> None:
        self.broker = broker
        self._known: dict[tuple[tuple[str, str], ...], list[CreatableTopicConfigs]] = {}

    def described(self, overrides: dict[str, str]) -> list[CreatableTopicConfigs]:
        """Return the effective configuration under these overrides; raises INVALID_CONFIG."""
        key = tuple(sorted(overrides.items()))
        found = self._known.get(key)
        if found is None:
            try:
                validate_topic_configs(overrides, self.broker)
            except ConfigError as error:
                raise KafkaError(ErrorCode.INVALID_CONFIG, str(error)) from error
            found = self._known[key] = _described(TopicConfig(overrides, self.broker))
        return found


def _described(effective: TopicConfig) -> list[CreatableTopicConfigs]:
    return [
        CreatableTopicConfigs(
            name=entry.name,
            value=entry.value,
            read_only=entry.read_only,
            config_source=entry.source,
            is_sensitive=entry.sensitive,
        )
        for entry in effective.entries()
    ]


def _new_topic_id(image: Image, rng: Rng) -> Uuid:
    while True:
        topic_id = random_uuid(rng)
        if topic_id[:8] != bytes(8) and topic_id not in image.topic_names:  # ids of that shape are reserved
            return topic_id


def _new_partitions(image: Image, topic: CreatableTopic, config: BrokerConfig, rng: Rng) -> list[Partition]:
    if topic.assignments:
        replicas = _assigned(image, topic)
    else:
        if topic.replication_factor < -1 or topic.replication_factor == 0:
            raise KafkaError(
                ErrorCode.INVALID_REPLICATION_FACTOR,
                "Replication factor must be larger than 0, or -1 to use the default value.",
            )
        if topic.num_partitions < -1 or topic.num_partitions == 0:
            raise KafkaError(
                ErrorCode.INVALID_PARTITIONS, "Number of partitions was set to an invalid non-positive value."
            )
        factor = topic.replication_factor
        replicas = chosen(
            image,
            partitions=_partitions_asked(topic, config),
            replication_factor=config.settings.default_replication_factor if factor == -1 else factor,
            rng=rng,
        )
    return [new_partition(image, index, each) for index, each in enumerate(replicas)]


def _assigned(image: Image, topic: CreatableTopic) -> list[tuple[NodeId, ...]]:
    if topic.replication_factor != -1:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            "A manual partition assignment was specified, but replication factor was not set to -1.",
        )
    if topic.num_partitions != -1:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            "A manual partition assignment was specified, but numPartitions was not set to -1.",
        )
    found: dict[int, tuple[NodeId, ...]] = {}
    factor: int | None = None
    for assignment in topic.assignments:
        index = assignment.partition_index
        if index in found:
            raise KafkaError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"Found multiple manual partition assignments for partition {index}",
            )
        found[index] = validate_assignment(image, assignment.broker_ids, factor)
        factor = len(found[index])
    if sorted(found) != list(range(len(found))):
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT, "partitions should be a consecutive 0-based integer sequence"
        )
    return [found[index] for index in range(len(found))]


def delete_topics(
    image: Image, topics: Sequence[TopicRef], *, charge: Charge | None = None
) -> Decision[list[ErrorCode]]:
    """Choose the records that delete these topics; the response is an error code for each, in the same order."""
    records: list[Record] = []
    codes: list[ErrorCode] = []
    for name, topic_id in topics:
        topic = image.topic(name) if name is not None else image.topic_by_id(topic_id)
        if topic is None:
            codes.append(ErrorCode.UNKNOWN_TOPIC_ID if name is None else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            continue
        try:
            if charge is not None:
                charge(len(topic.partitions))
        except KafkaError as error:
            codes.append(error.code)
            continue
        image = apply(image, RemoveTopicRecord(topic_id=topic.id))
        records.append(RemoveTopicRecord(topic_id=topic.id))
        codes.append(ErrorCode.NONE)
    return Decision(tuple(records), codes)


def create_partitions(
    image: Image, request: CreatePartitionsRequest, *, rng: Rng, charge: Charge | None = None
) -> Decision[CreatePartitionsResponse]:
    """Choose the records that bring these topics to their new counts; each topic succeeds or fails by itself."""
    doubled = {name for name, count in Counter(topic.name for topic in request.topics).items() if count > 1}
    records: list[Record] = []
    results: list[CreatePartitionsTopicResult] = []
    told: set[str] = set()
    for topic in request.topics:
        if topic.name in told:
            continue  # a name that is asked for twice has one answer
        told.add(topic.name)
        code, message = ErrorCode.NONE, None
        try:
            if topic.name in doubled:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            added = _more_partitions(image, topic, rng)
            if charge is not None:
                charge(len(added))
            records += added
        except KafkaError as error:
            code, message = error.code, None if error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION else error.message
        results.append(CreatePartitionsTopicResult(name=topic.name, error_code=code, error_message=message))
    if len(records) > PARTITIONS_PER_REQUEST_MAX:
        raise KafkaError(ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions per request.")
    response = CreatePartitionsResponse(results=results)
    return Decision(() if request.validate_only else tuple(records), response)


def _more_partitions(image: Image, request: CreatePartitionsTopic, rng: Rng) -> list[Record]:
    topic = image.topic(request.name)
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    current = len(topic.partitions)
    if request.count == current:
        raise KafkaError(ErrorCode.INVALID_PARTITIONS, f"Topic already has {current} partition(s).")
    if request.count < current:
        raise KafkaError(
            ErrorCode.INVALID_PARTITIONS,
            f"The topic {topic.name} currently has {current} partition(s); {request.count} would not be an increase.",
        )
    additional = request.count - current
    if additional > PARTITIONS_PER_REQUEST_MAX:
        raise KafkaError(ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions per request.")
    factor = len(topic.partitions[min(topic.partitions)].replicas)
    if request.assignments is None:
        replicas = chosen(image, partitions=additional, replication_factor=factor, rng=rng)
    else:
        if len(request.assignments) != additional:
            raise KafkaError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"Attempted to add {additional} additional partition(s), but only {len(request.assignments)} "
                "assignment(s) were specified.",
            )
        replicas = [validate_assignment(image, each.broker_ids, factor) for each in request.assignments]
    return [
        partition_record(topic.id, current + index, new_partition(image, current + index, each))
        for index, each in enumerate(replicas)
    ]
