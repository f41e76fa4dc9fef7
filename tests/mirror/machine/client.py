"""A client of the two clusters, every request of which may fail: the methods of `Client` that the task uses."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ottla.base import ZERO_UUID, ErrorCode, KafkaError, LeaderEpoch, Millis, NodeId, Offset, ProducerId, TopicPartition
from ottla.client import (
    EARLIEST,
    Address,
    Appended,
    BlockingClient,
    Cluster,
    Fetched,
    FetchPosition,
    Isolation,
    ListedOffset,
    Node,
    Partition,
    Topic,
)
from ottla.wire import iter_records
from tests.mirror.machine.source import Log, SourceCluster

__all__ = ["FAULTS", "Faults", "MirrorClient", "waiting"]

NODE = NodeId(1)
REQUESTS = ("metadata", "list_offsets", "fetch", "produce")
OF_A_REQUEST = ("refused", "forbidden", "broken", "late")
"""It fails: in a way to be tried again, for good, as the network does, after it was done."""
OF_A_PARTITION = ("partition refused", "partition damaged")
"""One partition's answer has an error, or bytes that were not written."""
FAULTS = (*OF_A_REQUEST, *OF_A_PARTITION)


class Faults:
    """Which request fails how: one that was named by its number (from 0), or by chance."""

    def __init__(self, rng: random.Random, *, chance: float = 0.0, at: tuple[int, str] | None = None) -> None:
        self._rng, self._chance, self.at = rng, chance, at
        self.asked: list[str] = []
        """The requests so far."""
        self.is_over = False
        self.meanwhile: Callable[[], None] = lambda: None
        """Called before each request."""

    def of(self, request: str) -> str | None:
        """Return how this request fails; None where it does not."""
        number = len(self.asked)
        self.asked.append(request)
        if self.is_over:
            return None
        self.meanwhile()
        if self.at is not None:
            found = self.at[1] if self.at[0] == number else None
        else:
            found = self._rng.choice(FAULTS) if self._rng.random() < self._chance else None
        return None if found in OF_A_PARTITION and request != "fetch" else found


