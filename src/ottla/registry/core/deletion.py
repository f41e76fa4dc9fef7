"""Deleting: softly first, so that ids still lead to schemas, then for good; nothing that others refer to."""

from __future__ import annotations

from dataclasses import replace

from ottla.registry.core.decision import Decision
from ottla.registry.core.ends import ended, refuse_referenced
from ottla.registry.core.errors import (
    context_not_empty,
    subject_not_deleted,
    subject_not_found,
    subject_was_deleted,
    version_not_deleted,
    version_was_deleted,
)
from ottla.registry.core.lookups import LATEST, version_of
from ottla.registry.core.names import DEFAULT_CONTEXT
from ottla.registry.core.records import (
    ConfigSet,
    ContextMade,
    ModeSet,
    Record,
    SchemaStored,
    SubjectDeleted,
)
from ottla.registry.core.settings import refuse_read_only
from ottla.registry.core.state import State

__all__ = ["delete_context", "delete_subject", "delete_version"]


def delete_subject(state: State, subject: str, *, permanent: bool) -> Decision:
    """Delete a subject; the answer is which versions that were. Raises RegistryError."""
    refuse_read_only(state, subject)
    versions = list(state.versions(subject).values())
    if not versions:
        raise subject_not_found(subject)
    live = [each for each in versions if not each.deleted]
    if permanent and live:
        raise subject_not_deleted(subject)
    if not permanent and not live:
        raise subject_was_deleted(subject)
    within = {(subject, each.version) for each in versions}
    for each in versions if permanent else live:
        refuse_referenced(state, each, within=within, permanent=permanent)
    if permanent:
        return Decision(ended(state, versions), [each.version for each in versions])
    # up to the last one of all: such a record takes the place of those before it, whose marks have to stay
    records = (SubjectDeleted(subject, versions[-1].version), *_settings_removed(state, subject))
    return Decision(records, [each.version for each in live])


def delete_version(state: State, subject: str, version: int, *, permanent: bool) -> Decision:
    """Delete a version of a subject; the answer is which. Raises RegistryError."""
    refuse_read_only(state, subject)
    schema = version_of(state, subject, version, deleted=version != LATEST or permanent)
    if schema.deleted and not permanent:
        raise version_was_deleted(subject, schema.version)
    if permanent and not schema.deleted:
        raise version_not_deleted(subject, schema.version)
    refuse_referenced(state, schema, within=(), permanent=permanent)
    if permanent:
        return Decision(ended(state, [schema]), schema.version)
    others = [each for each in state.versions(subject).values() if not each.deleted and each != schema]
    settings = () if others else _settings_removed(state, subject)
    return Decision((SchemaStored(replace(schema, deleted=True)), *settings), schema.version)


def _settings_removed(state: State, subject: str) -> tuple[Record, ...]:
    mode = (ModeSet(subject, None),) if subject in state.modes else ()
    return (*mode, ConfigSet(subject, None)) if subject in state.configs else mode


def delete_context(state: State, context: str) -> Decision:
    """Delete a context without subjects; raises RegistryError."""
    if context not in state.contexts() or context == DEFAULT_CONTEXT:
        raise subject_not_found(f":{context}:")
    if any(each.context == context for each in state.subjects()):
        raise context_not_empty(context)
    whole = f":{context}:"
    return Decision((*_settings_removed(state, whole), ContextMade(context, False)), None)
