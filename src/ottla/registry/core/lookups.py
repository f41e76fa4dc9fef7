"""Finding things: versions, ids, subjects and contexts, as they are answered."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar
from uuid import UUID

from ottla.registry.core.decision import Wanted
from ottla.registry.core.errors import (
    invalid_schema,
    invalid_version,
    schema_not_found,
    subject_not_found,
    version_not_found,
)
from ottla.registry.core.names import ALL_CONTEXTS, DEFAULT_CONTEXT, Subject, context_name
from ottla.registry.core.records import INT_MAX, StoredSchema
from ottla.registry.core.state import State
from ottla.schemas import SchemaReference

__all__ = [
    "LATEST",
    "Page",
    "aliased",
    "by_guid",
    "by_id",
    "latest_with_metadata",
    "listed_contexts",
    "listed_schemas",
    "listed_subjects",
    "referenced_texts",
    "referring",
    "stored_alike",
    "using",
    "version_number",
    "version_of",
    "versions_of",
]

LATEST = -1
REFERENCED_CHARS_MAX = 32 << 20
"""Of the texts of all schemas that one refers to, by whatever way."""
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Page:
    """A part of a list."""

    offset: int = 0
    limit: int = -1

    def of(self, found: Sequence[T], most: int | None = None) -> list[T]:
        """Return the part, of at most so many."""
        limits = [each for each in (self.limit, most) if each is not None and each >= 0]
        begin = max(self.offset, 0)
        return list(found[begin : begin + min(limits)] if limits else found[begin:])


def version_number(text: str) -> int:
    """Return a version that a path names, -1 for the latest; raises RegistryError."""
    if text.lower() == "latest" or text == "-1":
        return LATEST
    if not re.fullmatch(r"[+]?[0-9]{1,10}", text) or not 1 <= int(text) <= INT_MAX:
        raise invalid_version(text)
    return int(text)


def aliased(state: State, subject: str) -> str:
    """Return the subject that one stands for (`alias` in its configuration), itself as a rule."""
    alias = state.configs.get(subject, {}).get("alias")
    return Subject.of(subject).beside(str(alias)) if alias else subject


def _visible(versions: Mapping[int, StoredSchema], *, deleted: bool) -> list[StoredSchema]:
    return [each for each in versions.values() if deleted or not each.deleted]


def versions_of(
    state: State, subject: str, *, deleted: bool = False, deleted_only: bool = False, negative: bool = False
) -> list[int]:
    """Return a subject's versions; `negative` shows deleted ones so. Raises RegistryError where there are none."""
    found = _visible(state.versions(subject), deleted=deleted or deleted_only or negative)
    wanted = [each for each in found if each.deleted or not deleted_only]
    if not wanted:
        raise subject_not_found(subject)
    return [-each.version if negative and each.deleted else each.version for each in wanted]


def version_of(state: State, subject: str, version: int, *, deleted: bool = False) -> StoredSchema:
    """Return a version of a subject; raises RegistryError where there is none."""
    found = _visible(state.versions(subject), deleted=deleted)
    if not found:
        raise subject_not_found(subject)
    if version == LATEST:
        return found[-1]
    one = state.versions(subject).get(version)
    if one is None or (one.deleted and not deleted):
        raise version_not_found(version)
    return one


def stored_alike(state: State, subject: str, wanted: Wanted) -> StoredSchema | None:
    """Return a version of a subject that has this very text, type and references: it is what it would be read as."""
    versions = _visible(state.versions(subject), deleted=False)
    return next(
        (
            each
            for each in versions
            if each.text == wanted.text
            and each.schema_type == wanted.schema_type
            and each.references == wanted.references
        ),
        None,
    )


def latest_with_metadata(
    state: State, subject: str, wanted: Mapping[str, str], *, deleted: bool = False
) -> StoredSchema:
    """Return the latest version whose metadata has these properties."""
    found = _visible(state.versions(subject), deleted=deleted)
    if not found:
        raise subject_not_found(subject)
    for each in reversed(found):
        properties = (each.metadata or {}).get("properties") or {}
        if all(properties.get(key) == value for key, value in wanted.items()):
            return each
    raise schema_not_found()


def by_id(state: State, schema_id: int, hint: str = "") -> StoredSchema:
    """Return a schema that has an id, where the hint's subject is; raises RegistryError.

    A plain name finds the schema in whichever context that very subject uses the id, the default one first, and else in the
    default context. A name with a context finds it there alone.
    """
    for users in _contexts_for(state, schema_id, hint):
        if users:
            return users[0]
    raise schema_not_found(schema_id)


