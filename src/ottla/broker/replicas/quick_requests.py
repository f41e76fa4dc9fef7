"""Quick Produce of several partitions: the requests of one read of a connection, by one write per partition.

A Java producer sends what it has for all partitions of a broker in one request, which is another each time. Such a request
is read whole by `take` and kept, and `finish` appends what one read of the socket has brought for each partition by one
write, and answers: with acks=all, each request once the copies have its records. As with `QuickProduce`, whose part this
is, whatever is not as usual is left to the handler, request by request. A request goes together: what each partition would
append is planned before the first of them is written to, and where one cannot have it so, all the read's requests are the
handler's. Only a disk that fails then is told here.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from struct import Struct
from time import perf_counter_ns
from typing import Final

from ottla.background import count_failure
from ottla.base import KafkaError, Millis
from ottla.broker.meters import Counter, RequestTimes
from ottla.broker.parts import ProduceParts
from ottla.broker.replicas.decompressing import ROOM
from ottla.broker.replicas.local_partition import LocalPartition
from ottla.broker.replicas.produce_answer import Appended, acknowledged, must_wait
from ottla.broker.requests.answers import Deferred, Encoded
from ottla.broker.requests.connection import Connection, Pending
from ottla.broker.requests.handler import RequestContext
from ottla.log import JoinedAppend
from ottla.security import Operation, Resource
from ottla.wire import (
    Attributes,
    BatchHeader,
    BatchRules,
    Produce,
    ProducedPartition,
    ProducedTopic,
    ProducePartition,
    WritableBuffer,
    admit_batch,
    batch_bound,
    read_produce_request,
    write_produce_response,
)

__all__ = ["QuickRequests", "RequestCounts", "is_usual"]

log = logging.getLogger(__name__)

API_KEY: Final = 0
LOWEST: Final = 5
"""Answers before this version have no log start."""
HIGHEST: Final = 13
FLEXIBLE_FROM: Final = 9
TRANSACTIONAL: Final = Attributes.TRANSACTIONAL
JOINED_MAX: Final = 512
"""Batches that are appended together."""
_read_header: Final = Struct(">hhih").unpack_from
HEADER_BYTES: Final = 10
"""API key, version, correlation id and the client id's length."""


def is_usual(partition: LocalPartition) -> bool:
    """Return whether nothing of the partition's own stands between a sound batch and its answer."""
    return not (partition.flushes or partition.recompress_to is not None or partition.rules.log_append_time)


class RequestCounts:
    """Counts requests that are handled together, as the router counts those that it handles one by one."""

    __slots__ = ("_requests", "_times")

    def __init__(self, requests: Counter, times: RequestTimes) -> None:
        self._requests = requests
        self._times = times

    def answered(self, count: int, worked_ns: int) -> None:
        """Count requests that were answered at once; `worked_ns` is what each has taken."""
        if count:
            self._requests.value += count
            self._times.immediate.record_times(worked_ns, count)

    def begun(self, count: int, worked_ns: int) -> None:
        """Count requests whose answers come later."""
        self._requests.value += count
        self._times.waited_local.record_times(worked_ns, count)

    def ended(self, count: int, worked_ns: int, total_ns: int) -> None:
        """Count how long they took in all."""
        self._times.waited.record_times(total_ns, count)
        self._times.remote.record_times(total_ns - worked_ns, count)


class _Target:
    """What one read has brought for a partition."""

    __slots__ = (
        "acks",
        "batches",
        "error",
        "next_offset",
        "now_ms",
        "partition",
        "planned",
        "records",
        "rules",
        "size",
    )

    def __init__(self, partition: LocalPartition, acks: int, now_ms: Millis) -> None:
        self.partition = partition
        self.acks = acks
        self.now_ms = now_ms
        self.rules: BatchRules = partition.rules
        self.batches: list[tuple[WritableBuffer, BatchHeader]] = []
        self.size = 0
        """Bytes of the batches."""
        self.records = 0
        self.planned: JoinedAppend | None = None
        self.next_offset = -1
        """What the next answer says."""
        self.error: KafkaError | None = None
        """Why nothing was appended although that was planned."""


class _Topic:
    """One topic of a request, with what its partitions' batches go to."""

    __slots__ = ("headers", "name", "targets", "topic_id")

    def __init__(self, name: str, topic_id: bytes, targets: list[_Target], headers: list[BatchHeader]) -> None:
        self.name = name
        self.topic_id = topic_id
        self.targets = targets
        self.headers = headers


