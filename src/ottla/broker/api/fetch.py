"""Fetch: hand out stored batches as they are, at once or when enough has come.

- Sessions (KIP-227) since 7, diverging epochs (KIP-595) since 12, topic ids (KIP-516) since 13, the replica's state
  (KIP-903) since 15, leader endpoints (KIP-951) since 16, the follower's high watermark (KIP-1166) since 18.
- A request waits until `min_bytes` can be read, a partition has an error, or `max_wait_ms` has passed; then it is read
  anew, so that the answer has everything that came meanwhile. At least one whole batch is sent if any partition has
  one.
- Large slices go from the page cache to the socket, small ones are copied; what is not in memory is read on a thread.
- Where too many answers lie unread, one of many partitions waits for its turn (`AnswerMemory`), and is read anew then.
- A request of very many partitions is looked at, and answered, some partitions after the other; others have their turn in
  between (`_Long`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Sequence
from typing import Any, Final

from ottla.base import KafkaError, NodeId
from ottla.broker.parts import FetchParts
from ottla.broker.quorum.metadata_fetch import fetch_metadata
from ottla.broker.replicas.fetch_answer import FetchAnswer, fetch_answer
from ottla.broker.replicas.fetching import (
    FOLLOWERS_FROM,
    RACK_AWARE,
    FetchLimits,
    FetchPlan,
    FetchReading,
    note_follower,
    read_all,
)
from ottla.broker.replicas.quick_fetch import QuickFetch
from ottla.broker.requests.answer_memory import PART_BYTES, AnswerMemory, Turn
from ottla.broker.requests.answers import Answer, Deferred, Encoded, Reply, reply_of
from ottla.broker.requests.handler import Handler, RequestContext
from ottla.broker.requests.slices import Pauses
from ottla.replica import FetchedPartition, FetchSession, SessionKey, Wait
from ottla.security import Needs, Operation, Resource
from ottla.wire import Fetch, FetchPartition, Message, read_fetch_request, write_fetch_response

__all__ = ["HANDLER"]

TOPIC_IDS_FROM: Final = 13
HIGH_WATERMARK_UNKNOWN: Final = (1 << 63) - 1
"""What a follower that does not tell its high watermark has in that field's place (KIP-1166)."""
CONSUMER: Final = -1
INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
AT_ONCE_MAX = 2_000
"""Partitions that are read and answered without a pause; a consumer's usual request has some hundred at most."""
TOGETHER_MAX = 64
"""Partitions of a longer request that are read before others may have their turn."""