class MirrorClient:
    """One client, of either cluster: the target takes syncs alone."""

    def __init__(self, source: SourceCluster, faults: Faults, syncs: list[tuple[bytes, bytes]]) -> None:
        self._source, self._faults, self._syncs = source, faults, syncs

    async def close(self) -> None:
        """See `Client`."""

    def _fails(self, request: str) -> str | None:
        found = self._faults.of(request)
        if found == "refused":
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, f"{request} is refused")
        if found == "forbidden":
            raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, f"{request} is forbidden")
        if found == "broken":
            raise ConnectionResetError(f"{request} is broken off")
        return found

    @staticmethod
    def _is_late(found: str | None, request: str) -> None:
        if found == "late":
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"{request} was done, and its answer is lost")

    async def metadata(self, topics: Iterable[str] | None = None, **_options: Any) -> Cluster:
        """See `Client`."""
        found = self._fails("metadata")
        names = set(topics or self._source.topics)
        described = {
            name: Topic(name, life.topic_id, {n: _partition(n, log) for n, log in enumerate(life.logs)})
            for name, life in self._source.topics.items()
            if name in names
        }
        absent = names - described.keys()
        described |= {name: Topic(name, ZERO_UUID, {}, error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) for name in absent}
        self._is_late(found, "metadata")
        return Cluster({NODE: Node(NODE, Address("model", 1))}, described, "model", NODE)

    def _led(self, place: TopicPartition) -> Log:
        log = self._source.log(place)
        if log is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{place} does not exist")
        if not log.is_led:
            raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"{place} has no leader")
        return log

    async def list_offsets(
        self, wanted: Mapping[TopicPartition, Millis], *, isolation: Isolation = Isolation.READ_UNCOMMITTED
    ) -> dict[TopicPartition, ListedOffset]:
        """See `Client`."""
        found = self._fails("list_offsets")
        listed = {}
        for place, moment in wanted.items():
            log = self._led(place)
            end = log.stable if isolation is Isolation.READ_COMMITTED else log.end
            offset = Offset(log.start if moment == EARLIEST else end)
            listed[place] = ListedOffset(place, offset, Millis(-1), LeaderEpoch(0))
        self._is_late(found, "list_offsets")
        return listed

    async def fetch(
        self, positions: Sequence[FetchPosition], *, isolation: Isolation, **_options: Any
    ) -> list[Fetched]:
        """See `Client`: an answer holds so much as there is room for, and its last batch may be cut short."""
        found = self._fails("fetch")
        rng = self._source.rng
        room = rng.choice((1, 2_000, 100_000, 1 << 20))
        answers = []
        for position in positions:
            answer = self._fetched(position, self._led(position.partition), isolation, room)
            room = max(0, room - len(answer.records))
            answers.append(answer)
        self._is_late(found, "fetch")
        if found in OF_A_PARTITION:
            with_records = [at for at, each in enumerate(answers) if len(each.records)]
            at = rng.choice(with_records or range(len(answers)))
            answers[at] = _spoiled(answers[at], found, rng)
        return answers

    def _fetched(self, position: FetchPosition, log: Log, isolation: Isolation, room: int) -> Fetched:
        place, offset = position.partition, position.offset
        end = log.stable if isolation is Isolation.READ_COMMITTED else log.end
        is_out = not log.start <= offset <= log.end
        data = b""
        for first, following, batch in log.batches:
            if is_out or not room or following <= max(offset, log.start) or first >= end:
                continue
            if data and len(data) + len(batch) > room:
                data += batch[: self._source.rng.randint(0, len(batch) - 1)]
                break
            data += batch
        aborted = [(ProducerId(producer), Offset(first)) for producer, first, last in log.aborted if last >= offset]
        return Fetched(
            place,
            offset,
            ErrorCode.OFFSET_OUT_OF_RANGE if is_out else ErrorCode.NONE,
            Offset(log.end),
            Offset(log.stable),
            Offset(log.start),
            tuple(aborted) if isolation is Isolation.READ_COMMITTED else (),
            memoryview(data),
            self._source.topics[place.topic].topic_id,
        )

    async def produce(self, batches: Mapping[TopicPartition, Any], **_options: Any) -> list[Appended]:
        """See `Client`; only syncs are told through it."""
        found = self._fails("produce")
        answers = []
        for place, batch in batches.items():
            answers.append(Appended(place, base_offset=Offset(len(self._syncs))))
            self._syncs += [(bytes(each.key or b""), bytes(each.value or b"")) for each in iter_records(batch)]
        self._is_late(found, "produce")
        return answers


def _partition(number: int, log: Log) -> Partition:
    return Partition(number, NODE if log.is_led else NodeId(-1), LeaderEpoch(0), (NODE,), (NODE,))


def _spoiled(answer: Fetched, how: str | None, rng: random.Random) -> Fetched:
    data, error = bytearray(answer.records), answer.error
    if how == "partition damaged" and data:
        size = 12 + int.from_bytes(data[8:12], "big")
        data[rng.randrange(21, size)] ^= 1 << rng.randrange(8)  # of the first batch, what its checksum covers
    else:
        data, error = bytearray(), ErrorCode.KAFKA_STORAGE_ERROR
    return Fetched(
        answer.partition,
        answer.offset,
        error,
        answer.high_watermark,
        answer.last_stable_offset,
        answer.log_start_offset,
        answer.aborted,
        memoryview(bytes(data)),
        answer.topic_id,
    )


def waiting(client: MirrorClient) -> BlockingClient:
    """Return the client with calls that wait, as the task has it."""
    made = BlockingClient("model:1")
    made.client = client  # type: ignore[assignment]
    return made
