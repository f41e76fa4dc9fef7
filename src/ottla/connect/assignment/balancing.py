"""How a leader divides connectors and tasks among workers, moving as little as it can (KIP-415), as Kafka's assignor does.

What a worker has lost by going away waits for its return, so long as `max_delay_ms` says; what is on too many workers is
taken away in one round and given out in the next. `Balance` is what the leader remembers from round to round.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, cycle
from typing import TypeVar

from ottla.connect.storage import TaskId

__all__ = ["Balance", "Division", "Work", "divide", "divide_eagerly", "reminded"]

Item = TypeVar("Item", str, TaskId)
_BACKOFF_FIRST_MS, _BACKOFF_FACTOR = 1, 40
"""How long revocations wait when rounds that revoke follow each other: 40 ms, 1.6 s, … up to the longest delay."""


@dataclass(frozen=True, slots=True)
class Work:
    """Connectors and tasks, each once, in some order."""

    connectors: tuple[str, ...] = ()
    tasks: tuple[TaskId, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.connectors or self.tasks)

    def without(self, *others: Work) -> Work:
        """Return this without what the others hold, sorted."""
        gone = {each for other in others for each in other.connectors}
        gone_tasks = {each for other in others for each in other.tasks}
        return Work(tuple(sorted(set(self.connectors) - gone)), tuple(sorted(set(self.tasks) - gone_tasks)))

    def kept(self, *others: Work) -> Work:
        """Return this without what the others hold, in its own order."""
        left = self.without(*others)
        connectors, tasks = set(left.connectors), set(left.tasks)
        return Work(
            tuple(each for each in self.connectors if each in connectors),
            tuple(each for each in self.tasks if each in tasks),
        )

    def common(self, other: Work) -> Work:
        """Return what both hold, in this one's order."""
        connectors, tasks = set(other.connectors), set(other.tasks)
        return Work(
            tuple(each for each in self.connectors if each in connectors),
            tuple(each for each in self.tasks if each in tasks),
        )

    def plus(self, *others: Work) -> Work:
        """Return this and what the others add to it."""
        all_of = (self, *others)
        return Work(
            tuple(dict.fromkeys(chain.from_iterable(each.connectors for each in all_of))),
            tuple(dict.fromkeys(chain.from_iterable(each.tasks for each in all_of))),
        )


@dataclass(frozen=True, slots=True)
class Division:
    """What a round gives to workers and takes from them, and when the next one is due."""

    assigned: Mapping[str, Work]
    """What comes to what each worker has."""

    revoked: Mapping[str, Work]
    whole: Mapping[str, Work]
    """What each worker has when it has obeyed."""

    delay_ms: int = 0


@dataclass(frozen=True, slots=True)
class Balance:
    """What a leader remembers of the rounds before; a new leader begins with nothing."""

    previous: Work = field(default_factory=Work)
    previous_generation: int = -1
    previous_members: frozenset[str] = frozenset()
    revocation: Work = field(default_factory=Work)
    """What the round before has taken from workers."""

    has_revoked: bool = False
    revocations_in_a_row: int = 0
    candidates: tuple[str, ...] = ()
    """Workers without work, which may be those that went away and have come back."""

    scheduled_ms: int = 0
    """When lost work is given to others, 0 for no such plan."""

    delay_ms: int = 0


@dataclass(slots=True)
class _Load:
    worker: str
    connectors: list[str]
    tasks: list[TaskId]

    @property
    def idle(self) -> bool:
        return not self.connectors and not self.tasks

    @property
    def work(self) -> Work:
        return Work(tuple(self.connectors), tuple(self.tasks))

    def remove(self, work: Work) -> None:
        left = self.work.kept(work)
        self.connectors, self.tasks = list(left.connectors), list(left.tasks)


def reminded(balance: Balance, configured: Work, members: Mapping[str, Work], *, last_generation: int) -> Balance:
    """Return what a leader remembers, and beside it what workers still have that is configured no more.

    Kafka's assignor takes from workers what it has given out itself. A new leader remembers nothing: what was deleted while
    the one before went would run on for ever.
    """
    gone = Work().plus(*members.values()).without(configured)
    if not gone:
        return balance
    previous = balance.previous if balance.previous_generation == last_generation else Work()
    return replace(balance, previous=previous.plus(gone), previous_generation=last_generation)