class _Fetch:
    """One Fetch request on its way: what it asks for, and in which session."""

    __slots__ = ("context", "is_incremental", "limits", "may_park", "session", "session_epoch", "wanted")

    def __init__(
        self, context: RequestContext[FetchParts], request: Fetch, asked: list[tuple[SessionKey, FetchedPartition]]
    ) -> None:
        replica_id = request.replica_id
        is_refused = replica_id >= 0 and not context.allows(Operation.CLUSTER_ACTION, Resource.CLUSTER)
        if is_refused:  # what it says of its log is worth nothing (CVE-2018-1288)
            replica_id = CONSUMER
        self.context = context
        max_bytes = request.max_bytes if replica_id >= 0 else _bytes_max(context, request)
        self.limits = FetchLimits(
            max_bytes=max_bytes,
            min_bytes=min(request.min_bytes, max_bytes),
            max_wait_ms=request.max_wait_ms,
            isolation_level=request.isolation_level,
            replica_id=replica_id,
            reads_followers=context.api_version >= FOLLOWERS_FROM,
            rack=_rack(context, request) if request.rack_id else "",
            is_refused=is_refused,
        )
        self.limits.replica_epoch = request.replica_epoch if replica_id >= 0 else -1
        self.limits.asked_s = context.services.loop.time()
        self.session: FetchSession | None = None
        self.session_epoch = request.session_epoch
        self.is_incremental = False
        self.may_park = False
        """True in a follower's session."""
        self.wanted: Iterable[tuple[SessionKey, FetchedPartition]] = ()
        self._join_session(request, asked)

    def _join_session(self, request: Fetch, asked: list[tuple[SessionKey, FetchedPartition]]) -> None:
        """Find, make or end the session, and with it which partitions are asked for."""
        by_id = self.context.api_version >= TOPIC_IDS_FROM
        sessions = self.context.services.sessions
        now_s = self.context.services.loop.time()
        if request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            if request.session_id:
                sessions.close(request.session_id)
            if request.session_epoch == INITIAL_EPOCH:
                self.session = sessions.create(
                    asked, privileged=self.limits.replica_id >= 0, uses_topic_ids=by_id, now_s=now_s
                )
            self.wanted = asked
            return
        session = sessions.resume(request.session_id, request.session_epoch, uses_topic_ids=by_id, now_s=now_s)
        sessions.update(session, asked, _forgotten(request, by_id=by_id), now_s=now_s)
        if not session.partitions:
            sessions.close(session.id)
            return
        self.session = session
        self.is_incremental = True
        if self.limits.replica_id >= 0 and not self.limits.is_stale:
            session.fetched(now_s, self.limits.replica_epoch)
            self.limits.confirmed_s = session.last_fetch.confirmed_s
            self.may_park = True
        self.wanted = session.awake.items()

    def read(self) -> list[FetchPlan]:
        """Read every partition as it is now, except those of which a follower has everything.

        A follower may have been fenced since it asked.
        """
        if self.limits.replica_id >= 0:
            note_follower(self.context, self.limits, self.limits.replica_epoch)
        return read_all(self.context, list(self.wanted) if self.may_park else self.wanted, self.limits)

    def must_wait_for_room(self, plans: list[FetchPlan]) -> bool:
        """Return whether so many answers lie unread that this one has to wait for its turn."""
        memory = self.context.services.answer_memory
        if not memory.is_full:
            return False
        given = len(plans)
        if self.is_incremental:
            given = sum(plan.size > 0 or plan.is_urgent for plan in plans)
        return memory.must_wait(given * PART_BYTES, is_follower=self.limits.replica_id >= 0)

    def awake(self, plans: list[FetchPlan]) -> list[FetchPlan]:
        """Return the plans of partitions that a follower has to ask for again, and park the others."""
        return [each for each in plans if not self._parks(each)] if self.may_park else plans

    def _parks(self, plan: FetchPlan) -> bool:
        """Return whether a follower has everything of a partition, and knows it: then its next fetch need not look."""
        session, partition = self.session, plan.partition
        if session is None or partition is None or plan.size or plan.is_urgent:
            return False
        if not plan.wanted.has_heard(high_watermark=plan.high_watermark, log_start_offset=plan.log_start_offset):
            return False
        return partition.park(session, plan.key, NodeId(self.limits.replica_id))

    def answer(self, plans: list[FetchPlan]) -> Encoded | Coroutine[Any, Any, Encoded]:
        """Render the answer; in an incremental one, only partitions with something new."""
        if self.is_metered:
            throttled = self.throttled(sum(plan.size for plan in plans))
            if throttled is not None:
                return throttled
        shown = self.shown(plans)
        session_id = self.answered()
        return fetch_answer(self.context, shown, session_id=session_id, is_follower=self.limits.replica_id >= 0)

    @property
    def is_metered(self) -> bool:
        """True where what is fetched counts for a quota."""
        return self.context.services.quotas is not None and self.limits.replica_id < 0

    def throttled(self, size: int) -> Encoded | None:
        """Count bytes for a quota; return the answer that keeps the client waiting where they exceed it."""
        quotas = self.context.services.quotas
        assert quotas is not None
        throttle_ms = quotas.fetched(self.context, size)
        return self._nothing_yet(throttle_ms) if throttle_ms > 0 else None

    def shown(self, plans: list[FetchPlan]) -> list[FetchPlan]:
        """Return the plans that are answered, and note in the session what its client hears."""
        session = self.session
        shown = plans
        if session is not None:
            shown = []
            for plan in plans:
                must = plan.wanted.must_answer(
                    high_watermark=plan.high_watermark,
                    log_start_offset=plan.log_start_offset,
                    has_news=plan.size > 0 or plan.is_urgent,
                )
                if must or not self.is_incremental:
                    shown.append(plan)
                elif self.may_park:
                    self._parks(plan)
            for plan in shown:
                if plan.size:
                    session.served(plan.key)
        return shown

    def answered(self) -> int:
        """Note that the answer leaves now; return the session's id."""
        session = self.session
        if session is None:
            return 0
        if self.limits.replica_id >= 0:
            session.answered_s = self.context.services.loop.time()
        return session.id

    def _nothing_yet(self, throttle_ms: int) -> Encoded:
        """Render the answer without partitions that keeps a client waiting; it will ask for the same again."""
        context = self.context
        session_id = 0
        if self.session is not None and self.is_incremental:
            session_id = self.session.id
        elif self.session is not None:
            context.services.sessions.close(self.session.id)
        parts = write_fetch_response(
            context.api_version, context.correlation_id, [], throttle_time_ms=throttle_ms, session_id=session_id
        )
        return Encoded(parts, throttle_time_ms=throttle_ms)


