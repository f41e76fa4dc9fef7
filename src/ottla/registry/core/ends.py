"""The end of versions for good: what is written so that their ids never mean anything else, whatever is compacted."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from ottla.registry.core.errors import reference_exists
from ottla.registry.core.names import Subject
from ottla.registry.core.records import IdMark, IdRetired, Record, SchemaRemoved, StoredSchema
from ottla.registry.core.state import State

__all__ = ["ended", "refuse_referenced"]


def ended(state: State, schemas: Iterable[StoredSchema], *, new: StoredSchema | None = None) -> tuple[Record, ...]:
    """Return the ends of versions, and before them what each id meant that nobody has any more.

    `new` is a version that comes with them, and may go on with an id.
    """
    gone = {(each.subject, each.version): each for each in schemas}
    retired: dict[tuple[str, int], Record] = {}
    for each in gone.values():
        context = Subject.of(each.subject).context
        goes_on = new is not None and (new.id, Subject.of(new.subject).context) == (each.id, context)
        left = [user for user in state.users(context, each.id) if (user.subject, user.version) not in gone]
        if not (left or goes_on):
            retired[context, each.id] = IdRetired(context, each.id, *each.content)
    contexts = sorted({Subject.of(subject).context for subject, _ in gone}) if new is None else []
    marks = [IdMark(each, state.max_ids[each]) for each in contexts]
    return (*marks, *retired.values(), *(SchemaRemoved(*place) for place in gone))


def refuse_referenced(
    state: State, schema: StoredSchema, *, within: Collection[tuple[str, int]], permanent: bool
) -> None:
    """Raise RegistryError where a schema is referred to by others than those that go with it."""
    for each in state.referrers(schema.subject, schema.version):
        if (each.subject, each.version) not in within and (permanent or not each.deleted):
            raise reference_exists(schema.subject, schema.version)
