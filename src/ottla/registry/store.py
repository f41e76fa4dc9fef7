"""The topic that keeps the schemas: made or checked, read into the state, and written to by the primary alone.

Every write of a primary is a transaction under the id `schema-registry-<group>`. Who becomes primary takes the id over,
which aborts what the one before has left open and refuses whatever it still sends: two never both write.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from ottla.background import awaited
from ottla.base import FENCED, ConfigError, ErrorCode, KafkaError, Offset, OttlaError, TopicPartition
from ottla.client import Client, Isolation, NewTopic, TopicLog, TransactionalProducer, batch_of, create_topics
from ottla.registry.core import Record, State, Unreadable, decode, encode
from ottla.registry.core.errors import store_failed, timed_out, too_large
from ottla.registry.settings import RegistrySettings
from ottla.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource

__all__ = ["FencedError", "Store"]

log = logging.getLogger(__name__)
TRANSACTION_TIMEOUT_MS = 15_000
TOPIC = 2
"""The type of resource that a topic is."""
TAKEN_OVER = FENCED | {
    ErrorCode.UNKNOWN_PRODUCER_ID,
    ErrorCode.INVALID_TXN_STATE,
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
}
"""Codes that may mean that another one has taken the id over."""
NOT_ALLOWED = (ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
TOO_LARGE = (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE)
DAMAGED_SAID_MAX = 100
"""Unreadable records that get a line each."""


class FencedError(OttlaError):
    """Another instance writes as the primary by now, or this one has to claim that anew."""


class Store:
    """Follows the topic; `state` is what it says."""

    def __init__(
        self,
        settings: RegistrySettings,
        make_client: Callable[[str], Client],
        *,
        replaced: Callable[[], None] = lambda: None,
    ) -> None:
        """`replaced` is called where the topic is not the one any more that was read: its ids may mean other schemas."""
        self.state = State()
        self.lost = ""
        """Why this instance registers nothing until it is started again; empty as a rule."""
        self._replaced = replaced
        self.unreadable = 0
        self.offset = 0
        """The offset after the last record that is part of the state."""
        self._settings = settings
        self._client = make_client("writer")
        self._log = TopicLog(
            make_client("reader"),
            settings.topic,
            self._apply,
            isolation=Isolation.READ_COMMITTED,
            replaced=self._lose,
            failed=self._fail,
        )
        self._partition = TopicPartition(settings.topic, 0)
        self._producer: TransactionalProducer | None = None
        self._sequence = 0
        self._claiming = asyncio.Lock()
        self._releases = 0
        self._reading: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Make or check the topic, and read it; raises ConfigError or KafkaError."""
        await prepare_topic(self._client, self._settings)
        await self._log.start()

    async def close(self) -> None:
        """Stop following."""
        await self._log.close()
        await self._client.close()

    @property
    def is_followed(self) -> bool:
        """Whether the topic is being read."""
        return self._log.is_followed

    @property
    def is_claimed(self) -> bool:
        """Whether this instance may write, as far as it knows."""
        return self._producer is not None

    def _apply(self, key: bytes | None, value: bytes | None, offset: int) -> None:
        record = decode(key, value)
        self.offset = offset + 1
        if not isinstance(record, Unreadable):
            self.state.apply(record)
            return
        self.unreadable += 1
        if self.unreadable <= DAMAGED_SAID_MAX:
            log.error(
                "Record %d of topic %s is passed over: %.300s; its key is %.200r",
                *(offset, self._settings.topic, record.reason, key),
            )

    def _fail(self, error: BaseException) -> None:
        """Leave to others what cannot be done without the topic: this instance is not well, and registers nothing."""
        self.lost = (
            f"Topic {self._settings.topic} is not read any more by a mistake of this instance ({error!r}), which answers "
            "from its memory and registers nothing. Start it again"
        )
        self.release()
        self._replaced()

    def _lose(self, reason: str) -> None:
        self.lost = (
            f"Topic {self._settings.topic} has not what this instance has read of it: {reason}. The instance answers from "
            "its memory and registers nothing. Export its schemas where they are missed, and start it again"
        )
        log.critical("%s", self.lost)
        self.release()
        self._replaced()

    def _refuse_lost(self) -> None:
        if self.lost:
            raise store_failed(self.lost)

    # Reading what is new

    async def refresh(self, seconds_max: float | None = None) -> None:
        """Return when the state has all that was written before this call; raises RegistryError."""
        self._refuse_lost()
        try:
            async with asyncio.timeout(self._settings.timeout_s if seconds_max is None else seconds_max):
                await self._log.read_to_end(self._client)
        except TimeoutError as error:
            raise timed_out("Reading the schemas' topic to its end timed out") from error
        except KafkaError as error:
            raise store_failed(f"Error while reading the schemas' topic: {error}") from error

    async def glance(self) -> None:
        """Do as `refresh`, once for all who ask meanwhile, and say nothing of what goes wrong: it was worth a look."""
        if self._reading is None or self._reading.done():
            self._reading = awaited(self._glance())
        await asyncio.shield(self._reading)

    async def _glance(self) -> None:
        try:
            await self.refresh(min(self._settings.timeout_s, 2.0))
        except OttlaError as error:
            log.warning("%s", error)

    # Writing

    async def claim(self) -> None:
        """Become the one that writes, and read what those before have written.

        Raises KafkaError or RegistryError, and FencedError where this instance has left the office meanwhile.
        """
        self._refuse_lost()
        async with self._claiming:
            releases = self._releases
            producer = TransactionalProducer(
                self._client, self._settings.transactional_id, timeout_ms=TRANSACTION_TIMEOUT_MS
            )
            await producer.begin()
            await self.refresh(self._settings.init_timeout_s)
            if self._releases != releases:
                raise FencedError("this instance has left the office while it claimed the topic")
            self._producer, self._sequence = producer, 0

    def release(self) -> None:
        """Write no more; a claim that is on its way does not come to pass."""
        self._releases += 1
        self._producer = None

    def _give_up(self, producer: TransactionalProducer) -> None:
        """Write no more by this claim; what has been claimed since stays."""
        if self._producer is producer:
            self._producer = None

    async def write(self, records: Sequence[Record]) -> None:
        """Append records as one transaction, and return when they are part of the state.

        Raises FencedError where this instance may not write (any more), RegistryError where what became of the records is
        not known; then it has to be claimed anew, which settles that.
        """
        self._refuse_lost()
        producer = self._producer
        if producer is None:
            raise FencedError("this instance is not the primary")
        try:
            async with asyncio.timeout(self._settings.timeout_s):
                self._log.check(self._client)
                end = await self._commit(producer, records)
                self._log.check(self._client)
                await self._log.read_up_to(self._partition, end)
        except TimeoutError as error:
            self._give_up(producer)
            raise timed_out("Writing to the schemas' topic timed out") from error
        except KafkaError as error:
            self._give_up(producer)
            if error.code in TAKEN_OVER:
                raise FencedError(f"another instance has become the primary: {error}") from error
            if error.code in TOO_LARGE:
                name = self._settings.topic
                raise too_large(f"It is larger than topic {name} takes (its max.message.bytes): {error}") from error
            raise store_failed(f"Error while writing to the schemas' topic: {error}") from error
        except BaseException:
            self._give_up(producer)
            raise

    async def _commit(self, producer: TransactionalProducer, records: Sequence[Record]) -> Offset:
        identity, sequence = (producer.producer_id, producer.epoch), self._sequence
        batch = batch_of(
            [encode(each) for each in records],
            producer_id=identity[0],
            producer_epoch=identity[1],
            sequence=sequence,
        )
        (appended,) = await producer.produce({self._partition: batch})
        await producer.end(commit=True)
        same = (producer.producer_id, producer.epoch) == identity
        if self._producer is producer:  # else it was claimed anew meanwhile, and counts from there
            self._sequence = sequence + len(records) if same else 0
        return Offset(appended.base_offset + len(records))