def _bytes_max(context: RequestContext[FetchParts], request: Fetch) -> int:
    """Return how large a client's answer may be: as it asks, as the broker allows, and as its quota can ever grant."""
    services = context.services
    max_bytes = min(request.max_bytes, services.configuration.broker.settings.fetch_max_bytes)
    granted = None if services.quotas is None else services.quotas.fetch_bytes_max(context)
    return max_bytes if granted is None else min(max_bytes, granted)


def _rack(context: RequestContext[FetchParts], request: Fetch) -> str:
    """Return a consumer's rack where this broker sends consumers to replicas in theirs."""
    selects = context.services.configuration.broker.settings.replica_selector_class == RACK_AWARE
    return request.rack_id if selects and context.api_version >= FOLLOWERS_FROM else ""


def fetch(context: RequestContext[FetchParts], request: Fetch) -> Answer:
    """Answer at once where there is enough or something is wrong, else wait for more."""
    if context.connected.is_controller:
        return fetch_metadata(context, request)
    count = len(request.topics)
    for topic in request.topics:
        count += len(topic.partitions)
    if count > AT_ONCE_MAX:
        return _fetch_in_slices(context, request)
    fetch = _Fetch(context, request, _asked_for(request, by_id=context.api_version >= TOPIC_IDS_FROM))
    if fetch.session is not None and len(fetch.session.awake) > AT_ONCE_MAX:
        return _Long(fetch).reply()
    plans = fetch.read()
    size = sum(plan.size for plan in plans)
    limits = fetch.limits
    if (
        size >= limits.min_bytes
        or limits.max_wait_ms <= 0
        or not (plans or fetch.may_park)
        or any(plan.is_urgent for plan in plans)
    ):
        return _answer_in_turn(fetch) if fetch.must_wait_for_room(plans) else fetch.answer(plans)
    return _answer_later(fetch, plans, missing=limits.min_bytes - size)


class _Later:
    """A fetch that is answered later: when there is enough, or it has waited long enough, and there is room."""

    __slots__ = ("_fetch", "_turn", "_wait", "deferred")

    def __init__(self, fetch: _Fetch) -> None:
        self._fetch = fetch
        self._wait: Wait | None = None
        self._turn: Turn | None = None
        self.deferred: Deferred[Answer] = Deferred()
        self.deferred.on_give_up = self._give_up

    def until(self, deadline_s: float, *, missing: int) -> Wait:
        """Wait for bytes, or for a time."""
        self._wait = Wait(deadline_s, self._waited, missing_bytes=missing)
        return self._wait

    def in_turn(self) -> None:
        """Wait for room."""
        self._turn = self._memory.wait(self._answer, is_follower=self._fetch.limits.replica_id >= 0)

    @property
    def _memory(self) -> AnswerMemory:
        return self._fetch.context.services.answer_memory

    def _waited(self, reached: bool) -> None:
        self._wait = None
        self._answer(has_room=False)

    def _answer(self, has_room: bool = True) -> None:
        """Read anew, since something may have come meanwhile, and answer."""
        self._turn = None
        fetch, services = self._fetch, self._fetch.context.services
        fetch.limits.is_again = True
        try:
            if not has_room and self._memory.is_full and fetch.must_wait_for_room(fetch.read()):
                self.in_turn()
                return
            if fetch.limits.replica_id < 0 and not services.lease.is_sure:
                answer: Answer = services.confirmation.before(lambda: fetch.answer(fetch.read()))
            else:
                answer = fetch.answer(fetch.read())
        except Exception as error:  # the router renders it, as it does what a handler raises
            self.deferred.fail(error)
        else:
            self.deferred.resolve(answer)

    def _give_up(self) -> None:
        """The client is gone: hold nothing for it."""
        if self._wait is not None:
            self._fetch.context.services.purgatory.give_up(self._wait)
        if self._turn is not None:
            self._memory.give_up(self._turn)


async def _fetch_in_slices(context: RequestContext[FetchParts], request: Fetch) -> Reply:
    """The same for very many partitions."""
    pauses = Pauses(context)
    asked: list[tuple[SessionKey, FetchedPartition]] = []
    for topic in request.topics:
        name = topic.topic_id if context.api_version >= TOPIC_IDS_FROM else topic.topic
        for start in range(0, len(topic.partitions), TOGETHER_MAX):
            asked += _asked_of(name, topic.partitions[start : start + TOGETHER_MAX])
            await pauses.step(TOGETHER_MAX)
    pauses.charge()
    return await _Long(_Fetch(context, request, asked)).reply()


