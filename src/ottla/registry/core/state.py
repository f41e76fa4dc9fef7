"""The registry's state: the fold of the records of its topic. Only `apply` changes it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from ottla.registry.core.names import DEFAULT_CONTEXT, Subject
from ottla.registry.core.records import (
    ConfigSet,
    ContextMade,
    IdMark,
    IdRetired,
    ModeSet,
    Noop,
    Record,
    SchemaRemoved,
    SchemaStored,
    StoredSchema,
    SubjectCleared,
    SubjectDeleted,
)

__all__ = ["Place", "State"]

Place = tuple[str, int]
"""A subject's whole name, and a version."""
EMPTY: Mapping[int, StoredSchema] = {}
K = TypeVar("K")
V = TypeVar("V")


class State:
    """All subjects with their versions, configurations, modes and contexts, and the indexes by which they are found.

    An index has what the versions have, no more: whoever is removed there leaves here too. `max_ids` alone only grows.
    """

    def __init__(self) -> None:
        self.configs: dict[str | None, Mapping[str, Any]] = {}
        self.modes: dict[str | None, str] = {}
        self.max_ids: dict[str, int] = {}
        """The largest id that each context has ever given out, as far as the log tells."""
        self.retired: dict[tuple[str, int], tuple[str, bytes]] = {}
        """By context and id: the contents of schemas that are gone for good. An id that is here never means another one."""
        self._subjects: dict[str, dict[int, StoredSchema]] = {}
        self._ids: dict[tuple[str, int], dict[Place, None]] = {}
        self._contents: dict[tuple[str, object], dict[int, int]] = {}
        self._prints: dict[bytes, dict[Place, None]] = {}
        self._referrers: dict[Place, dict[Place, None]] = {}
        self._contexts: set[str] = set()
        self._used: Counter[str] = Counter()
        """How many subjects each context has."""

    # What is there

    def versions(self, subject: str) -> Mapping[int, StoredSchema]:
        """Return a subject's versions, those that are marked as deleted too, in order."""
        return self._subjects.get(subject, EMPTY)

    def latest(self, subject: str) -> StoredSchema | None:
        """Return a subject's latest version that is not marked as deleted."""
        versions = self._subjects.get(subject, {})
        return next((versions[each] for each in reversed(versions) if not versions[each].deleted), None)

    def subjects(self) -> list[Subject]:
        """Return all subjects in their order."""
        return sorted(Subject.of(each) for each in self._subjects)

    def schemas(self) -> Iterator[StoredSchema]:
        """Return all versions of all subjects, in order."""
        for subject in self.subjects():
            yield from self._subjects[str(subject)].values()

    def contexts(self) -> list[str]:
        """Return the contexts that there are, the default one first."""
        return sorted({DEFAULT_CONTEXT, *self._contexts, *self._used})

    def users(self, context: str, schema_id: int) -> list[StoredSchema]:
        """Return the versions that have an id, in the order in which they came."""
        return [self._subjects[subject][version] for subject, version in self._ids.get((context, schema_id), ())]

    def prints(self, fingerprint: bytes) -> list[StoredSchema]:
        """Return the versions in all contexts that have a fingerprint."""
        return [self._subjects[subject][version] for subject, version in self._prints.get(fingerprint, ())]

    def ids_of(self, context: str, content: object) -> list[int]:
        """Return the ids that a schema has in a context, the smallest first."""
        return sorted(self._contents.get((context, content), ()))

    def referrers(self, subject: str, version: int) -> list[StoredSchema]:
        """Return the versions that refer to one."""
        return [self._subjects[name][number] for name, number in self._referrers.get((subject, version), ())]

    # What happens

    def apply(self, record: Record) -> None:
        """Take a record in."""
        match record:
            case SchemaStored(schema):
                self._put(schema)
            case SchemaRemoved(subject, version):
                self._remove(subject, version)
            case ConfigSet(subject, config):
                _set(self.configs, subject, config)
            case ModeSet(subject, mode):
                _set(self.modes, subject, mode)
            case SubjectDeleted(subject, version):
                for each in [each for each in self.versions(subject).values() if each.version <= version]:
                    self._put(replace(each, deleted=True))
            case SubjectCleared(subject):
                self._clear(subject)
            case ContextMade(context, exists):
                (self._contexts.add if exists else self._contexts.discard)(context)
            case IdMark(context, schema_id):
                self.max_ids[context] = max(schema_id, self.max_ids.get(context, 0))
            case IdRetired(context, schema_id, schema_type, fingerprint):
                self.retired[context, schema_id] = schema_type, fingerprint
                self.max_ids[context] = max(schema_id, self.max_ids.get(context, 0))
            case Noop():
                pass

    def _put(self, schema: StoredSchema) -> None:
        context = Subject.of(schema.subject).context
        if schema.subject not in self._subjects:
            self._subjects[schema.subject] = {}
            self._used[context] += 1
        versions = self._subjects[schema.subject]
        if (before := versions.get(schema.version)) is not None:
            self._unindex(before)
        last = next(reversed(versions), 0)
        versions[schema.version] = schema
        if before is None and schema.version < last:
            self._subjects[schema.subject] = dict(sorted(versions.items()))
        self._index(schema)
        self.max_ids[context] = max(schema.id, self.max_ids.get(context, 0))

    def _remove(self, subject: str, version: int) -> None:
        schema = self._subjects.get(subject, {}).pop(version, None)
        if schema is None:
            return
        self._unindex(schema)
        if not self._subjects[subject]:
            del self._subjects[subject]
            context = Subject.of(subject).context
            self._used[context] -= 1
            if not self._used[context]:
                del self._used[context]

    def _index(self, schema: StoredSchema) -> None:
        context, place = Subject.of(schema.subject).context, (schema.subject, schema.version)
        self._ids.setdefault((context, schema.id), {})[place] = None
        self._prints.setdefault(schema.fingerprint, {})[place] = None
        counts = self._contents.setdefault((context, schema.content), defaultdict(int))
        counts[schema.id] += 1
        for each in self._targets(schema):
            self._referrers.setdefault(each, {})[place] = None

    def _unindex(self, schema: StoredSchema) -> None:
        context, place = Subject.of(schema.subject).context, (schema.subject, schema.version)
        _drop(self._ids, (context, schema.id), place)
        _drop(self._prints, schema.fingerprint, place)
        counts = self._contents[context, schema.content]
        counts[schema.id] -= 1
        if not counts[schema.id]:
            _drop(self._contents, (context, schema.content), schema.id)
        for each in self._targets(schema):
            _drop(self._referrers, each, place)

    @staticmethod
    def _targets(schema: StoredSchema) -> list[Place]:
        if not schema.references:
            return []
        home = Subject.of(schema.subject)
        return [(home.beside(each.subject), each.version) for each in schema.references]

    def _clear(self, subject: str | None) -> None:
        """Forget versions that others have cleared; who writes this record here has removed them one by one before it."""
        wanted = None if subject is None else Subject.of(subject)
        for name in list(self._subjects):
            found = Subject.of(name)
            if wanted is None or (found.context == wanted.context and wanted.name in ("", found.name)):
                for each in [each for each in self._subjects[name].values() if each.deleted]:
                    self._remove(name, each.version)
                    if not self.users(found.context, each.id):
                        self.retired[found.context, each.id] = each.content


def _set(values: dict[K, V], key: K, value: V | None) -> None:
    if value is None:
        values.pop(key, None)
    else:
        values[key] = value


def _drop(index: dict[Any, dict[Any, Any]], key: object, member: object) -> None:
    """Take a member from an index, and the entry with its last one."""
    members = index.get(key, {})
    members.pop(member, None)
    if not members:
        index.pop(key, None)