class _Request:
    """One request that was taken."""

    __slots__ = ("acks", "correlation_id", "frame", "timeout_ms", "topics", "version")

    def __init__(
        self, frame: memoryview, version: int, correlation_id: int, request: Produce, topics: list[_Topic]
    ) -> None:
        self.frame = frame
        self.version = version
        self.correlation_id = correlation_id
        self.acks = request.acks
        self.timeout_ms = request.timeout_ms
        self.topics = topics


class QuickRequests:
    """What one read of a connection has brought; `taken` says how many requests wait for `finish`."""

    __slots__ = (
        "_batches",
        "_counts",
        "_decompressed",
        "_granted",
        "_services",
        "_taken",
        "_targets",
        "is_useless",
        "taken",
    )

    def __init__(self, services: ProduceParts, counts: RequestCounts) -> None:
        self._services = services
        self._counts = counts
        self._taken: list[_Request] = []
        self._targets: dict[int, _Target] = {}
        """By the identity of their partitions, which live at least as long."""
        self._granted: set[str] = set()
        self._batches = 0
        self.taken = 0
        self.is_useless = False
        """True from a request on that is for the handler: the next ones may be, too, and are not worth a second reading."""

    def take(self, connection: Connection, frame: memoryview) -> bool:
        """Keep a request for `finish`; False where it has to be handled, after `finish`."""
        if self._batches >= JOINED_MAX or len(frame) < HEADER_BYTES:
            return False
        key, version, correlation_id, size = _read_header(frame, 0)
        end: int = HEADER_BYTES + max(0, size)
        if key != API_KEY or not LOWEST <= version <= HIGHEST:
            return False
        if frame[HEADER_BYTES:end] != connection.client_id_bytes:
            return False
        if version >= FLEXIBLE_FROM:
            if end >= len(frame) or frame[end]:
                return False
            end += 1
        try:
            request = read_produce_request(frame, version, end)
            topics = self._topics(connection, request)
        except Exception:  # the handler meets the same, and says what is wrong
            log.debug("A Produce request of several partitions is left to the handler", exc_info=True)
            topics = None
        if topics is None:
            self.is_useless = True
            return False
        self._keep(request, topics)
        self._taken.append(_Request(frame, version, correlation_id, request, topics))
        self.taken += 1
        return True

    def _topics(self, connection: Connection, request: Produce) -> list[_Topic] | None:
        """Return where a request's batches go, each checked; None where it is for the handler."""
        if request.transactional_id is not None or request.acks not in (1, -1):
            return None
        if not self.taken and not self._begin(connection):
            return None
        found: list[_Topic] = []
        partitions = self._services.partitions
        for topic in request.topic_data:
            name = topic.name or partitions.topic_name(topic.topic_id)
            if not name or name.startswith("__"):  # topics that coordinators write have rules of their own
                return None
            if name not in self._granted:
                granted = self._services.authorizer.grants(
                    connection.connected, Operation.WRITE, Resource.TOPIC, name, API_KEY, 0
                )
                if not granted:
                    return None
                self._granted.add(name)
            targets: list[_Target] = []
            headers: list[BatchHeader] = []
            for data in topic.partition_data:
                target = self._target(name, data, request.acks)
                if target is None or data.records is None:
                    return None
                if not ROOM.take(batch_bound(data.records)):
                    return None
                header = admit_batch(data.records, target.rules, target.now_ms)
                if header.attributes & TRANSACTIONAL:
                    return None
                targets.append(target)
                headers.append(header)
            found.append(_Topic(name, topic.topic_id, targets, headers))
        return found

    def _begin(self, connection: Connection) -> bool:
        """Look at what all requests of a read depend on."""
        self._targets, self._granted = {}, set()
        return self._services.quotas is None and (connection.admits is None or connection.admits())

    def _target(self, name: str, data: ProducePartition, acks: int) -> _Target | None:
        """Return what takes a partition's batches; raises KafkaError where the handler would."""
        partition = self._services.partitions.writable(name, data.index)
        found = self._targets.get(id(partition))
        if found is None:
            if not is_usual(partition):
                return None
            found = self._targets[id(partition)] = _Target(partition, acks, self._services.clock.now_ms())
        return found if found.acks == acks else None

    def _keep(self, request: Produce, topics: list[_Topic]) -> None:
        for at, topic in enumerate(request.topic_data):
            found = topics[at]
            for place, data in enumerate(topic.partition_data):
                target, header, records = found.targets[place], found.headers[place], data.records
                assert records is not None
                target.batches.append((records, header))
                target.size += len(records)
                target.records += header.last_offset_delta + 1
                self._batches += 1

    def finish(self, connection: Connection, started_ns: int) -> None:
        """Append what was taken and answer it, or have the handler do so; `started_ns` is when the first came."""
        requests, targets = self._taken, [each for each in self._targets.values() if each.batches]
        self._taken, self._targets, self._batches, self.taken = [], {}, 0, 0
        for target in targets:
            target.planned = target.partition.plan_joined(target.batches, acks=target.acks, now_ms=target.now_ms)
            if target.planned is None:
                for each in requests:
                    if not connection.is_closed:
                        connection.handle(each.frame)
                return
        for target in targets:
            self._append(target, connection)
        answers: list[bytes] = []
        waiting: list[Callable[[int], None]] = []
        for each in requests:
            context: RequestContext[ProduceParts] = RequestContext(
                *(self._services, connection.connected, API_KEY, each.version, each.correlation_id),
                *(connection.client_id, len(each.frame), started_ns),
            )
            answer = self._answer(each, context)
            if isinstance(answer, bytes):
                answers.append(answer)
                continue
            if answers:
                connection.answer((b"".join(answers),))
                answers = []
            waiting.append(self._wait(connection, answer, context))
        if answers:
            connection.answer((b"".join(answers),))
        worked_ns = (perf_counter_ns() - started_ns) // len(requests)
        self._counts.answered(len(requests) - len(waiting), worked_ns)
        for begin in waiting:
            begin(worked_ns)

    def _wait(
        self, connection: Connection, answer: Deferred[Encoded], context: RequestContext[ProduceParts]
    ) -> Callable[[int], None]:
        """Keep the place of an answer that comes later; return what is told how long its request has taken until now."""
        place = Pending(context.request_bytes, pipelines=True)
        connection.wait_for(place)
        counts = self._counts

        def begin(worked_ns: int) -> None:
            counts.begun(1, worked_ns)
            context.worked_ns = worked_ns

            def settle(found: Encoded | None, error: Exception | None) -> None:
                counts.ended(1, worked_ns, perf_counter_ns() - context.started_ns)
                try:
                    if found is None:
                        raise error or RuntimeError("there is no answer")
                    if found.throttle_time_ms > 0:
                        connection.mute(found.throttle_time_ms)
                    connection.settle(place, found.parts)
                except Exception:  # our own mistake: it is said, and costs this connection only
                    log.exception("Closing a connection: the answer to a Produce could not be sent")
                    count_failure("requests Produce")
                    connection.close()

            answer.listen(settle)

        return begin

    def _append(self, target: _Target, connection: Connection) -> None:
        """Append what was planned for a partition, and count it; or say of its batches that the disk failed."""
        planned = target.planned
        assert planned is not None
        traffic = target.partition.traffic
        traffic.produces += len(target.batches)
        try:
            target.next_offset = target.partition.append_planned(planned, acks=target.acks, now_ms=target.now_ms)
        except KafkaError as error:
            target.error = error
            traffic.failed_produces += len(target.batches)
            return
        traffic.bytes_in += target.size
        traffic.messages_in += target.records
        client = self._services.traffic.client(traffic, connection.client_id or "", connection.connected.principal)
        client.bytes_in += target.size
        client.messages_in += target.records

    def _answer(self, request: _Request, context: RequestContext[ProduceParts]) -> bytes | Deferred[Encoded]:
        """Return a request's answer, or what has it when the copies have the records."""
        topics: list[ProducedTopic] = []
        appended: list[Appended] = []
        is_done = True
        for topic in request.topics:
            self._services.authorizer.allows(  # it was granted: this counts it
                context.connected, Operation.WRITE, Resource.TOPIC, topic.name, API_KEY, True, len(topic.targets)
            )
            answers: list[ProducedPartition] = []
            for at, target in enumerate(topic.targets):
                partition, error = target.partition, target.error
                index = partition.key.partition
                if error is not None:
                    answers.append(ProducedPartition(index, int(error.code), error_message=error.message))
                    is_done = False
                    continue
                offset = target.next_offset
                end = target.next_offset = offset + topic.headers[at].last_offset_delta + 1
                answer = ProducedPartition(index, 0, offset, -1, partition.log.log_start_offset)
                answers.append(answer)
                appended.append((partition, answer, end, partition.replica.leader_epoch))
                if must_wait(partition, request.acks, end):
                    is_done = False
            topics.append(ProducedTopic(topic.name, topic.topic_id, answers))
        if is_done:
            return write_produce_response(request.version, request.correlation_id, topics)
        found = acknowledged(context, topics, appended, acks=request.acks, timeout_ms=request.timeout_ms)
        if isinstance(found, Deferred):
            return found
        answered: bytes = found.parts[0]
        return answered