class _Long:
    """A fetch of very many partitions: it looks for enough to answer, waits for it, and answers, all of it in slices.

    What lies in a log may change between two slices. So nothing that was found by looking is answered: it is read again,
    and copied at once. Each partition ends the wait from when it was looked at.
    """

    __slots__ = ("_again", "_fetch", "_turn", "_wait", "_wanted")

    def __init__(self, fetch: _Fetch) -> None:
        self._fetch = fetch
        self._wanted = list(fetch.wanted)
        self._again = 0
        """How many of them were looked at: they say nothing more of their follower."""
        self._wait: Wait | None = None
        self._turn: Turn | None = None

    async def reply(self) -> Reply:
        """Answer when there is enough, or it has waited long enough, and there is room."""
        fetch, services = self._fetch, self._fetch.context.services
        try:
            if fetch.limits.max_wait_ms > 0 and fetch.limits.min_bytes > 0:
                await self._until_enough()
            await self._until_room()
            if fetch.is_metered and (throttled := fetch.throttled(await self._size())) is not None:
                return throttled
            if fetch.limits.replica_id < 0 and not services.lease.is_sure:
                return await reply_of(services.confirmation.before(self._answer))
            return await self._answer()
        finally:
            if self._wait is not None:
                services.purgatory.give_up(self._wait)
            if self._turn is not None:
                services.answer_memory.give_up(self._turn)

    async def _until_enough(self) -> None:
        """Look at all partitions, and wait for what they do not give; return as soon as there is reason to answer."""
        fetch, services = self._fetch, self._fetch.context.services
        limits = fetch.limits
        is_follower = limits.replica_id >= 0
        ended = services.loop.create_future()
        deadline_s = limits.asked_s + limits.max_wait_ms / 1000
        self._wait = wait = Wait(deadline_s, lambda reached: _set(ended), missing_bytes=limits.min_bytes)
        add = services.purgatory.add_follower_fetch if is_follower else services.purgatory.add_fetch
        add(wait, ())
        if fetch.may_park and fetch.session is not None:
            fetch.session.waiting = wait
        reading, pauses = await self._reading(), Pauses(fetch.context)
        for start in range(0, len(self._wanted), TOGETHER_MAX):
            if wait.done:
                break
            plans = reading.read(self._wanted[start : start + TOGETHER_MAX])
            self._again = start + len(plans)
            if wait.grew(sum(plan.size for plan in plans)) or any(plan.is_urgent for plan in plans):
                break
            self._listen(wait, fetch.awake(plans), is_follower=is_follower)
            await pauses.step(len(plans))
        else:
            pauses.charge()
            await ended
            self._wanted = list(fetch.wanted)
            self._again = len(self._wanted)
            return
        pauses.charge()
        self._leave_parked_out()

    def _listen(self, wait: Wait, plans: list[FetchPlan], *, is_follower: bool) -> None:
        purgatory = self._fetch.context.services.purgatory
        held = [each for each in plans if each.partition is not None]
        purgatory.list_fetch(
            wait, [each.partition.key for each in held if each.partition is not None], is_follower=is_follower
        )
        for each in held:
            if is_follower and each.is_watermark_news and each.partition is not None:
                purgatory.tell_followers(each.partition.key)

    def _leave_parked_out(self) -> None:
        """Look no more at what a follower has all of, of what was looked at."""
        session = self._fetch.session
        if self._fetch.may_park and session is not None:
            looked = [each for each in self._wanted[: self._again] if each[0] in session.awake]
            self._wanted[: self._again] = looked
            self._again = len(looked)

    async def _until_room(self) -> None:
        services, is_follower = self._fetch.context.services, self._fetch.limits.replica_id >= 0
        memory = services.answer_memory
        if memory.must_wait(len(self._wanted) * PART_BYTES, is_follower=is_follower):
            there = services.loop.create_future()
            self._turn = memory.wait(lambda: _set(there), is_follower=is_follower)
            await there

    async def _reading(self) -> FetchReading:
        """Begin to read, all that is wanted."""
        fetch = self._fetch
        if fetch.limits.replica_id >= 0:
            note_follower(fetch.context, fetch.limits, fetch.limits.replica_epoch)
        reading = FetchReading(fetch.context, fetch.limits)
        if reading.asks:
            pauses = Pauses(fetch.context)
            for start in range(0, len(self._wanted), TOGETHER_MAX):
                reading.count(self._wanted[start : start + TOGETHER_MAX])
                await pauses.step(TOGETHER_MAX)
            pauses.charge()
        return reading

    async def _size(self) -> int:
        """Return how many bytes of records there are for the answer."""
        reading, pauses, size = await self._reading(), Pauses(self._fetch.context), 0
        for start in range(0, len(self._wanted), TOGETHER_MAX):
            size += sum(plan.size for plan in reading.read(self._wanted[start : start + TOGETHER_MAX]))
            await pauses.step(TOGETHER_MAX)
        pauses.charge()
        return size

    async def _answer(self) -> Reply:
        """Read anew, since something may have come meanwhile, and answer."""
        fetch = self._fetch
        answer = FetchAnswer(fetch.context, is_follower=fetch.limits.replica_id >= 0)
        reading, pauses = await self._reading(), Pauses(fetch.context)
        start = 0
        while start < len(self._wanted):
            is_again = start < self._again
            end = min(start + TOGETHER_MAX, self._again if is_again else len(self._wanted))
            fetch.limits.is_again = is_again
            answer.add(fetch.shown(reading.read(self._wanted[start:end])))
            await pauses.step(end - start)
            start = end
        pauses.charge()
        return await answer.encoded_in_slices(fetch.answered())