def divide(
    balance: Balance,
    configured: Work,
    members: Mapping[str, Work],
    *,
    last_generation: int,
    generation: int,
    now_ms: int,
    max_delay_ms: int,
) -> tuple[Balance, Division]:
    """Return the round's division, and what to remember; `members` are workers with what each has.

    `last_generation` is the last that this leader has seen completed: where the round before was never heard of, what is
    remembered of it does not count.
    """
    known = balance if balance.previous_generation == last_generation else replace(balance, previous=Work())
    active = Work().plus(*members.values())
    if known.revocation:
        untouched = known.revocation.common(active)
        known = replace(known, previous=active if untouched else known.previous, revocation=Work())
    deleted = known.previous.without(configured)
    lost = known.previous.without(active, deleted)
    created = configured.without(known.previous, active)
    to_revoke = {worker: work.common(deleted) for worker, work in members.items()}
    duplicated = _duplicated(members.values())
    to_revoke = {worker: work.plus(members[worker].common(duplicated)) for worker, work in to_revoke.items()}
    loads = [_Load(worker, list(work.connectors), list(work.tasks)) for worker, work in members.items()]
    _remove(loads, to_revoke)
    known, reassigned = _lost_work(known, lost, loads, now_ms=now_ms, max_delay_ms=max_delay_ms)
    known, surplus = _rebalanced(known, configured, loads, now_ms=now_ms, max_delay_ms=max_delay_ms)
    _remove(loads, surplus)
    to_revoke = {worker: work.plus(surplus.get(worker, Work())) for worker, work in to_revoke.items()}
    _give(loads, created.plus(reassigned))
    whole = {load.worker: load.work for load in loads}
    assigned = {worker: work.kept(members[worker].kept(deleted)) for worker, work in whole.items()}
    revoked = Work().plus(*to_revoke.values())
    remembered = replace(
        known,
        previous=Work().plus(*whole.values()).kept(revoked).plus(lost),
        previous_generation=generation,
        previous_members=frozenset(members),
        revocation=revoked,
    )
    left = {worker: work.kept(to_revoke[worker]) for worker, work in whole.items()}
    return remembered, Division(assigned, to_revoke, left, known.delay_ms)


def _duplicated(held: Iterable[Work]) -> Work:
    connectors: Counter[str] = Counter()
    tasks: Counter[TaskId] = Counter()
    for work in held:
        connectors.update(work.connectors)
        tasks.update(work.tasks)
    return Work(
        tuple(each for each, times in connectors.items() if times > 1),
        tuple(each for each, times in tasks.items() if times > 1),
    )


def _remove(loads: Iterable[_Load], work: Mapping[str, Work]) -> None:
    for load in loads:
        load.remove(work.get(load.worker, Work()))


def _lost_work(
    balance: Balance, lost: Work, loads: Sequence[_Load], *, now_ms: int, max_delay_ms: int
) -> tuple[Balance, Work]:
    """Return what to remember, and the lost work that is given out as if it were new; some may go to `loads` here."""
    calm = replace(balance, candidates=(), scheduled_ms=0, delay_ms=0)
    if not lost and not balance.has_revoked:
        return calm, Work()
    all_here = balance.previous_members <= {load.worker for load in loads}
    if (balance.scheduled_ms <= 0 and all_here) or max_delay_ms == 0:
        return balance, lost  # nobody went: some have not heard what they were to do
    if balance.scheduled_ms > 0 and now_ms >= balance.scheduled_ms:
        by_worker = {load.worker: load for load in loads}
        returned = [by_worker[each] for each in balance.candidates if each in by_worker]
        for load, connector in zip(cycle(returned), lost.connectors, strict=False):
            load.connectors.append(connector)
        for load, task in zip(cycle(returned), lost.tasks, strict=False):
            load.tasks.append(task)
        return replace(calm, has_revoked=False), Work() if returned else lost
    idle = [load.worker for load in loads if load.idle]
    waiting = now_ms < balance.scheduled_ms
    delay = min(balance.scheduled_ms - now_ms, max_delay_ms) if waiting else max_delay_ms
    candidates = tuple(dict.fromkeys((*balance.candidates, *idle)))
    return replace(balance, candidates=candidates, delay_ms=delay, scheduled_ms=now_ms + delay), Work()


