"""Configurations and modes: which hold for a subject, and how they are changed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ottla.registry.core.decision import Decision
from ottla.registry.core.ends import ended, refuse_referenced
from ottla.registry.core.errors import (
    RegistryError,
    invalid_level,
    invalid_mode,
    no_level,
    no_mode,
    not_permitted,
    subject_not_found,
)
from ottla.registry.core.names import DEFAULT_CONTEXT, EVERYTHING, Subject, checked
from ottla.registry.core.records import (
    FLAGS,
    LEVELS,
    OBJECTS,
    ConfigSet,
    ModeSet,
    Record,
    StoredSchema,
    SubjectCleared,
)
from ottla.registry.core.state import State

__all__ = [
    "IMPORT",
    "LEVELS",
    "READ_WRITE",
    "config_answer",
    "config_of",
    "delete_config",
    "delete_mode",
    "level_of",
    "mode_answer",
    "mode_of",
    "refuse_read_only",
    "set_config",
    "set_mode",
]

READ_WRITE, READ_ONLY, READ_ONLY_OVERRIDE, IMPORT = "READWRITE", "READONLY", "READONLY_OVERRIDE", "IMPORT"
MODES = (READ_WRITE, READ_ONLY, READ_ONLY_OVERRIDE, IMPORT)
LEVEL = "compatibilityLevel"
FIELDS = (
    *("alias", "aliasForDeks", "normalize", "validateFields", "validateRules", "validateNewSchemas"),
    *(LEVEL, "compatibilityPolicy", "compatibilityGroup"),
    *("defaultMetadata", "overrideMetadata", "defaultRuleSet", "overrideRuleSet"),
)
"""What a configuration has, in the order of answers."""


def _scopes(subject: str | None) -> list[str | None]:
    """Return where a subject's settings may stand, the nearest first: one of them holds, they are not merged."""
    if subject is None:
        return [None, EVERYTHING]
    context = Subject.of(subject).context
    whole: str | None = None if context == DEFAULT_CONTEXT else f":{context}:"
    return [subject, whole, EVERYTHING]


def config_of(state: State, subject: str | None) -> Mapping[str, Any]:
    """Return the configuration that holds for a subject."""
    return next((state.configs[each] for each in _scopes(subject) if each in state.configs), {})


def level_of(state: State, subject: str, default: str) -> str:
    """Return the compatibility level that holds for a subject."""
    return str(config_of(state, subject).get(LEVEL) or default)


def mode_of(state: State, subject: str | None) -> str:
    """Return the mode that holds for a subject; READONLY_OVERRIDE of everything wins."""
    if READ_ONLY_OVERRIDE in (state.modes.get(None), state.modes.get(EVERYTHING)):
        return READ_ONLY_OVERRIDE
    return next((state.modes[each] for each in _scopes(subject) if each in state.modes), READ_WRITE)


def refuse_read_only(state: State, subject: str | None) -> None:
    """Raise RegistryError where nothing may be written under a subject."""
    if mode_of(state, subject) in (READ_ONLY, READ_ONLY_OVERRIDE):
        named = "Global" if subject is None else f"Subject {subject}"
        raise not_permitted(f"{named} is in read-only mode")


# Configurations


def config_answer(state: State, subject: str | None, default: str, *, falls_back: bool) -> dict[str, Any]:
    """Return a subject's configuration as it is answered; raises RegistryError where it has none of its own."""
    own = state.configs.get(subject)
    if own is None and subject is not None and not falls_back:
        raise no_level(subject)
    return _shown({LEVEL: default, **config_of(state, subject)})


def _shown(config: Mapping[str, Any]) -> dict[str, Any]:
    return {key: config[key] for key in FIELDS if key in config}


