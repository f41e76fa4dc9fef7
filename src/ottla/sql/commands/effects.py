"""What a command has done outside of the fold."""

from __future__ import annotations

from dataclasses import dataclass

from ottla.sql.commands.state import PersistentQuery


@dataclass(frozen=True, slots=True)
class BeginQuery:
    """A query begins; `replaces` where another definition of it runs, which ends first and whose state stays."""

    query: PersistentQuery
    replaces: bool = False


@dataclass(frozen=True, slots=True)
class EndQuery:
    """A query ends for good: its internal topics and its group go with it."""

    query: PersistentQuery


@dataclass(frozen=True, slots=True)
class PauseQuery:
    """A query stops where it is."""

    id: str


@dataclass(frozen=True, slots=True)
class ResumeQuery:
    """A query that was paused goes on."""

    id: str


@dataclass(frozen=True, slots=True)
class DeleteTopic:
    """A topic is deleted: DROP … DELETE TOPIC."""

    topic: str


Effect = BeginQuery | EndQuery | PauseQuery | ResumeQuery | DeleteTopic
