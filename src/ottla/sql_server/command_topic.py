"""The command topic: made or checked, replayed and followed, and written to, one command at a time over all servers.

Every command is a transaction under one id that all servers of a service share. Who writes takes the id over first, which
aborts what another has left open and refuses what it still sends; then it reads to the end, decides, and appends. So each
decision is taken on the state that its command meets, whichever servers ask at the same time.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from ottla.base import FENCED, ErrorCode, KafkaError, Offset, OttlaError, TopicPartition
from ottla.client import LATEST, Client, Isolation, NewTopic, TopicLog, TransactionalProducer, batch_of, create_topics
from ottla.sql import RegistryAwayError, SqlError
from ottla.sql.commands import Applied, Command, Decision, ServerState, UnreadableCommandError, apply, leave_out
from ottla.sql_server.schemas import Asking
from ottla.sql_server.turns import TOO_LARGE

__all__ = ["CommandTimeoutError", "CommandTopic", "Written"]

log = logging.getLogger(__name__)
TRANSACTION_TIMEOUT_MS = 15_000
TRIES = 20
"""How often a command is decided anew because another server was quicker."""
PAUSE_S = 0.05
RETRY_S, RETRY_S_MAX = 0.5, 10.0
"""Between two tries of a command whose schema registry is away."""
CONFIGS = {"cleanup.policy": "delete", "retention.ms": "-1", "min.insync.replicas": "1"}
"""Commands are kept for ever, in their order."""
TAKEN_OVER = FENCED | {
    ErrorCode.UNKNOWN_PRODUCER_ID,
    ErrorCode.INVALID_TXN_STATE,
    ErrorCode.CONCURRENT_TRANSACTIONS,
}
OnApplied = Callable[[Command, Applied, int], None]
"""Takes a command, what it led to, and its offset."""


class CommandTimeoutError(OttlaError):
    """A command was not written, or not read back, in its time."""


class Written:
    """What became of a statement: its decision, and the offset of its command, -1 where there was nothing to write."""

    def __init__(self, decision: Decision, offset: int) -> None:
        self.decision, self.offset = decision, offset


class CommandTopic:
    """Follows the topic; `state` is what its commands say."""

    def __init__(
        self,
        topic: str,
        make_client: Callable[[str], Client],
        on_applied: OnApplied,
        *,
        first: ServerState,
        replicas: int,
        timeout_s: float,
        asking: Asking,
    ) -> None:
        """`first` is the state before any command; `asking` runs what plans, and may ask the schema registry."""
        self.state = first
        self.offset = -1
        """Of the last command that was taken in."""
        self._unread: str | None = None
        """The first record that is no command."""
        self._is_replayed = False
        self.waiting: str | None = None
        """What the command that is next waits for: the schema registry."""
        self._topic, self._replicas, self._timeout_s = topic, replicas, timeout_s
        self._asking = asking
        self._client = make_client("commands")
        self._log = TopicLog(make_client("command-reader"), topic, self._take, isolation=Isolation.READ_COMMITTED)
        self._partition = TopicPartition(topic, 0)
        self._on_applied = on_applied
        self._turn = asyncio.Lock()

    async def start(self) -> None:
        """Make the topic where it is missing, and replay it; raises KafkaError."""
        await self._prepare()
        await self._log.start()
        self._is_replayed = True
        for each in self.state.left_out.values():
            log.error("%s", each.words)

    async def close(self) -> None:
        """Stop following."""
        await self._log.close()
        await self._client.close()

    @property
    def degraded(self) -> str | None:
        """Why commands cannot all be followed: a record that is none, or one that was left out and counts still."""
        return self._unread or next((each.words for each in self.state.left_out.values()), None)

    @property
    def is_followed(self) -> bool:
        """Whether the topic is being read."""
        return self._log.is_followed

    async def wait_for(self, offset: int, timeout_s: float) -> None:
        """Return when the command at an offset has been taken in; raises CommandTimeoutError."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._log.read_up_to(self._partition, Offset(offset + 1))
        except TimeoutError:
            raise CommandTimeoutError(
                f"Timed out while waiting for a previous command to execute. command sequence number: {offset}"
            ) from None

    async def write(
        self, decide: Callable[[ServerState, int], Decision], prepare: Callable[[Decision], Awaitable[None]]
    ) -> Written:
        """Decide, prepare, append, and return when the command is taken in.

        Raises SqlError, KafkaError, CommandTimeoutError.

        `prepare` is awaited before the command is appended: it makes what the command takes for granted, and may refuse.
        """
        try:
            async with asyncio.timeout(self._timeout_s), self._turn:
                for _ in range(TRIES):
                    try:
                        return await self._write(decide, prepare)
                    except KafkaError as error:
                        if error.code not in TAKEN_OVER:
                            raise
                        log.info("another server of this service writes a command: %s", error)
                        await asyncio.sleep(PAUSE_S)
        except TimeoutError:
            pass
        raise CommandTimeoutError(
            f"Could not write the statement into the command topic within {self._timeout_s:g} s. It may have been written: "
            "see LIST STREAMS, TABLES and QUERIES before it is sent again."
        )

    async def _write(
        self, decide: Callable[[ServerState, int], Decision], prepare: Callable[[Decision], Awaitable[None]]
    ) -> Written:
        producer = TransactionalProducer(self._client, self._topic, timeout_ms=TRANSACTION_TIMEOUT_MS)
        await producer.begin()
        await self._log.read_to_end(self._client)
        end = (await self._client.list_offsets({self._partition: LATEST}))[self._partition].check().offset
        state = self.state
        try:
            decision = await self._asking.run(lambda: decide(state, int(end)))
        except RecursionError:
            raise SqlError(TOO_LARGE) from None
        if decision.command is None:
            return Written(decision, -1)
        await prepare(decision)
        batch = batch_of(
            [(decision.command.key(), decision.command.value())],
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            sequence=0,
        )
        (appended,) = await producer.produce({self._partition: batch})
        offset = int(appended.check().base_offset)
        await producer.end(commit=True)
        await self._log.read_up_to(self._partition, Offset(offset + 1))
        return Written(decision, offset)

    async def _take(self, key: bytes | None, value: bytes | None, offset: int) -> None:
        """Take a record in; one that means nothing here is told of and passed over."""
        try:
            command = Command.read(key, value)
        except UnreadableCommandError as error:
            words = f"Record {offset} of topic {self._topic} is no command: {error}"
            log.error("%s", words)
            self._unread = self._unread or words
            return
        try:
            applied = await self._carried_out(command, offset)
        except (SqlError, RecursionError) as error:
            words = f"Command {offset} of topic {self._topic} ({command.id}) cannot be carried out: {error}"
            self.state = leave_out(self.state, command, words)
            if self._is_replayed:  # later commands of a replay may drop what this one was to make
                log.error("%s", words)
            return
        self.state, self.offset = applied.state, offset
        self._on_applied(command, applied, offset)

    async def _carried_out(self, command: Command, offset: int) -> Applied:
        """What a command leads to; raises SqlError. It is tried until its schema registry answers.

        Passed over it would take its query with it, and the query's state.
        """
        wait_s = RETRY_S
        while True:
            try:
                applied = await self._asking.run(lambda: apply(self.state, command), has_to_end=True)
            except RegistryAwayError as error:
                self.waiting = f"Command {offset} of topic {self._topic} waits for the schema registry: {error}"
                log.warning("%s", self.waiting)
            else:
                self.waiting = None
                return applied
            await asyncio.sleep(wait_s)
            wait_s = min(2 * wait_s, RETRY_S_MAX)

    async def _prepare(self) -> None:
        """Make the topic; raises KafkaError where it cannot be, or has not the one partition of a log."""
        found = (await self._client.metadata([self._topic])).topics.get(self._topic)
        if found is None or found.error:
            brokers = max(1, len((await self._client.metadata([])).nodes))
            wanted = NewTopic(self._topic, 1, min(self._replicas, brokers), CONFIGS)
            error = (await create_topics(self._client, [wanted])).get(self._topic)
            if error is not None and error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                raise KafkaError(
                    error.code, f"Topic {self._topic} cannot be created: {error.message or error.code.name}"
                )
            found = (await self._client.metadata([self._topic])).topics.get(self._topic)
        if found is not None and not found.error and len(found.partitions) != 1:
            words = f"The command topic {self._topic} has {len(found.partitions)} partitions; commands need one"
            raise KafkaError(ErrorCode.INVALID_PARTITIONS, words)