def set_config(state: State, subject: str | None, body: Mapping[str, Any]) -> Decision:
    """Change what a body names of a configuration; null removes a field, and what is not named stays."""
    if subject is not None:
        _check_subject(subject)
    refuse_read_only(state, subject)
    given = {(LEVEL if key == "compatibility" else key): value for key, value in body.items()}
    changes = {key: _checked(key, given[key]) for key in FIELDS if key in given}
    kept = {**state.configs.get(subject, {}), **changes}
    config = {key: value for key, value in kept.items() if value is not None} or None
    answer = {("compatibility" if key == LEVEL else key): value for key, value in changes.items() if value is not None}
    return Decision((ConfigSet(subject, config),), answer)


def _checked(key: str, value: Any) -> Any:
    if value is None:
        return None
    if key == LEVEL:
        if not isinstance(value, str) or value.upper() not in LEVELS:
            raise invalid_level()
        return value.upper()
    if key in FLAGS:
        if str(value).lower() not in ("true", "false"):
            raise RegistryError(422, f"{key} must be true or false")
        return str(value).lower() == "true"
    if isinstance(value, Mapping) is not (key in OBJECTS):
        raise RegistryError(422, f"{key} must be {'an object' if key in OBJECTS else 'text'}")
    return dict(value) if key in OBJECTS else str(value)


def _check_subject(subject: str) -> None:
    if not Subject.of(subject).is_context:
        checked(subject)


def delete_config(state: State, subject: str | None, default: str) -> Decision:
    """Remove a configuration; the answer is what it was."""
    refuse_read_only(state, subject)
    own = state.configs.get(subject)
    if own is None and subject is not None:
        raise subject_not_found(subject)
    answer = _shown({LEVEL: default, **(own or {})})
    return Decision(() if own is None else (ConfigSet(subject, None),), answer)


# Modes


def mode_answer(state: State, subject: str | None, *, falls_back: bool) -> dict[str, str]:
    """Return a subject's mode as it is answered; raises RegistryError where it has none of its own."""
    if subject is not None and subject not in state.modes and not falls_back:
        raise no_mode(subject)
    return {"mode": mode_of(state, subject) if falls_back or subject is None else state.modes[subject]}


def set_mode(state: State, subject: str | None, mode: object, *, is_mutable: bool, force: bool) -> Decision:
    """Set a mode; IMPORT needs a place without schemas, as ids will be chosen there."""
    if not isinstance(mode, str) or mode.upper() not in MODES:
        raise invalid_mode()
    if not is_mutable:
        raise not_permitted("Mode changes are not allowed")
    if subject is not None:
        _check_subject(subject)
    mode = mode.upper()
    records: list[Record] = []
    if mode == IMPORT and mode_of(state, subject) != IMPORT and not force:
        versions = list(_below(state, subject))
        if not all(each.deleted for each in versions):
            raise not_permitted("Cannot import since found existing subjects")
        within = {(each.subject, each.version) for each in versions}
        for each in versions:
            refuse_referenced(state, each, within=within, permanent=True)
        records += (*ended(state, versions), SubjectCleared(subject))
    return Decision((*records, ModeSet(subject, mode)), {"mode": mode})


def _below(state: State, subject: str | None) -> Iterable[StoredSchema]:
    """Return all versions below a subject, a context or everything."""
    wanted = None if subject is None else Subject.of(subject)
    for each in state.subjects():
        if wanted is None or (each.context == wanted.context and wanted.name in ("", each.name)):
            yield from state.versions(str(each)).values()


def delete_mode(state: State, subject: str | None, *, is_mutable: bool, recursive: bool) -> Decision:
    """Remove a mode, and with `recursive` those of the subjects below; the answer is what it was."""
    if not is_mutable:
        raise not_permitted("Mode changes are not allowed")
    own = state.modes.get(subject)
    if own is None and subject is not None:
        raise subject_not_found(subject)
    removed = [] if own is None else [subject]
    if recursive and (subject is None or Subject.of(subject).is_context):
        context = DEFAULT_CONTEXT if subject is None else Subject.of(subject).context
        removed += [each for each in state.modes if each is not None and each != subject and _within(each, context)]
    return Decision(tuple(ModeSet(each, None) for each in removed), {"mode": own or READ_WRITE})


def _within(subject: str, context: str) -> bool:
    return Subject.of(subject).context == context
