"""Quick Produce: requests of one connection that begin as one before them did, joined into one append per partition.

Most producers send the same bytes each time, from the client id to the partition's index. Such a request needs no message
objects, no context and no look-up of names: `take` checks its batch and keeps it, and `finish`, called before anything else
happens on the connection and before its answers leave, appends what one read of the socket has brought by one write per
partition, and answers it. With acks=all, requests of one beginning that came one behind the other are answered together,
once the copies have the last one's records.

This is a short cut and no other way: what is not as usual (an error, a quota, a transaction, a flush, a codec or a clock of
the topic's own, a producer whose sequence does not follow) is left to the handler, request by request.
So nothing has to be forgotten when a topic goes, a leader changes, a login ends or a right is taken away: whatever a
request could depend on is looked at once per read, and nothing else runs between that and the append. What the handler
counts is counted here.
"""

from __future__ import annotations

import logging
from time import perf_counter_ns
from typing import Final

from ottla.background import count_failure
from ottla.base import ErrorCode, KafkaError, Millis
from ottla.broker.meters import Counter, RequestTimes
from ottla.broker.parts import ProduceParts
from ottla.broker.replicas.decompressing import ROOM
from ottla.broker.replicas.lane_room import LANES_MAX, REMEMBERED_BYTES_MAX, LaneRoom
from ottla.broker.replicas.local_partition import LocalPartition
from ottla.broker.replicas.produce_answer import fail_unreplicated, must_wait, rendered, replication_error
from ottla.broker.replicas.quick_requests import QuickRequests, RequestCounts, is_usual
from ottla.broker.requests.connection import Connection, Pending
from ottla.broker.requests.handler import RequestContext
from ottla.replica import Wait
from ottla.security import Operation, Resource
from ottla.wire import (
    AnswerTemplate,
    Attributes,
    BatchHeader,
    BatchRules,
    Beginning,
    Produce,
    ProducedPartition,
    ProducedTopic,
    Shape,
    WritableBuffer,
    admit_batch,
    batch_bound,
    beginning_end,
)

__all__ = ["QuickProduce"]

log = logging.getLogger(__name__)

API_KEY: Final = 0
FLEXIBLE_FROM: Final = 9
TRANSACTIONAL: Final = Attributes.TRANSACTIONAL
JOINED_MAX: Final = 512
"""Requests that are appended together."""


class _Lane:
    """One beginning: where its requests go, and what of one read has been taken."""

    __slots__ = (
        "acks",
        "answered",
        "answers",
        "batches",
        "beginning",
        "client_id",
        "correlation_ids",
        "frames",
        "head",
        "index",
        "log_start_offset",
        "name",
        "next_offset",
        "now_ms",
        "partition",
        "records",
        "rules",
        "shape",
        "size",
        "timeout_ms",
        "topic_id",
        "version",
    )

    def __init__(
        self,
        shape: Shape,
        beginning: Beginning,
        answers: AnswerTemplate,
        name: str,
        topic_id: bytes,
        *,
        index: int,
        request: Produce,
        version: int,
        client_id: str,
    ) -> None:
        self.shape = shape
        self.beginning = beginning
        self.head = beginning.head
        self.answers = answers
        self.name = name
        self.topic_id = topic_id
        """Empty where the topic is named."""
        self.index = index
        self.acks = request.acks
        self.timeout_ms = max(request.timeout_ms, 0)
        self.version = version
        self.client_id = client_id
        self.partition: LocalPartition | None = None
        """Set from the first request that is taken until they are finished."""
        self.rules = BatchRules()
        self.now_ms = Millis(0)
        self.frames: list[memoryview] = []
        self.correlation_ids: list[int] = []
        self.batches: list[tuple[WritableBuffer, BatchHeader]] = []
        self.size = 0
        """Bytes of the batches."""
        self.records = 0
        self.next_offset = -1
        """What the next answer says; -1 where the handler answers."""
        self.log_start_offset = 0
        self.answered = 0

    def clear(self) -> None:
        """Be ready for the next read."""
        self.partition = None
        self.frames, self.correlation_ids, self.batches = [], [], []
        self.size = self.records = self.answered = 0
        self.next_offset = -1


