"""What a worker does for its group while it leads: it divides the work, and knows who has what."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence

from ottla.client import JoinedMember
from ottla.connect.assignment import (
    CONFIG_MISMATCH,
    Assignment,
    Balance,
    Division,
    GroupProtocol,
    Work,
    WorkerState,
    decode_worker_state,
    divide,
    divide_eagerly,
    encode_assignment,
    reminded,
)
from ottla.connect.storage import ConfigState, TaskId

__all__ = ["Leading"]


class Leading:
    """The leader's memory. It begins empty, and what it held of a generation is gone when the next one begins."""

    def __init__(self, max_delay_ms: int) -> None:
        self._max_delay_ms = max_delay_ms
        self._balance = Balance()
        self._owners: dict[str | TaskId, str] = {}
        self._held: set[str | TaskId] = set()
        self._with_tasks: set[str] = set()
        """The connectors of the tasks among them."""
        self._divided = asyncio.Event()

    def forget_owners(self) -> None:
        """Know nobody's work until the next division."""
        self._owners.clear()
        self._divided.set()

    def is_held(self, of: str | TaskId) -> bool:
        """Return whether a worker had a connector or task when it joined last, or was given it then.

        What a worker is told to give up it still has: it joins again behind the end of it, and then has it no more.
        """
        return of in self._held

    def has_tasks(self, connector: str) -> bool:
        """Return whether any worker has a task of a connector; see `is_held`."""
        return connector in self._with_tasks

    async def divided(self) -> None:
        """Return when work is divided the next time, or this worker joins a group in which another may do that."""
        self._divided.clear()
        await self._divided.wait()

    def owner_url(self, of: str | TaskId) -> str | None:
        """Return where the worker of a connector or task answers, None where this worker does not know."""
        return self._owners.get(of)

    def assignments(
        self,
        protocol: GroupProtocol,
        joiners: Sequence[JoinedMember],
        config: ConfigState,
        *,
        leader: str,
        last_generation: int,
        generation: int,
        now_ms: int,
    ) -> Mapping[str, bytes]:
        """Return every member's assignment, encoded; raises DataError where a member's words cannot be read."""
        states = {each.member_id: decode_worker_state(each.metadata) for each in joiners}
        self._note_held(_held(each) for each in states.values())
        offset = max(state.offset for state in states.values())
        url = states[leader].url
        if config.offset < offset:
            failed = encode_assignment(Assignment(leader, url, offset, error=CONFIG_MISMATCH), protocol)
            return dict.fromkeys(states, failed)
        division = self._divide(
            *(protocol, states, _configured(config)),
            last_generation=last_generation,
            generation=generation,
            now_ms=now_ms,
        )
        self._owners = {}
        for member, work in division.whole.items():
            self._owners.update(dict.fromkeys(work.connectors, states[member].url))
            self._owners.update(dict.fromkeys(work.tasks, states[member].url))
            self._hold(work)
        return {
            member: encode_assignment(_assignment(division, member, leader, url, max(offset, config.offset)), protocol)
            for member in states
        }

    def _note_held(self, works: Iterable[Work]) -> None:
        self._held, self._with_tasks = set(), set()
        for work in works:
            self._hold(work)
        self._divided.set()

    def _hold(self, work: Work) -> None:
        self._held.update(work.connectors)
        self._held.update(work.tasks)
        self._with_tasks.update(task.connector for task in work.tasks)

    def _divide(
        self,
        protocol: GroupProtocol,
        states: Mapping[str, WorkerState],
        configured: Work,
        *,
        last_generation: int,
        generation: int,
        now_ms: int,
    ) -> Division:
        if protocol is GroupProtocol.EAGER:
            return divide_eagerly(configured, states)
        held = {member: _held(states[member]) for member in sorted(states)}
        balance = reminded(self._balance, configured, held, last_generation=last_generation)
        self._balance, division = divide(
            *(balance, configured, held),
            last_generation=last_generation,
            generation=generation,
            now_ms=now_ms,
            max_delay_ms=self._max_delay_ms,
        )
        return division


def _configured(config: ConfigState) -> Work:
    connectors = config.connectors()
    return Work(tuple(connectors), tuple(task for name in connectors for task in config.tasks(name)))


def _held(state: WorkerState) -> Work:
    return Work() if state.assignment is None else Work(state.assignment.connectors, state.assignment.tasks)


def _assignment(division: Division, member: str, leader: str, url: str, offset: int) -> Assignment:
    given, taken = division.assigned.get(member, Work()), division.revoked.get(member, Work())
    return Assignment(
        *(leader, url, offset, given.connectors, given.tasks, taken.connectors, taken.tasks),
        delay_ms=division.delay_ms,
    )