def _contexts_for(state: State, schema_id: int, hint: str) -> Iterable[list[StoredSchema]]:
    subject = Subject.of(hint)
    if subject.context != DEFAULT_CONTEXT:
        users = state.users(subject.context, schema_id)
        yield [each for each in users if subject.is_context or each.subject == str(subject)]
        return
    if subject.name:
        for context in state.contexts():
            name = str(Subject(context, subject.name))
            yield [each for each in state.users(context, schema_id) if each.subject == name]
    yield state.users(DEFAULT_CONTEXT, schema_id)


def using(state: State, schema_id: int, hint: str = "", *, deleted: bool = False) -> list[StoredSchema]:
    """Return the versions that have an id, in the context that the hint leads to; raises RegistryError."""
    context = Subject.of(by_id(state, schema_id, hint).subject).context
    found = [each for each in state.users(context, schema_id) if deleted or not each.deleted]
    if not found:
        raise schema_not_found()
    return sorted(found, key=lambda each: (Subject.of(each.subject), each.version))


def by_guid(state: State, guid: str) -> list[StoredSchema]:
    """Return the versions that are the schema with this GUID; raises RegistryError."""
    try:
        found = state.prints(UUID(guid).bytes)
    except ValueError:
        found = []
    if not found:
        raise schema_not_found(guid)
    return found


def _matches(subject: Subject, prefix: str) -> bool:
    if prefix.startswith(ALL_CONTEXTS):
        return subject.name.startswith(prefix.removeprefix(ALL_CONTEXTS))
    wanted = Subject.of(prefix)
    return subject.context == wanted.context and subject.name.startswith(wanted.name)


def listed_subjects(state: State, prefix: str, *, deleted: bool = False, deleted_only: bool = False) -> list[str]:
    """Return the subjects that begin so and have versions that are to be seen."""
    found = []
    for each in state.subjects():
        versions = state.versions(str(each)).values()
        live = any(not version.deleted for version in versions)
        if _matches(each, prefix) and (not live if deleted_only else live or deleted):
            found.append(str(each))
    return found


def listed_schemas(
    state: State, prefix: str, *, deleted: bool = False, latest_only: bool = False, rule_type: str = ""
) -> list[StoredSchema]:
    """Return the versions of the subjects that begin so."""
    found: list[StoredSchema] = []
    for each in state.subjects():
        if _matches(each, prefix):
            versions = _visible(state.versions(str(each)), deleted=deleted)
            found += versions[-1:] if latest_only else versions
    return [each for each in found if not rule_type or _has_rule(each, rule_type)]


def _has_rule(schema: StoredSchema, rule_type: str) -> bool:
    rules = schema.rule_set or {}
    return any(
        isinstance(rule, Mapping) and rule.get("type") == rule_type
        for kind in ("migrationRules", "domainRules", "encodingRules")
        for rule in rules.get(kind) or ()
    )


def referring(state: State, subject: str, version: int, *, deleted: bool = False) -> list[StoredSchema]:
    """Return the schemas that refer to a version."""
    return [each for each in state.referrers(subject, version) if deleted or not each.deleted]


def referenced_texts(
    state: State, subject: str, references: Iterable[SchemaReference]
) -> tuple[tuple[SchemaReference, ...], dict[tuple[str, int], StoredSchema]]:
    """Return references with their versions found (`-1` is the latest), and all that they lead to, by subject and version.

    The subjects of the result are whole names. Raises RegistryError where something is not there.
    """
    home = Subject.of(subject)
    settled = tuple(_settled(state, home, each) for each in references)
    found: dict[tuple[str, int], StoredSchema] = {}
    chars = 0
    waiting = [(home.beside(each.subject), each.version) for each in settled]
    while waiting:
        place = waiting.pop()
        if place in found:
            continue
        schema = state.versions(place[0]).get(place[1])
        if schema is None:
            raise invalid_schema(_missing(*place))
        found[place] = schema
        chars += len(schema.text)
        if chars > REFERENCED_CHARS_MAX:
            raise invalid_schema(f"The schemas that it refers to have more than {REFERENCED_CHARS_MAX} characters")
        inner = Subject.of(schema.subject)
        waiting += [(inner.beside(each.subject), each.version) for each in schema.references]
    return settled, found


def _settled(state: State, home: Subject, reference: SchemaReference) -> SchemaReference:
    if reference.version != LATEST:
        return reference
    latest = state.latest(home.beside(reference.subject))
    if latest is None:
        raise invalid_schema(_missing(reference.subject, reference.version))
    return SchemaReference(reference.name, reference.subject, latest.version)


def _missing(subject: str, version: int) -> str:
    return f'No schema reference found for subject "{subject}" and version {version}'


def listed_contexts(state: State, prefix: str) -> list[str]:
    """Return the contexts whose names begin so."""
    wanted = context_name(prefix) if prefix else ""
    return [each for each in state.contexts() if each.startswith(wanted)]
