"""What every action is: a plan that says what would change, with a hash, and does it when it is run.

A plan has the differences, what follows from them, what to be careful about, and the command that does the same. Whoever
shows it makes it anew before it is run: where it would say something else by then, the world has moved, and nothing is done.
"""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from ottla.admin.errors import AdminError
from ottla.base import Offset, TopicPartition

if TYPE_CHECKING:
    from ottla.admin.fixes import Fixing
    from ottla.admin.rest import Worker
    from ottla.client import BlockingClient

__all__ = [
    "ActionPlan",
    "AlertRules",
    "Arguments",
    "Difference",
    "Planner",
    "Reach",
    "Replayer",
    "Undo",
    "command",
    "number",
    "offsets_of",
    "pinned",
    "settings",
    "text",
]

DIFFERENCES_MAX = 2000
Arguments = Mapping[str, Any]


class AlertRules(Protocol):
    """Rules by which somebody watches a cluster and tells others; its methods may wait."""

    @property
    def topic(self) -> str:
        """Where rules and silences are kept."""
        ...

    def rule(self, name: str) -> Mapping[str, object] | None:
        """Return a rule in JSON's terms, None where there is none."""
        ...

    def silence(self, name: str) -> int:
        """Return until when (ms) a rule tells nobody; 0 where it does."""
        ...

    def checked(self, given: Mapping[str, object]) -> Mapping[str, object]:
        """Return a rule as it is kept; raises OttlaError for what cannot be one."""
        ...

    def put(self, name: str, given: Mapping[str, object] | None) -> None:
        """Keep a rule, or None in its place; raises OttlaError."""
        ...

    def put_silence(self, name: str, until_ms: int) -> None:
        """Have a rule tell nobody until then; raises OttlaError."""
        ...


