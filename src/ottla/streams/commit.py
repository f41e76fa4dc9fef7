"""One commit of a host, step by step, as a fold: events in, the next state and what is to be done out.

A host has works of some applications; their positions, results and changes of state are committed together. Exactly once::

    RUNNING → Flush and StoreOffsets, one per application → FLUSHING → OFFSETS → End → ENDING → Done → RUNNING

Results and offsets are parts of one transaction, so they travel together, and its end waits for both. At least once there is
no transaction: offsets follow the results, and `Done` the offsets. Whatever fails on the way, or does not answer, leads
to `GoBack`: what was not committed is given up, and every work begins again with what the cluster says is committed. The
answer to the end of a transaction that is lost is no exception: whether it was carried out is asked, and not assumed. Who
is told that another has taken his place does nothing more (`Leave`): going back would fence the one who came after.

Answers carry the number of the commit that asked; late ones, of a commit that was given up, change nothing. Nothing here
waits, sends or knows the time, so that a simulation can stop it at any place.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from ottla.base import TopicPartition

__all__ = [
    "Commit",
    "CommitEffect",
    "CommitEvent",
    "CommitFailed",
    "Done",
    "Due",
    "End",
    "Ended",
    "Flush",
    "Flushed",
    "GoBack",
    "Leave",
    "OffsetsStored",
    "Phase",
    "Restored",
    "StoreOffsets",
    "WhyFailed",
    "commit_step",
]

Positions = Mapping[str, Mapping[TopicPartition, int]]
"""By application, the offset behind the last record that was processed, of each partition."""


class Phase(StrEnum):
    """Where a host stands."""

    RUNNING = "running"
    FLUSHING = "flushing"
    OFFSETS = "offsets"
    ENDING = "ending"
    BACK = "going back"
    OVER = "over"


class WhyFailed(StrEnum):
    """What a failure says of the host."""

    FENCED = "fenced"
    """Another has taken the transactional id over."""
    STALE = "stale"
    """The group's coordinator does not know the member, or its generation, under which offsets were to be stored."""
    UNKNOWN = "unknown"
    """Anything else: an answer that was lost, a broker that refused, a record that nobody could process."""


@dataclass(frozen=True, slots=True)
class Commit:
    """A host's commits: the one under way, or none."""

    exactly_once: bool
    phase: Phase = Phase.RUNNING
    number: int = 0
    """Of the commit that is under way, or comes next."""
    positions: Positions = field(default_factory=dict)
    waiting: frozenset[str] = frozenset()
    """Applications whose offsets are not stored yet."""


# -- events


@dataclass(frozen=True, slots=True)
class Due:
    """It is time to commit these positions, of whatever has moved."""

    positions: Positions


@dataclass(frozen=True, slots=True)
class Flushed:
    """All results and changes of state up to the positions are acknowledged."""

    number: int


@dataclass(frozen=True, slots=True)
class OffsetsStored:
    """The group's coordinator has taken an application's offsets."""

    number: int
    application: str


@dataclass(frozen=True, slots=True)
class Ended:
    """The transaction's coordinator has committed."""

    number: int


@dataclass(frozen=True, slots=True)
class CommitFailed:
    """A step, or what came before it, has failed or has no answer."""

    number: int
    why: WhyFailed
    application: str | None = None
    """Whose it was, where it is one application's."""


@dataclass(frozen=True, slots=True)
class Restored:
    """The host has gone back: its works stand at what is committed."""


CommitEvent = Due | Flushed | OffsetsStored | Ended | CommitFailed | Restored


# -- effects


@dataclass(frozen=True, slots=True)
class Flush:
    """Take no more records; send what the works have made, and wait until all of it is acknowledged."""

    number: int


@dataclass(frozen=True, slots=True)
class StoreOffsets:
    """Store an application's offsets: in the transaction, where there is one."""

    number: int
    application: str
    positions: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class End:
    """End the transaction: commit."""

    number: int


@dataclass(frozen=True, slots=True)
class Done:
    """The positions are committed."""

    positions: Positions


@dataclass(frozen=True, slots=True)
class GoBack:
    """Give up what is not committed, and begin again with what is; exactly once, take the transactional id anew first."""

    application: str | None = None
    """Whose failure it was, where it is one application's."""


@dataclass(frozen=True, slots=True)
class Leave:
    """Stop, and touch nothing more: another is in this place."""


CommitEffect = Flush | StoreOffsets | End | Done | GoBack | Leave
_Step = tuple[Commit, tuple[CommitEffect, ...]]


def commit_step(state: Commit, event: CommitEvent) -> _Step:
    """Return the state after an event, and what is to be done; an event that comes too late changes nothing."""
    match event:
        case Due(positions):
            return _begin(state, positions)
        case Restored():
            return _restored(state)
        case CommitFailed():
            return _failed(state, event)
        case Flushed(number) if number == state.number and state.phase is Phase.FLUSHING:
            return _flushed(state)
        case OffsetsStored(number, application) if number == state.number and application in state.waiting:
            return _stored(state, application)
        case Ended(number) if number == state.number and state.phase is Phase.ENDING:
            return _done(state)
    return state, ()


def _begin(state: Commit, positions: Positions) -> _Step:
    """Begin a commit, unless one is under way or nothing has moved."""
    moved = {name: found for name, found in positions.items() if found}
    if state.phase is not Phase.RUNNING or not moved:
        return state, ()
    begun = replace(state, phase=Phase.FLUSHING, positions=moved, waiting=frozenset(moved))
    return begun, (Flush(state.number), *(_offsets(begun) if state.exactly_once else ()))


def _offsets(state: Commit) -> tuple[StoreOffsets, ...]:
    return tuple(StoreOffsets(state.number, name, found) for name, found in sorted(state.positions.items()))


def _flushed(state: Commit) -> _Step:
    found = replace(state, phase=Phase.OFFSETS)
    return _end(found) if state.exactly_once else (found, _offsets(found))


def _stored(state: Commit, application: str) -> _Step:
    return _end(replace(state, waiting=state.waiting - {application}))


def _end(state: Commit) -> _Step:
    """End where the results are acknowledged and all offsets stored."""
    if state.waiting or state.phase is not Phase.OFFSETS:
        return state, ()
    return (replace(state, phase=Phase.ENDING), (End(state.number),)) if state.exactly_once else _done(state)


def _done(state: Commit) -> _Step:
    return Commit(state.exactly_once, number=state.number + 1), (Done(state.positions),)


def _failed(state: Commit, event: CommitFailed) -> _Step:
    if event.number != state.number or state.phase in (Phase.BACK, Phase.OVER):
        return state, ()
    if event.why is WhyFailed.FENCED:
        return Commit(state.exactly_once, Phase.OVER, state.number), (Leave(),)
    return Commit(state.exactly_once, Phase.BACK, state.number), (GoBack(event.application),)


def _restored(state: Commit) -> _Step:
    if state.phase is not Phase.BACK:
        return state, ()
    return Commit(state.exactly_once, number=state.number + 1), ()
