"""One run: requests by chance, and a judge who keeps his own books of what every id and every version was."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any

from ottla.registry.core import (
    Decision,
    RegistryError,
    State,
    StoredSchema,
    Wanted,
    delete_config,
    delete_context,
    delete_mode,
    delete_subject,
    delete_version,
    register,
    set_config,
    set_mode,
)
from ottla.registry.core.lookups import by_guid, by_id, referenced_texts
from ottla.registry.core.names import Subject
from ottla.schemas import SchemaReference
from tests.registry.machine.book import Book, folded, seen

__all__ = ["WrongError", "checked"]

SUBJECTS = ("a", "b", ":.c:a", ":.c:b")
SCOPES = (None, ":.c:", *SUBJECTS)
TEXTS = ("1", "2", "3", "4")
MODES = ("READWRITE", "READWRITE", "READONLY", "READONLY_OVERRIDE", "IMPORT", "IMPORT", "IMPORT")
METADATA = ({"properties": {"k": "1"}}, {"properties": {"k": "2"}})
STEPS_MAX = 60
Content = tuple[str, bytes]
Place = tuple[str, int]


class WrongError(AssertionError):
    """Something means another thing than it did."""


class Judge:
    """What every id and every version was."""

    def __init__(self) -> None:
        self._ids: dict[tuple[str, int], Content] = {}
        self._versions: dict[Place, StoredSchema] = {}

    def look(self, state: State, done: str) -> None:
        """Compare a state with what was before; raises WrongError. `done` is the request in between."""
        now = {(each.subject, each.version): each for each in state.schemas()}
        for place, each in now.items():
            context = Subject.of(each.subject).context
            if self._ids.setdefault((context, each.id), each.content) != each.content:
                raise WrongError(f"{done}: id {each.id} of {context} is {each.text} now, and was another schema")
            self._compare(place, each, done)
            self._look_up(state, each, done)
        for place, each in self._versions.items():
            if place not in now and not each.deleted:
                raise WrongError(f"{done}: {place} is gone, and was not marked as deleted")
        self._versions = now

    def _compare(self, place: Place, each: StoredSchema, done: str) -> None:
        before = self._versions.get(place)
        if before is None:
            return
        if (before.content, before.id) != (each.content, each.id):
            raise WrongError(
                f"{done}: {place} is {each.text} with id {each.id}, and was {before.text} with {before.id}"
            )
        if before.deleted and not each.deleted and not done.startswith("import"):
            raise WrongError(f"{done}: {place} was marked as deleted, and lives")
        if each.deleted and not before.deleted and not done.startswith("delete"):
            raise WrongError(f"{done}: {place} lived, and is marked as deleted")

    @staticmethod
    def _look_up(state: State, each: StoredSchema, done: str) -> None:
        context = Subject.of(each.subject).context
        found = by_id(state, each.id, "" if context == "." else f":{context}:")
        if found.content != each.content or each not in by_guid(state, each.guid):
            raise WrongError(f"{done}: id {each.id} leads to {found.text}, not to {each.text}")
        home = Subject.of(each.subject)
        for reference in each.references:
            if reference.version not in state.versions(home.beside(reference.subject)):
                raise WrongError(f"{done}: {each.subject} {each.version} refers to {reference}, which is gone")

    def largest(self, context: str) -> int:
        """Return the largest id that a context has ever had."""
        return max((number for where, number in self._ids if where == context), default=0)


class Run:
    """A run under way."""

    def __init__(self, seed: int) -> None:
        self.rng, self.book, self.judge = random.Random(seed), Book(), Judge()
        self.done: list[str] = []

    def _wanted(self, subject: str) -> Wanted:
        rng = self.rng
        references: tuple[SchemaReference, ...] = ()
        others = [each for each in self.book.state.schemas() if Subject.of(each.subject) != Subject.of(subject)]
        if others and rng.random() < 0.2:
            one = rng.choice(others)
            references = (SchemaReference("r", one.subject, one.version),)
        wanted = Wanted(
            rng.choice(TEXTS),
            references=references,
            metadata=rng.choice(METADATA) if rng.random() < 0.2 else None,
        )
        referenced_texts(self.book.state, subject, references)
        return wanted

    def _registered(self) -> None:
        subject = self.rng.choice(SUBJECTS)
        wanted = self._wanted(subject)
        largest, before = self.judge.largest(Subject.of(subject).context), folded(self.book.log)
        found = self._do(f"register {subject} {wanted.text}", register, subject, wanted, default_level="NONE")
        is_new = found is not None and not before.ids_of(Subject.of(subject).context, found.content)
        if is_new and found.id <= largest:
            raise WrongError(f"{self.done[-1]}: id {found.id} is given out, and {largest} was before")

    def _imported(self) -> None:
        rng, subject = self.rng, self.rng.choice(SUBJECTS)
        wanted = self._wanted(subject)
        chosen = Wanted(
            wanted.text,
            references=wanted.references,
            metadata=wanted.metadata,
            id=rng.randint(1, 6),
            version=rng.choice((0, 0, 1, 2, 3)),
        )
        said = f"import {subject} {chosen.text} as id {chosen.id}, version {chosen.version}"
        self._do(said, register, subject, chosen, default_level="NONE")

    def _deleted(self) -> None:
        rng, subject, permanent = self.rng, self.rng.choice(SUBJECTS), self.rng.random() < 0.4
        word = "delete for good" if permanent else "delete"
        if rng.random() < 0.5:
            self._do(f"{word} {subject}", delete_subject, subject, permanent=permanent)
            return
        number = rng.choice((-1, 1, 2, 3))
        self._do(f"{word} {subject} {number}", delete_version, subject, number, permanent=permanent)

    def _set(self) -> None:
        rng, scope = self.rng, self.rng.choice(SCOPES)
        what = rng.random()
        if what < 0.6:
            mode, force = rng.choice(MODES), rng.random() < 0.3
            self._do(f"mode of {scope}: {mode} {force}", set_mode, scope, mode, is_mutable=True, force=force)
        elif what < 0.8:
            recursive = rng.random() < 0.3
            self._do(f"no mode of {scope}", delete_mode, scope, is_mutable=True, recursive=recursive)
        elif what < 0.9:
            config = {"defaultMetadata": rng.choice((*METADATA, None))}
            self._do(f"config of {scope}: {config}", set_config, scope, config)
        elif what < 0.95:
            self._do(f"no config of {scope}", delete_config, scope, "NONE")
        else:
            self._do("delete context .c", delete_context, ".c")

    def _do(self, said: str, decide: Callable[..., Decision], *given: Any, **named: Any) -> Any:
        """Ask; returns the answer, None where it was refused, and has the judge look."""
        self.done.append(said)
        try:
            decision = decide(self.book.state, *given, **named)
        except RegistryError:
            return None
        answer = self.book.do(decision)
        self.judge.look(self.book.state, said)
        return answer

    def _read_anew(self) -> None:
        if self.rng.random() < 0.7:
            self.book.compact(self.rng)
        self._refuse_other(seen(self.book.state), seen(folded(self.book.log)))
        self.book.restart()
        self.judge.look(self.book.state, "restart")

    def _refuse_other(self, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
        for name, found in before.items():
            if now[name] != found:
                raise WrongError(f"restart: {name} are {now[name]}, and were {found}")

    def step(self) -> None:
        """Do one thing; raises WrongError."""
        actions = (self._registered, self._imported, self._deleted, self._set, self._read_anew)
        (action,) = self.rng.choices(actions, (5, 5, 6, 3, 1))
        try:
            action()
        except RegistryError:
            return  # a reference that is not there


def checked(seed: int) -> str | None:
    """Run by a seed; returns what is wrong, with the last requests, and None where nothing is."""
    run = Run(seed)
    try:
        for _ in range(run.rng.randint(10, STEPS_MAX)):
            run.step()
        run._read_anew()
    except WrongError as error:
        return f"{error}; behind {run.done[-8:]}"
    return None
