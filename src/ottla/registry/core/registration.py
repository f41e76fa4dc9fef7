"""Registering schemas and looking them up under a subject."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ottla.registry.core.decision import NO_LEVEL, Decision, Wanted
from ottla.registry.core.ends import ended
from ottla.registry.core.errors import (
    invalid_schema,
    not_permitted,
    schema_not_found,
    store_failed,
    subject_not_found,
)
from ottla.registry.core.names import DEFAULT_CONTEXT, Subject, checked
from ottla.registry.core.records import INT_MAX, ContextMade, Record, SchemaStored, StoredSchema
from ottla.registry.core.settings import IMPORT, config_of, level_of, mode_of, refuse_read_only
from ottla.registry.core.state import State

__all__ = ["compared", "look_up", "register", "registered"]


def registered(state: State, subject: str, wanted: Wanted) -> StoredSchema | None:
    """Return the version of a subject that is this schema already, the newest where there are several."""
    live = [each for each in state.versions(subject).values() if not each.deleted]
    return next((each for each in reversed(live) if _is(each, wanted)), None)


def _is(stored: StoredSchema, wanted: Wanted) -> bool:
    """Return whether a version is what is wanted; where that names no metadata and no rules, any will do."""
    if (stored.schema_type, stored.text, stored.references) != (wanted.schema_type, wanted.text, wanted.references):
        return False
    if wanted.metadata is None and wanted.rule_set is None:
        return True
    return stored.metadata == wanted.metadata and stored.rule_set == wanted.rule_set


def look_up(state: State, subject: str, wanted: Wanted, *, deleted: bool = False) -> StoredSchema:
    """Return the version of a subject that is this schema; raises RegistryError."""
    versions = [each for each in state.versions(subject).values() if deleted or not each.deleted]
    if not versions:
        raise subject_not_found(subject)
    for each in reversed(versions):
        if _is(each, wanted):
            return each
    raise schema_not_found()


def register(state: State, subject: str, wanted: Wanted, *, default_level: str, force: bool = False) -> Decision:
    """Make a schema a version of a subject, where it is none yet. The answer is the version. Raises RegistryError."""
    subject = checked(subject)
    refuse_read_only(state, subject)
    found = registered(state, subject, wanted)
    wanted = _completed(state, subject, wanted)
    found = found or registered(state, subject, wanted)
    if found is not None and wanted.id in (None, found.id):
        return Decision((), found)
    is_import = mode_of(state, subject) == IMPORT
    versions = state.versions(subject)
    following = max(versions, default=0) + 1
    new = StoredSchema(
        subject, following, 0, wanted.text, wanted.schema_type, wanted.references, wanted.metadata, wanted.rule_set
    )
    if is_import:
        new = _imported(state, new, wanted)
        _refuse_beyond(new)
        return Decision((*_before(state, new), SchemaStored(new)), new)
    if wanted.id is not None:
        raise not_permitted(f"Subject {subject} is not in import mode")
    if wanted.version not in (0, following):
        raise invalid_schema("Version is not one more than previous version")
    context = Subject.of(subject).context
    same = state.ids_of(context, new.content)
    new = replace(new, id=same[0] if same else state.max_ids.get(context, 0) + 1)
    _refuse_beyond(new)
    level = NO_LEVEL if force else level_of(state, subject, default_level)
    older = compared(state, subject, new) if level != NO_LEVEL else ()
    return Decision((*_before(state, new), SchemaStored(new)), new, new, older, level)


def _refuse_beyond(new: StoredSchema) -> None:
    """Raise RegistryError where numbers have come to their end: nobody could read such a record."""
    if new.id > INT_MAX:
        raise store_failed(
            f"No ids are left in the context of {new.subject}: {INT_MAX}, the largest one, was given out"
        )
    if new.version > INT_MAX:
        raise store_failed(f"No versions are left of {new.subject}: it has {INT_MAX}, the largest one")


def _imported(state: State, new: StoredSchema, wanted: Wanted) -> StoredSchema:
    """Return a version with the id, and the number, that it was given; raises RegistryError."""
    if wanted.id is None:
        raise not_permitted(f"Subject {new.subject} is not in read-write mode")
    context = Subject.of(new.subject).context
    if any(each.content != new.content for each in state.users(context, wanted.id)):
        raise not_permitted(f"Overwrite new schema with id {wanted.id} is not permitted.")
    if state.retired.get((context, wanted.id), new.content) != new.content:
        raise not_permitted(
            f"Overwrite new schema with id {wanted.id} is not permitted: another schema had this id until it was deleted "
            "for good, and its records may still be read. Choose another id"
        )
    new = replace(new, id=wanted.id, version=wanted.version or new.version)
    there = state.versions(new.subject).get(new.version)
    if there is not None and (there.id, there.content) != (new.id, new.content):
        deleted = ", marked as deleted" if there.deleted else ""
        raise not_permitted(
            f"Version {new.version} of subject {new.subject} is another schema, with id {there.id}{deleted}. Choose another "
            "version, or delete that one for good first"
        )
    return new


def _before(state: State, new: StoredSchema) -> list[Record]:
    """Return what goes before a new version: its context, and the end of deleted versions that were the same schema."""
    context = Subject.of(new.subject).context
    made = [ContextMade(context)] if context != DEFAULT_CONTEXT and context not in state.contexts() else []
    gone = [
        each
        for each in state.versions(new.subject).values()
        if each.deleted
        and each.content == new.content
        and each.version != new.version
        and not state.referrers(new.subject, each.version)  # what another schema refers to stays
    ]
    return [*made, *ended(state, gone, new=new)]


def compared(state: State, subject: str, new: StoredSchema) -> tuple[StoredSchema, ...]:
    """Return the versions that a new one has to fit: all that live, or those of its compatibility group."""
    live = [each for each in state.versions(subject).values() if not each.deleted]
    group = config_of(state, subject).get("compatibilityGroup")
    if not group:
        return tuple(live)
    return tuple(each for each in live if _property(each, str(group)) == _property(new, str(group)))


def _property(schema: StoredSchema, name: str) -> object:
    return ((schema.metadata or {}).get("properties") or {}).get(name)


def _completed(state: State, subject: str, wanted: Wanted) -> Wanted:
    """Return a schema with the metadata and rules that the subject's configuration gives it, or the version before has."""
    config = config_of(state, subject)
    live = [each for each in state.versions(subject).values() if not each.deleted]
    last = live[-1] if live else None
    return replace(
        wanted,
        metadata=_merged(
            config.get("defaultMetadata"),
            wanted.metadata if wanted.metadata is not None or last is None else last.metadata,
            config.get("overrideMetadata"),
        ),
        rule_set=_merged(
            config.get("defaultRuleSet"),
            wanted.rule_set if wanted.rule_set is not None or last is None else last.rule_set,
            config.get("overrideRuleSet"),
        ),
    )


def _merged(*parts: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return objects laid over each other: maps by their keys, rules by their names, and sets together."""
    found: dict[str, Any] | None = None
    for part in parts:
        if part is not None:
            found = {**(found or {})}
            for key, value in part.items():
                found[key] = _laid(found.get(key), value)
    return found


def _laid(below: Any, above: Any) -> Any:
    if isinstance(below, Mapping) and isinstance(above, Mapping):
        return {**below, **above}
    if isinstance(below, list) and isinstance(above, list):
        if all(isinstance(each, Mapping) and "name" in each for each in (*below, *above)):
            return list({each["name"]: each for each in (*below, *above)}.values())
        if all(isinstance(each, str) for each in (*below, *above)):
            return list(dict.fromkeys((*below, *above)))
        return [*below, *(each for each in above if each not in below)]
    return above