def _set(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _answer_in_turn(fetch: _Fetch) -> Deferred[Answer]:
    later = _Later(fetch)
    later.in_turn()
    return later.deferred


def _answer_later(fetch: _Fetch, plans: list[FetchPlan], *, missing: int) -> Deferred[Answer]:
    services = fetch.context.services
    later = _Later(fetch)
    wait = later.until(services.loop.time() + fetch.limits.max_wait_ms / 1000, missing=missing)
    plans = fetch.awake(plans)
    keys = tuple(each.partition.key for each in plans if each.partition is not None)
    if fetch.may_park and fetch.session is not None:
        fetch.session.waiting = wait
    if fetch.limits.replica_id < 0:
        services.purgatory.add_fetch(wait, keys)
    else:
        services.purgatory.add_follower_fetch(wait, keys)
        for each in plans:
            if each.partition is not None and each.is_watermark_news:
                services.purgatory.tell_followers(each.partition.key)
    return later.deferred


def _asked_for(request: Fetch, *, by_id: bool) -> list[tuple[SessionKey, FetchedPartition]]:
    asked: list[tuple[SessionKey, FetchedPartition]] = []
    for topic in request.topics:
        asked += _asked_of(topic.topic_id if by_id else topic.topic, topic.partitions)
    return asked


def _asked_of(name: bytes | str, partitions: Sequence[FetchPartition]) -> list[tuple[SessionKey, FetchedPartition]]:
    asked = []
    for each in partitions:
        wanted = FetchedPartition(
            fetch_offset=each.fetch_offset,
            max_bytes=each.partition_max_bytes,
            current_leader_epoch=each.current_leader_epoch,
            last_fetched_epoch=each.last_fetched_epoch,
            log_start_offset=each.log_start_offset,
            high_watermark=-1 if each.high_watermark == HIGH_WATERMARK_UNKNOWN else each.high_watermark,
        )
        asked.append((SessionKey(name, each.partition), wanted))
    return asked


def _forgotten(request: Fetch, *, by_id: bool) -> list[SessionKey]:
    return [
        SessionKey(topic.topic_id if by_id else topic.topic, partition)
        for topic in request.forgotten_topics_data
        for partition in topic.partitions
    ]


def refuse(request: Fetch, error: KafkaError) -> Message:
    """Say that the request as a whole failed, and of each partition while topics are asked for by name.

    Those are the versions of clients that may know no error of the whole.
    """
    from ottla.wire.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData

    code = int(error.code)
    return FetchResponse(
        error_code=code,
        responses=[
            FetchableTopicResponse(
                topic=topic.topic,
                partitions=[
                    PartitionData(partition_index=each.partition, error_code=code, high_watermark=-1, records=b"")
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
            if topic.topic
        ],
    )


HANDLER = Handler(
    Fetch,
    api_key=1,
    versions=(4, 18),
    needs=Needs(Operation.READ, Resource.TOPIC),
    handle=fetch,
    read=read_fetch_request,
    error_response=refuse,
    quick=QuickFetch,
)