class Replayer(Protocol):
    """What writes records of one topic to another, in the background; its methods may wait."""

    def prepared(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return a replay whole: with its id, positions and ends, and what was `counted`. Raises OttlaError."""
        ...

    def begin(self, replay: Mapping[str, Any]) -> None:
        """Begin it; raises OttlaError."""
        ...

    def is_known(self, replay_id: str) -> bool:
        """Return whether there is a replay of this id."""
        ...


@dataclass(frozen=True, slots=True)
class Reach:
    """What actions reach: the cluster's client, Connect's clusters of workers by name, and a schema registry."""

    client: BlockingClient
    workers: Mapping[str, Worker] = field(default_factory=dict)
    registry: Worker | None = None
    server: Worker | None = None
    """A SQL server."""
    applications: Mapping[str, Worker] = field(default_factory=dict)
    """Services and applications of Streams, by name."""
    alerts: AlertRules | None = None
    """The rules of whoever watches the cluster."""
    replays: Replayer | None = None
    fix: Callable[[str], Fixing] | None = None
    """What reads the words of a fix; raises OttlaError."""

    def worker(self, name: str) -> Worker:
        """Return one of Connect's clusters; raises AdminError where there is none of that name."""
        found = self.workers.get(name)
        if found is None:
            known = ", ".join(self.workers) or "none"
            raise AdminError(f"There are no Connect workers called {name}: there are {known}")
        return found

    def schemas(self) -> Worker:
        """Return the schema registry; raises AdminError where there is none."""
        if self.registry is None:
            raise AdminError("No schema registry is known here")
        return self.registry

    def streams(self, name: str) -> Worker:
        """Return a service or application of Streams; raises AdminError where there is none of that name."""
        found = self.applications.get(name)
        if found is None:
            known = ", ".join(self.applications) or "none"
            raise AdminError(f"There is no Streams service called {name}: there are {known}")
        return found

    def watch(self) -> AlertRules:
        """Return the rules of alerts; raises AdminError where nobody watches."""
        if self.alerts is None:
            raise AdminError("No alerts are kept here (ottla.console.alerts.topic)")
        return self.alerts

    def replayer(self) -> Replayer:
        """Return what replays; raises AdminError where nothing does."""
        if self.replays is None:
            raise AdminError("Nothing replays here: a console does")
        return self.replays

    def sql(self) -> Worker:
        """Return the SQL server; raises AdminError where there is none."""
        if self.server is None:
            raise AdminError("No SQL server is known here")
        return self.server


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing that changes; None stands for what is not there."""

    path: str
    before: object
    after: object


@dataclass(frozen=True, slots=True)
class Undo:
    """The action that takes a change back."""

    action: str
    arguments: Mapping[str, object]
    is_secret: bool = False
    """True where the arguments hold what is shown to nobody: they are then kept in memory only."""


@dataclass(frozen=True, slots=True)
class ActionPlan:
    """What an action would do; `run` does it."""

    action: str
    arguments: Mapping[str, object]
    differences: tuple[Difference, ...]
    cli: str
    effects: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    typed: str | None = None
    """What has to be typed before: the name of what is lost for ever. None where the change can be taken back."""
    undo: Undo | None = None
    pinned: Mapping[str, object] | None = None
    """The arguments with what was found by them, where asking again would find something else: ends move on."""
    run: Callable[[Reach], None] = field(repr=False, compare=False, kw_only=True)

    @property
    def hash(self) -> str:
        """What is the same as long as the action would change the same things."""
        said = [self.action, self.typed, [[each.path, each.before, each.after] for each in self.differences]]
        return hashlib.sha256(json.dumps(said, sort_keys=True, default=str).encode()).hexdigest()

    def shown(self) -> dict[str, object]:
        """Return the plan in JSON's terms."""
        return {
            "action": self.action,
            "hash": self.hash,
            "diff": [
                {"path": each.path, "before": each.before, "after": each.after}
                for each in self.differences[:DIFFERENCES_MAX]
            ],
            "left_out": max(0, len(self.differences) - DIFFERENCES_MAX),
            "effects": list(self.effects),
            "warnings": list(self.warnings),
            "cli": self.cli,
            "irreversible": self.typed is not None,
            "typed": self.typed,
            "undo": self.undo is not None,
        }


Planner = Callable[[Reach, Arguments], ActionPlan]


def text(arguments: Arguments, name: str) -> str:
    """Return an argument that is a text; raises AdminError where it is not there."""
    value = arguments.get(name)
    if not isinstance(value, str) or not value:
        raise AdminError(f"{name} is needed: a text")
    return value


def number(arguments: Arguments, name: str) -> int | None:
    """Return an argument that is a whole number, None where it is not there; raises AdminError."""
    value = arguments.get(name)
    if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
        raise AdminError(f"{name} is a whole number, not {value!r}")
    return value


def settings(arguments: Arguments, name: str) -> dict[str, str]:
    """Return an argument that maps names to texts; raises AdminError."""
    value = arguments.get(name) or {}
    if not isinstance(value, Mapping) or not all(isinstance(each, str) for each in (*value, *value.values())):
        raise AdminError(f"{name} maps names of settings to texts")
    return dict(value)


def offsets_of(arguments: Arguments, topic: str) -> dict[TopicPartition, Offset] | None:
    """Return offsets that are given by partition, None where none are."""
    given = arguments.get("offsets")
    if given is None:
        return None
    if not isinstance(given, Mapping) or not given:
        raise AdminError("offsets maps partitions to offsets")
    try:
        return {TopicPartition(topic, int(index)): Offset(int(offset)) for index, offset in given.items()}
    except (TypeError, ValueError):
        raise AdminError("offsets maps partitions to offsets, both whole numbers") from None


def pinned(arguments: Arguments, offsets: Mapping[TopicPartition, Offset]) -> dict[str, object]:
    """Return arguments with the offsets that were found by them."""
    return {**arguments, "offsets": {str(each.partition): int(offset) for each, offset in offsets.items()}}


def command(*words: str) -> str:
    """Return a command line of `ottla`."""
    return shlex.join(("ottla", *words))
