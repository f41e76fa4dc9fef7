"""The chain of a connector's transformations, each with the predicate that says which records it is for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ottla.base import ConfigError
from ottla.connect.config_def import ConfigDef
from ottla.connect.errors import config_error
from ottla.connect.validators import invalid

__all__ = ["Stage", "apply_chain", "chain_of"]


class _Transformation(Protocol):
    config_def: ConfigDef

    def configure(self, props: Mapping[str, Any]) -> None: ...

    def apply(self, record: Any) -> Any: ...


class _Predicate(Protocol):
    def configure(self, props: Mapping[str, Any]) -> None: ...

    def test(self, record: Any) -> bool: ...


@dataclass(frozen=True, slots=True)
class Stage:
    """One transformation under its alias; for the records that the predicate holds for, or does not where negated."""

    alias: str
    transformation: _Transformation
    predicate: _Predicate | None = None
    negate: bool = False

    def apply(self, record: Any) -> Any:
        """Return the record as this stage leaves it, None where it drops it."""
        if self.predicate is not None and self.predicate.test(record) is self.negate:
            return record
        return self.transformation.apply(record)


def apply_chain(stages: Sequence[Stage], record: Any) -> Any:
    """Return the record behind all stages, None where one dropped it; raises what a transformation raises."""
    for stage in stages:
        record = stage.apply(record)
        if record is None:
            return None
    return record


def _below(props: Mapping[str, str | None], prefix: str) -> dict[str, str | None]:
    return {key[len(prefix) :]: value for key, value in props.items() if key.startswith(prefix)}


def chain_of(
    props: Mapping[str, str | None],
    transformation_class: Callable[[str], Any],
    predicate_class: Callable[[str], Any],
) -> list[Stage]:
    """Return a connector's stages; the functions find an installed class by name, None for one that is not.

    Raises ConfigError for an alias without a type, a class that is not installed, a `negate` without a predicate, a
    predicate that nobody defined, and what the transformations refuse.
    """
    aliases = _aliases(props, "transforms")
    known = _aliases(props, "predicates")
    return [_stage(props, alias, known, transformation_class, predicate_class) for alias in aliases]


def _aliases(props: Mapping[str, str | None], name: str) -> list[str]:
    found = [each.strip() for each in (props.get(name) or "").split(",") if each.strip()]
    if len(set(found)) < len(found):
        raise invalid(name, found, "Duplicate alias provided.")
    return found


def _stage(
    props: Mapping[str, str | None],
    alias: str,
    predicates: Sequence[str],
    transformation_class: Callable[[str], Any],
    predicate_class: Callable[[str], Any],
) -> Stage:
    prefix = f"transforms.{alias}."
    settings = _below(props, prefix)
    made = _made(prefix, settings, "Transformation", transformation_class)
    settings.pop("type"), settings.pop("plugin.version", None)
    predicate_alias, negate = settings.pop("predicate", None), settings.pop("negate", None)
    if negate is not None and predicate_alias is None:
        raise config_error(
            f"Config '{prefix}negate' was provided but there is no config '{prefix}predicate' defining a predicate to be "
            "negated."
        )
    made.configure(settings)
    if predicate_alias is None:
        return Stage(alias, made)
    below = f"predicates.{predicate_alias}."
    if predicate_alias not in predicates:
        raise ConfigError(f"{prefix}predicate", predicate_alias, "one of the aliases in `predicates`")
    predicate_settings = _below(props, below)
    predicate = _made(below, predicate_settings, "Predicate", predicate_class)
    predicate_settings.pop("type"), predicate_settings.pop("plugin.version", None)
    predicate.configure(predicate_settings)
    return Stage(alias, made, predicate, (negate or "").lower() == "true")


def _made(prefix: str, settings: Mapping[str, str | None], kind: str, find: Callable[[str], Any]) -> Any:
    name = settings.get("type")
    if name is None:
        raise invalid(f"{prefix}type", None, f"Not a {kind}")
    found = find(name)
    if found is None:
        raise invalid(f"{prefix}type", name, f"Class {name} could not be found.")
    return found()