async def prepare_topic(client: Client, settings: RegistrySettings) -> None:
    """Make the topic where it is missing; raises ConfigError where it would not keep what is written."""
    name = settings.topic
    found = (await client.metadata([name])).topics.get(name)
    if found is None or found.error:
        await _create(client, settings)
        found = (await client.metadata([name])).topics.get(name)
    if found is not None and not found.error and len(found.partitions) != 1:
        raise ConfigError("kafkastore.topic", name, f"a topic with one partition; it has {len(found.partitions)}")
    await _check_policy(client, name)


async def _create(client: Client, settings: RegistrySettings) -> None:
    """Create the topic with as many copies as are wanted, or as there are brokers for."""
    brokers = len((await client.metadata([])).nodes)
    copies = min(settings.replication_factor, max(brokers, 1))
    if copies < settings.replication_factor:
        log.warning("Topic %s gets %d copies, as there are no more brokers", settings.topic, copies)
    topic = NewTopic(settings.topic, 1, copies, {"cleanup.policy": "compact"})
    error = (await create_topics(client, [topic])).get(settings.topic)
    if error is not None and error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
        raise KafkaError(error.code, f"Topic {settings.topic} cannot be created: {error.message or error.code.name}")


async def _check_policy(client: Client, name: str) -> None:
    resource = DescribeConfigsResource(resource_type=TOPIC, resource_name=name, configuration_keys=["cleanup.policy"])
    result = (await client.request(DescribeConfigsRequest(resources=[resource]))).results[0]
    if result.error_code in NOT_ALLOWED:
        log.info("Not allowed to see whether topic %s has cleanup.policy=compact", name)
        return
    policy = next((each.value for each in result.configs or () if each.name == "cleanup.policy"), None)
    if policy is not None and policy.strip() != "compact":
        raise ConfigError(
            *("kafkastore.topic", name, "a topic with cleanup.policy=compact"),
            f"The topic {name} has cleanup.policy={policy.strip()}: schemas would be deleted from it. Set its "
            "cleanup.policy to compact before a registry uses it",
        )
