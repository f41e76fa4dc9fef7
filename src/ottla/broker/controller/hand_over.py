"""Decisions that may take copies away from brokers that serve: taken when those brokers know that they do not lead.

In a cluster that is whole this costs the time in which a broker asks for metadata again, some milliseconds. A broker that
is cut off is waited for until its session is over, and with it the lease by which it answers (`LeaderLease`). What a request
wants of other partitions does not wait for that: it is decided at once, and partitions that wait for the same brokers
wait together.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from ottla.background import awaited
from ottla.base import ErrorCode, KafkaError, NodeId, Offset, Uuid
from ottla.broker.controller.duties import ControllerDuties
from ottla.broker.parts import ControllerParts
from ottla.broker.requests.handler import RequestContext
from ottla.metadata import Image, decide

__all__ = ["Parted", "submit_handing_over", "submit_in_parts"]

T = TypeVar("T")
Key = tuple[Uuid | None, int]
"""A topic's id, None for one that does not exist, and a partition's index."""
Decision = Callable[[Image], decide.Decision[T]]

ROUNDS_MAX = 8
"""How often a decision is put off because somebody else made the broker lead again meanwhile."""


@dataclass(frozen=True, slots=True)
class Parted(Generic[T]):
    """What became of a request about partitions: the answers of its parts, and what is not decided yet."""

    answers: tuple[T, ...]
    waiting: Any | None = None
    """The request for the partitions that wait still; None where there are none."""


@dataclass(frozen=True, slots=True)
class _Step(Generic[T]):
    """One step of a request about partitions: the answer for what could be decided, and who is waited for."""

    answer: T
    hand_over: decide.HandOver
    waiting: tuple[tuple[frozenset[NodeId], Any], ...]
    """The brokers that partitions wait for, and the request for those partitions."""


async def submit_handing_over(
    context: RequestContext[ControllerParts],
    decision: Decision[T],
    *,
    knowing: NodeId | None = None,
    timeout_ms: int | None = None,
) -> T:
    """Submit a decision, in as many steps as it takes; `knowing` is a broker that asks for it, so is not waited for.

    Raises what `Quorum.submit` raises, and REQUEST_TIMED_OUT where a broker that is to go is made to lead again and again.
    """
    quorum, duties = context.services.quorum, context.services.duties
    config = context.services.configuration.broker
    if duties is None:
        return await quorum.submit(decision, timeout_ms=timeout_ms)
    may_go = _Waited(duties)

    def step(image: Image) -> decide.Decision[T | decide.HandOver]:
        return decide.hand_over(image, decision(image), may_go, knowing=knowing, config=config)

    for _ in range(ROUNDS_MAX):
        outcome = await quorum.submit(step, timeout_ms=timeout_ms)
        if not isinstance(outcome, decide.HandOver):
            return outcome
        await duties.until_known({each.broker_id for each in outcome.departures}, outcome.offset)
        may_go.waited_for |= outcome.departures
    raise _again_and_again()


async def submit_in_parts(
    context: RequestContext[ControllerParts],
    request: Any,
    decision: Callable[[Image, Any], decide.Decision[T]],
    *,
    knowing: NodeId | None = None,
    timeout_ms: int | None = None,
    patience_s: float | None = None,
) -> Parted[T]:
    """Submit a request whose `topics` have `partitions` that are decided one by one; see `submit_handing_over`.

    With `patience_s` no broker is waited for longer; then the partitions that wait for it are left in `waiting`, to be asked
    for again. Their brokers' session counts from when the controller was asked first.
    """
    quorum, duties = context.services.quorum, context.services.duties
    config = context.services.configuration.broker
    if duties is None:
        return Parted((await quorum.submit(lambda image: decision(image, request), timeout_ms=timeout_ms),))

    async def taken(part: Any, may_go: _Waited, rounds: int) -> Parted[T]:
        outcome = await quorum.submit(lambda image: step(image, part, may_go), timeout_ms=timeout_ms)
        if not isinstance(outcome, _Step):
            return Parted((outcome,))
        if not rounds:
            raise _again_and_again()
        tasks = [awaited(later(rest, brokers, outcome.hand_over, may_go, rounds)) for brokers, rest in outcome.waiting]
        try:
            found = await asyncio.gather(*tasks)
        finally:
            for each in tasks:
                each.cancel()
        left = [each.waiting for each in found if each.waiting is not None]
        answers = [answer for each in found for answer in each.answers]
        return Parted((outcome.answer, *answers), _joined(left) if left else None)

    async def later(
        rest: Any, brokers: frozenset[NodeId], hand_over: decide.HandOver, may_go: _Waited, rounds: int
    ) -> Parted[T]:
        departures = {each for each in hand_over.departures if each.broker_id in brokers}
        try:
            async with asyncio.timeout(patience_s):
                await duties.until_known(brokers, hand_over.offset)
        except TimeoutError:
            if not all(duties.waited_for(each) for each in departures):
                return Parted((), rest)
        return await taken(rest, may_go.and_for(departures), rounds - 1)

    def step(image: Image, part: Any, may_go: _Waited) -> decide.Decision[T | _Step[T]]:
        whole = decide.hand_over(image, decision(image, part), may_go, knowing=knowing, config=config)
        if not isinstance(whole.response, decide.HandOver):
            return decide.Decision(whole.records, whole.response)
        brokers: dict[Key, set[NodeId]] = {}
        for each in whole.response.departures:
            brokers.setdefault((each.topic_id, each.index), set()).add(each.broker_id)
        now = decision(image, _only(image, part, lambda key: key not in brokers))
        records = (*now.records, *whole.records)
        hand_over = decide.HandOver(whole.response.departures, Offset(image.offset + len(records)))
        groups = dict.fromkeys(frozenset(each) for each in brokers.values())
        waiting = tuple(
            (group, _only(image, part, lambda key, group=group: brokers.get(key) == group))  # type: ignore[misc]
            for group in groups
        )
        return decide.Decision(records, _Step(now.response, hand_over, waiting))

    return await taken(request, _Waited(duties), ROUNDS_MAX)


class _Waited:
    """Says who may go: who knows that another leads, or was waited for."""

    def __init__(self, duties: ControllerDuties, waited_for: Iterable[decide.Departure] = ()) -> None:
        self._duties = duties
        self.waited_for = frozenset(waited_for)

    def __call__(self, departure: decide.Departure, offset: Offset) -> bool:
        return departure in self.waited_for or self._duties.knows(departure.broker_id, offset)

    def and_for(self, departures: Iterable[decide.Departure]) -> _Waited:
        return _Waited(self._duties, self.waited_for.union(departures))


def _only(image: Image, request: Any, wanted: Callable[[Key], bool]) -> Any:
    """Return a request for some of its partitions only."""
    topics = []
    for topic in request.topics:
        topic_id = _topic_id(image, topic)
        partitions = [each for each in topic.partitions if wanted((topic_id, each.partition_index))]
        if partitions:
            topics.append(topic.replace(partitions=partitions))
    return request.replace(topics=topics)


def _joined(parts: list[Any]) -> Any:
    """Return one request for the partitions of several."""
    return parts[0].replace(topics=[topic for part in parts for topic in part.topics])


def _topic_id(image: Image, topic: Any) -> Uuid | None:
    if hasattr(topic, "topic_id"):
        return Uuid(bytes(topic.topic_id))
    found = image.topic(topic.name)
    return None if found is None else found.id


def _again_and_again() -> KafkaError:
    return KafkaError(ErrorCode.REQUEST_TIMED_OUT, "a broker whose copy is to go is made to lead again and again")
