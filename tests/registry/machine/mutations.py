"""Faults that the registry's decisions had or could have, to be put back: the machine finds each of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

from ottla.registry.core import Decision, Record, State, StoredSchema, Wanted, deletion, registration, settings
from ottla.registry.core.ends import ended
from ottla.registry.core.records import ContextMade, IdMark, IdRetired, SchemaRemoved, SubjectDeleted
from tests.registry.machine import run
from tests.registry.machine.run import checked

__all__ = ["MUTATIONS", "SEEDS_MAX", "Mutation"]

SEEDS_MAX = 4000
"""So many runs are enough to find each."""
Put = tuple[Any, str, Any]


@dataclass(frozen=True)
class Mutation:
    """A fault, as what stands in whose place, and a seed that has found it."""

    name: str
    puts: Callable[[], list[Put]]
    seed: int

    @contextmanager
    def made(self) -> Iterator[None]:
        """Have the fault until the block ends."""
        with ExitStack() as stack:
            for owner, name, new in self.puts():
                stack.enter_context(patch.object(owner, name, new))
            yield

    def found(self) -> tuple[int, str] | None:
        """Return the first seed that finds it, and what that says; None where none does."""
        with self.made():
            for seed in (self.seed, *range(SEEDS_MAX)):
                if (said := checked(seed)) is not None:
                    return seed, said
        return None


def _clears_without_marks() -> list[Put]:
    """IMPORT has soft-deleted versions forgotten by one record, which says nothing of their ids."""
    return [(settings, "ended", lambda _state, _schemas: ())]


def _clears_what_others_refer_to() -> list[Put]:
    return [(settings, "refuse_referenced", lambda *_given, **_named: None)]


def _overwrites() -> list[Put]:
    """IMPORT writes over a version that is there."""

    def imported(_state: State, new: StoredSchema, wanted: Wanted) -> StoredSchema:
        assert wanted.id is not None
        return replace(new, id=wanted.id, version=wanted.version or new.version)

    return [(registration, "_imported", _of_known_ids(imported))]


def _of_known_ids(imported: Callable[[State, StoredSchema, Wanted], StoredSchema]) -> Callable[..., StoredSchema]:
    before = registration._imported

    def made(state: State, new: StoredSchema, wanted: Wanted) -> StoredSchema:
        before(state, new, replace(wanted, version=max(state.versions(new.subject), default=0) + 1))
        return imported(state, new, wanted)

    return made


def _ids_of_the_gone_are_free() -> list[Put]:
    """What an id was, whose last version is gone, nobody remembers: IMPORT may choose it for another schema."""

    def without(
        state: State, schemas: Iterable[StoredSchema], *, new: StoredSchema | None = None
    ) -> tuple[Record, ...]:
        return tuple(each for each in ended(state, schemas, new=new) if not isinstance(each, IdRetired))

    return [(module, "ended", without) for module in (deletion, settings)]


def _ids_are_given_out_again() -> list[Put]:
    """Permanent deletion leaves no mark of the largest id, which compaction then forgets."""

    def without(
        state: State, schemas: Iterable[StoredSchema], *, new: StoredSchema | None = None
    ) -> tuple[Record, ...]:
        return tuple(each for each in ended(state, schemas, new=new) if not isinstance(each, IdRetired | IdMark))

    return [(deletion, "ended", without)]


def _marks_to_the_last_live_one() -> list[Put]:
    """A subject's deletion is told up to its last live version, and takes the place of one that went further."""
    before = deletion.delete_subject

    def delete_subject(state: State, subject: str, *, permanent: bool) -> Decision:
        decision = before(state, subject, permanent=permanent)
        last = state.latest(subject)
        return replace(
            decision,
            records=tuple(
                replace(each, version=last.version) if last is not None and isinstance(each, SubjectDeleted) else each
                for each in decision.records
            ),
        )

    return [(run, "delete_subject", delete_subject)]


def _ends_what_others_refer_to() -> list[Put]:
    """A schema that is registered again ends its old, deleted version, whoever refers to that."""

    def before(state: State, new: StoredSchema) -> list[Record]:
        gone = [
            SchemaRemoved(new.subject, each.version)
            for each in state.versions(new.subject).values()
            if each.deleted and each.content == new.content and each.version != new.version
        ]
        made = [ContextMade(".c")] if new.subject.startswith(":.c:") else []
        return [*made, *gone]

    return [(registration, "_before", before)]


MUTATIONS = (
    Mutation("IMPORT forgets deleted versions without a mark", _clears_without_marks, 163),
    Mutation("IMPORT forgets what others refer to", _clears_what_others_refer_to, 122),
    Mutation("IMPORT writes over a version", _overwrites, 27),
    Mutation("what the ids of the gone were is forgotten", _ids_of_the_gone_are_free, 7),
    Mutation("the largest id is forgotten", _ids_are_given_out_again, 17),
    Mutation("a later deletion takes back an earlier one", _marks_to_the_last_live_one, 1891),
    Mutation("registering again ends what others refer to", _ends_what_others_refer_to, 62),
)
