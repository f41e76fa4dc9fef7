"""The configuration topic as a worker keeps it: the fold of its records, and the leader's way to write to it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from ottla.base import ErrorCode, KafkaError, OttlaError, TopicPartition
from ottla.client import Client, Isolation, TopicLog, TransactionalProducer, batch_of
from ottla.connect.distributed.settings import DistributedSettings
from ottla.connect.distributed.topic_writer import TopicWriter
from ottla.connect.distributed.topics import prepare_topic
from ottla.connect.errors import ConnectError
from ottla.connect.storage import ConfigState, Unreadable, apply_config, encode_config
from ottla.connect.storage.config_records import ConfigRecord
from ottla.connect.storage.config_state import Change

__all__ = ["ConfigStore", "FencedError"]

log = logging.getLogger(__name__)
WRITE_SECONDS_MAX = 30.0
TRANSACTION_TIMEOUT_MS = 60_000


class FencedError(ConnectError):
    """What the leader writes is refused, as another worker has taken its transactional id over."""


class ConfigStore:
    """Follows the topic. `on_change` is called with what each record changed, once the topic has been read."""

    def __init__(
        self,
        settings: DistributedSettings,
        make_client: Callable[[str], Client],
        on_change: Callable[[Change], None],
        failed: Callable[[BaseException], object],
    ) -> None:
        """`failed` is told where a mistake of ours has ended the reading of the topic."""
        self.state = ConfigState()
        self._settings, self._on_change = settings, on_change
        self._started = False
        self._client = make_client("configs")
        self._leader: TransactionalProducer | None = None
        self._sequence = 0
        self._turn = asyncio.Lock()
        isolation = Isolation.READ_COMMITTED if settings.exactly_once_sources else Isolation.READ_UNCOMMITTED
        name = settings.config_topic.name
        self._log = TopicLog(make_client("configs-reader"), name, self._apply, isolation=isolation, failed=failed)
        self._writer = TopicWriter(self._client, name, 1)
        self._partition = TopicPartition(name, 0)

    async def start(self) -> None:
        """Make or check the topic and read it; raises ConfigError, ConnectError or KafkaError."""
        await prepare_topic(self._client, self._settings.config_topic)
        await self._log.start()
        self._started = True

    async def close(self) -> None:
        """Stop following."""
        await self._log.close()
        await self._client.close()

    def _apply(self, key: bytes | None, value: bytes | None, offset: int) -> None:
        name = (key or b"").decode(errors="replace")
        self.state, change = apply_config(self.state, name, value, offset)
        if isinstance(change, Unreadable):
            log.error("%s: %s", change.key, change.reason)
        elif change is not None and self._started:
            self._on_change(change)

    async def refresh(self, seconds_max: float) -> None:
        """Read to the end; raises TimeoutError where that takes too long, KafkaError where nobody can be asked."""
        async with asyncio.timeout(seconds_max):
            await self._log.read_to_end(self._client)

    async def read(self, seconds_max: float, *, before: str) -> None:
        """Read to the end, for somebody who has asked for something; raises ConnectError that says what it came before."""
        try:
            await self.refresh(seconds_max)
        except (TimeoutError, KafkaError) as error:
            raise ConnectError(
                f"Failed to read to end of config topic before {before}: {str(error) or 'timed out'}. The request can be "
                "safely retried"
            ) from error

    async def write(self, records: Sequence[ConfigRecord]) -> None:
        """Append records that any worker may write, and return when they have been read. Raises ConnectError."""
        await self._append(records, privileged=False)

    async def write_as_leader(self, records: Sequence[ConfigRecord]) -> None:
        """Append records that only the leader writes, and return when they have been read.

        Raises FencedError where another worker leads by now, ConnectError for what may be tried again.
        """
        await self._append(records, privileged=True)

    async def _append(self, records: Sequence[ConfigRecord], *, privileged: bool) -> None:
        encoded = [(key.encode(), value) for key, value in map(encode_config, records)]
        try:
            async with asyncio.timeout(WRITE_SECONDS_MAX):
                if privileged and self._settings.transactional_leader:
                    await self._commit(encoded)
                else:
                    await self._writer.write(encoded)
                await self._log.read_to_end(self._client)
        except TimeoutError as error:
            raise ConnectError("Error writing connector configuration to Kafka: timed out") from error
        except KafkaError as error:
            raise ConnectError(f"Error writing connector configuration to Kafka: {error}") from error

    async def _commit(self, records: Sequence[tuple[bytes | None, bytes | None]]) -> None:
        async with self._turn:
            leader = self._leader
            if leader is None:
                raise FencedError(
                    "Failed to write to config topic as this worker has not claimed the leader's privileges"
                )
            try:
                identity = (leader.producer_id, leader.epoch)
                batch = batch_of(records, producer_id=identity[0], producer_epoch=identity[1], sequence=self._sequence)
                await leader.produce({self._partition: batch})
                await leader.end(commit=True)
            except KafkaError as error:
                self._leader = None  # what it left open ends when somebody claims the id
                raise FencedError(
                    "Failed to write to config topic; this may be due to a transient error and the request can be safely "
                    f"retried: {error}"
                ) from error
            except BaseException:  # cut off: what became of the records is not known, and their sequences are not free
                self._leader = None
                raise
            same = (leader.producer_id, leader.epoch) == identity
            self._sequence = self._sequence + len(records) if same else 0

    async def claim(self) -> None:
        """Become the only worker that writes as leader, where leaders write in transactions. Raises ConnectError."""
        if not self._settings.transactional_leader:
            return
        async with self._turn:
            leader = TransactionalProducer(
                self._client, self._settings.leader_transactional_id, timeout_ms=TRANSACTION_TIMEOUT_MS
            )
            try:
                await leader.begin()
            except OttlaError as error:
                raise ConnectError(
                    f"Failed to create and initialize fencable producer for config topic: {error}"
                ) from error
            self._leader, self._sequence = leader, 0

    async def fence(self, transactional_ids: Sequence[str]) -> None:
        """End what older producers of these ids have left open, and refuse all that they still send. Raises ConnectError."""
        for each in transactional_ids:
            try:
                await TransactionalProducer(self._client, each, timeout_ms=TRANSACTION_TIMEOUT_MS).begin()
            except KafkaError as error:
                words = f"Failed to perform zombie fencing: {each}: {error}"
                if error.code is ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
                    words += "; the worker needs the right to write with its tasks' transactional ids"
                raise ConnectError(words) from error