class _Run:
    """Requests of one beginning, one behind the other, that the copies have to have before they are answered."""

    __slots__ = ("correlation_ids", "ends", "lane", "log_start_offset", "offsets", "partition", "place")

    def __init__(self, lane: _Lane, partition: LocalPartition) -> None:
        self.lane = lane
        self.partition = partition
        self.log_start_offset = lane.log_start_offset
        self.place = Pending(0, pipelines=True)
        self.correlation_ids: list[int] = []
        self.offsets: list[int] = []
        """The first ones."""
        self.ends: list[int] = []
        """What the high watermark has to reach."""

    def add(self, correlation_id: int, offset: int, end: int, request_bytes: int) -> None:
        """Take in the next request."""
        self.correlation_ids.append(correlation_id)
        self.offsets.append(offset)
        self.ends.append(end)
        self.place.request_bytes += request_bytes


class QuickProduce:
    """The beginnings that one connection's requests have had; `taken` says how many requests wait for `finish`."""

    __slots__ = (
        *("_counts", "_lanes", "_order", "_room", "_services", "_several", "_shapes", "_started_ns"),
        "taken",
    )

    def __init__(self, services: ProduceParts, requests: Counter, times: RequestTimes) -> None:
        """`requests` and `times` are what Produce requests are counted in."""
        self._services = services
        self._counts = RequestCounts(requests, times)
        self._shapes: list[Shape] = []
        self._lanes: dict[bytes, _Lane] = {}
        """By what lies between correlation id and records; those of two versions do not live side by side."""
        self._order: list[_Lane] = []
        self._several: QuickRequests | None = None
        """Takes the place of what begins alike on a connection that writes to several partitions at once."""
        self._room = LaneRoom()
        self._started_ns = 0
        self.taken = 0

    def learn(self, frame: memoryview, version: int, position: int, request: Produce, client_id: str) -> None:
        """Remember how a request began that was handled, whose body is at `position`."""
        if request.acks not in (1, -1) or self._several is not None:
            return
        if _is_of_several(request):
            self._learn_several(request)
            return
        end = beginning_end(frame, version, position, request)
        if not 0 <= end <= REMEMBERED_BYTES_MAX:
            return
        topic = request.topic_data[0]
        index = topic.partition_data[0].index
        partitions = self._services.partitions
        name = topic.name or partitions.topic_name(topic.topic_id)
        if not name or name.startswith("__"):  # topics that coordinators write have rules of their own
            return
        partition = partitions.get(name, index)
        if partition is None or not is_usual(partition):
            return
        shape = self._shape(end, is_flexible=version >= FLEXIBLE_FROM)
        beginning = shape.beginning_of(frame)
        known = self._lanes.get(beginning.rest)
        if known is not None:
            if known.beginning == beginning:
                return
            self._forget(known)
        elif len(self._lanes) >= LANES_MAX:
            if not self._room.takes():
                return
            self._forget(next(iter(self._lanes.values())))
        if shape not in self._shapes:
            self._shapes.append(shape)
        topic_id = b"" if topic.name else topic.topic_id
        answers = AnswerTemplate(version, topic.name, topic.topic_id, index)
        self._lanes[beginning.rest] = _Lane(
            *(shape, beginning, answers, name, topic_id),
            index=index,
            request=request,
            version=version,
            client_id=client_id,
        )

    def _learn_several(self, request: Produce) -> None:
        """Have this connection's requests read whole from now on, where those like this one are not the handler's."""
        if request.transactional_id is not None:
            return
        partitions = self._services.partitions
        for topic in request.topic_data:
            name = topic.name or partitions.topic_name(topic.topic_id)
            if not name or name.startswith("__"):
                return
            for data in topic.partition_data:
                partition = partitions.get(name, data.index)
                if partition is None or not is_usual(partition):
                    return
        self._lanes, self._shapes = {}, []
        self._several = QuickRequests(self._services, self._counts)

    def _shape(self, end: int, *, is_flexible: bool) -> Shape:
        for each in self._shapes:
            if each.end == end and each.is_flexible == is_flexible:
                return each
        return Shape(end, is_flexible=is_flexible)

    def _forget(self, lane: _Lane) -> None:
        del self._lanes[lane.beginning.rest]
        if not any(each.shape is lane.shape for each in self._lanes.values()):
            self._shapes.remove(lane.shape)

    def take(self, connection: Connection, frame: memoryview) -> bool:
        """Keep a request for `finish`; False where it has to be handled, after `finish`."""
        if self._several is not None:
            return self._take_whole(self._several, connection, frame)
        size = len(frame)
        for shape in self._shapes:
            if size < shape.size_min:
                continue
            head, correlation_id, rest, length = shape.read(frame)
            lane = self._lanes.get(rest)
            if lane is not None and lane.head == head and lane.shape is shape:
                records = shape.records_of(frame, length)
                if records is None or self.taken >= JOINED_MAX:
                    return False
                if not self.taken:
                    self._started_ns = perf_counter_ns()
                if lane.partition is None and not self._open(lane, connection):
                    return False
                return self._keep(lane, frame, correlation_id, records)
        return False

    def _take_whole(self, several: QuickRequests, connection: Connection, frame: memoryview) -> bool:
        if not self.taken:
            self._started_ns = perf_counter_ns()
        if several.take(connection, frame):
            self.taken += 1
            return True
        if several.is_useless and not self.taken:
            self._several = None
        return False

    def _keep(self, lane: _Lane, frame: memoryview, correlation_id: int, records: memoryview) -> bool:
        try:
            is_small = ROOM.take(batch_bound(records))
            header = admit_batch(records, lane.rules, lane.now_ms) if is_small else None
        except Exception:  # the handler meets the same, and says what is wrong
            log.debug("A batch for %s-%s is left to the handler", lane.name, lane.index, exc_info=True)
            header = None
        if header is None or header.attributes & TRANSACTIONAL:
            if not lane.frames:
                lane.partition = None
            return False
        lane.frames.append(frame)
        lane.correlation_ids.append(correlation_id)
        lane.batches.append((records, header))
        lane.size += len(records)
        lane.records += header.last_offset_delta + 1
        self._order.append(lane)
        self.taken += 1
        return True

    def _open(self, lane: _Lane, connection: Connection) -> bool:
        """Look at all that the requests of a beginning depend on; False where they are for the handler now."""
        services = self._services
        if services.quotas is not None or (connection.admits is not None and not connection.admits()):
            return False
        partitions = services.partitions
        try:
            if lane.topic_id and partitions.topic_name(lane.topic_id) != lane.name:
                return False
            partition = partitions.writable(lane.name, lane.index)
            if not services.authorizer.grants(
                connection.connected, Operation.WRITE, Resource.TOPIC, lane.name, API_KEY, 0
            ):
                return False
        except KafkaError:
            return False
        if not is_usual(partition):
            self._forget(lane)
            return False
        for each in self._lanes.values():
            if (
                each.partition is partition
            ):  # begun otherwise, with other acks say: one partition's requests stay in order
                return False
        lane.partition, lane.rules, lane.now_ms = partition, partition.rules, services.clock.now_ms()
        return True

    def finish(self, connection: Connection) -> None:
        """Append what was taken, and answer it in order; what cannot be appended so, the handler is given now."""
        taken, self.taken = self.taken, 0
        try:
            if self._several is not None:
                self._several.finish(connection, self._started_ns)
            else:
                self._finish(connection)
        except Exception:  # our own mistake: it is said, and costs this connection only
            log.exception("Closing a connection: %s requests could not be handled together", taken)
            count_failure("requests Produce")
            connection.close()

    def _finish(self, connection: Connection) -> None:
        order, self._order = self._order, []
        lanes = list(dict.fromkeys(order)) if len(self._lanes) > 1 else order[:1]
        try:
            for lane in lanes:
                self._append(lane, connection)
            self._answer(connection, order)
        finally:
            for lane in lanes:
                lane.clear()

    def _append(self, lane: _Lane, connection: Connection) -> None:
        """Append what a beginning's requests have brought, and count it; or nothing of it."""
        partition = lane.partition
        assert partition is not None
        lane.next_offset = partition.append_joined(lane.batches, acks=lane.acks, now_ms=lane.now_ms)
        if lane.next_offset < 0:
            return
        lane.log_start_offset = partition.log.log_start_offset
        count = len(lane.frames)
        self._services.authorizer.grants(
            connection.connected, Operation.WRITE, Resource.TOPIC, lane.name, API_KEY, count
        )
        traffic = partition.traffic
        traffic.produces += count
        traffic.bytes_in += lane.size
        traffic.messages_in += lane.records
        client = self._services.traffic.client(traffic, lane.client_id, connection.connected.principal)
        client.bytes_in += lane.size
        client.messages_in += lane.records

    def _answer(self, connection: Connection, order: list[_Lane]) -> None:
        """Answer in order: what is done now, what waits for copies in a place of its own, the rest by the handler."""
        answers: list[bytes] = []
        runs: list[_Run] = []
        run: _Run | None = None
        answered = 0
        for lane in order:
            at = lane.answered
            lane.answered = at + 1
            offset, partition = lane.next_offset, lane.partition
            assert partition is not None
            end = lane.next_offset = -1 if offset < 0 else offset + lane.batches[at][1].last_offset_delta + 1
            waits = offset >= 0 and must_wait(partition, lane.acks, end)
            if run is not None and not (waits and run.lane is lane):
                connection.wait_for(run.place)
                run = None
            if answers and (waits or offset < 0):
                connection.answer((b"".join(answers),))
                answers = []
            if offset < 0:
                if not connection.is_closed:
                    connection.handle(lane.frames[at])
            elif waits:
                if run is None:
                    run = _Run(lane, partition)
                    runs.append(run)
                run.add(lane.correlation_ids[at], offset, end, len(lane.frames[at]))
            else:
                answered += 1
                answers.append(lane.answers.filled(lane.correlation_ids[at], offset, lane.log_start_offset))
        if run is not None:
            connection.wait_for(run.place)
        if answers:
            connection.answer((b"".join(answers),))
        worked_ns = (perf_counter_ns() - self._started_ns) // len(order)
        self._counts.answered(answered, worked_ns)
        for each in runs:
            self._wait(connection, each, worked_ns)

    def _wait(self, connection: Connection, run: _Run, worked_ns: int) -> None:
        """Answer requests when the copies that are in sync have their records, or at their deadline."""
        count, started_ns, counts = len(run.ends), self._started_ns, self._counts
        counts.begun(count, worked_ns)

        def finish(reached: bool) -> None:
            counts.ended(count, worked_ns, perf_counter_ns() - started_ns)
            try:
                connection.settle(run.place, (self._acknowledged(connection, run),))
            except Exception:  # our own mistake: it is said, and costs this connection only
                log.exception("Closing a connection: the answers to %s requests could not be sent", count)
                count_failure("requests Produce")
                connection.close()

        purgatory, key = self._services.purgatory, run.partition.key
        deadline_s = purgatory.now_s() + run.lane.timeout_ms / 1000
        purgatory.add_produce(Wait(deadline_s, finish, required={key: run.ends[-1]}), (key,))

    def _acknowledged(self, connection: Connection, run: _Run) -> bytes:
        """Return the answers to requests whose wait is over."""
        lane, partition = run.lane, run.partition
        correlation_ids, offsets = run.correlation_ids, run.offsets
        if replication_error(partition, run.ends[-1]) is ErrorCode.NONE:
            filled, start = lane.answers.filled, run.log_start_offset
            return b"".join([filled(each, offsets[at], start) for at, each in enumerate(correlation_ids)])
        return b"".join([self._answer_alone(connection, run, at) for at in range(len(correlation_ids))])

    def _answer_alone(self, connection: Connection, run: _Run, at: int) -> bytes:
        """Return one request's answer where the last one's cannot be had."""
        lane, partition = run.lane, run.partition
        context: RequestContext[ProduceParts] = RequestContext(
            self._services, connection.connected, API_KEY, lane.version, run.correlation_ids[at], lane.client_id
        )
        answer = ProducedPartition(lane.index, 0, run.offsets[at], -1, run.log_start_offset)
        fail_unreplicated(context, partition, answer, run.ends[at])
        return rendered(context, [ProducedTopic(lane.name, lane.topic_id, [answer])])


def _is_of_several(request: Produce) -> bool:
    """Return whether a request has batches of several partitions."""
    topics = request.topic_data
    return len(topics) > 1 or (len(topics) == 1 and len(topics[0].partition_data) > 1)