def _rebalanced(
    balance: Balance, configured: Work, loads: Sequence[_Load], *, now_ms: int, max_delay_ms: int
) -> tuple[Balance, dict[str, Work]]:
    """Return what to remember, and what workers have too much of; nothing while a delay runs."""
    if balance.delay_ms:
        return replace(balance, has_revoked=False), {}
    surplus = _surplus(configured, loads)
    if not surplus:
        return replace(balance, has_revoked=False, revocations_in_a_row=0) if balance.has_revoked else balance, {}
    if not balance.has_revoked:
        return replace(balance, has_revoked=True), surplus
    times = balance.revocations_in_a_row + 1
    delay = _backoff(times, max_delay_ms)
    balance = replace(balance, revocations_in_a_row=times, delay_ms=delay)
    if delay:
        return replace(balance, scheduled_ms=now_ms + delay), {}
    return balance, surplus


def _backoff(times: int, most: int) -> int:
    if most <= _BACKOFF_FIRST_MS:
        return min(most, _BACKOFF_FIRST_MS)
    power = min(times, math.log(most / _BACKOFF_FIRST_MS) / math.log(_BACKOFF_FACTOR))
    return min(int(_BACKOFF_FIRST_MS * _BACKOFF_FACTOR**power), most)


def _surplus(configured: Work, loads: Sequence[_Load]) -> dict[str, Work]:
    if all(load.idle for load in loads) or not configured:
        return {}
    connectors = _too_much(len(configured.connectors), {load.worker: load.connectors for load in loads})
    tasks = _too_much(len(configured.tasks), {load.worker: load.tasks for load in loads})
    return {
        worker: Work(tuple(connectors.get(worker, ())), tuple(tasks.get(worker, ())))
        for worker in {**connectors, **tasks}
    }


def _too_much(total: int, held: Mapping[str, Sequence[Item]]) -> dict[str, Sequence[Item]]:
    """Return what each worker has beyond its share; the first workers may have one more where it does not divide."""
    least, extra = divmod(total, len(held))
    sizes = Counter(len(each) for each in held.values())
    if sizes[least + 1] == extra and sizes[least] + sizes[least + 1] == len(held):
        return {}
    found: dict[str, Sequence[Item]] = {}
    given = 0
    for worker, items in held.items():
        if len(items) <= least:
            continue
        share = least
        if given < extra:
            given += 1
            if len(items) == least + 1:
                continue
            share += 1
        found[worker] = items[: len(items) - share]
    return found


def _give(loads: list[_Load], work: Work) -> None:
    """Give work to those that have least, round after round."""
    loads.sort(key=lambda load: (len(load.connectors), load.worker))
    _deal([load.connectors for load in loads], work.connectors)
    loads.sort(key=lambda load: (len(load.tasks), load.worker))
    _deal([load.tasks for load in loads], work.tasks)


def _deal(held: Sequence[list[Item]], items: Sequence[Item]) -> None:
    left = iter(items)
    while True:
        lowest = len(held[0])
        up_to = next((index for index, each in enumerate(held) if len(each) > lowest), len(held))
        for each in held[:up_to]:
            item = next(left, None)
            if item is None:
                return
            each.append(item)


def divide_eagerly(configured: Work, members: Iterable[str]) -> Division:
    """Return the division of version 0: everything anew, connectors round the sorted workers, then tasks."""
    given: dict[str, tuple[list[str], list[TaskId]]] = {worker: ([], []) for worker in sorted(members)}
    turn = cycle(given.values())
    for connector in sorted(configured.connectors):
        next(turn)[0].append(connector)
    for task in sorted(configured.tasks):
        next(turn)[1].append(task)
    whole = {worker: Work(tuple(connectors), tuple(tasks)) for worker, (connectors, tasks) in given.items()}
    return Division(whole, {}, whole)
