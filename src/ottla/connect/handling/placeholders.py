"""Values that stand elsewhere: `${provider:path:key}` in configurations, and what of a configuration nobody may see."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from ottla.config import ConfigType
from ottla.connect.config_def import ConfigDef

__all__ = ["Placeholder", "masked", "placeholders", "resolved", "sensitive_keys"]

HIDDEN = "[hidden]"
_VARIABLE = re.compile(r"\$\{([^}]*?):(([^}]*?):)?([^}]*?)\}")
_SECRET = re.compile(
    r"password|passwd|secret|token|credential|private[._-]?key|access[._-]?key|sasl\.jaas\.config|api[._-]?key"
)


class Placeholder(NamedTuple):
    """One `${provider:path:key}`; without a path it is empty."""

    provider: str
    path: str
    key: str


def placeholders(props: Mapping[str, str | None]) -> set[Placeholder]:
    """Return all placeholders of a configuration."""
    return {_placeholder(found) for value in props.values() if value for found in _VARIABLE.finditer(value)}


def _placeholder(found: re.Match[str]) -> Placeholder:
    return Placeholder(found[1], found[3] or "", found[4])


def resolved(props: Mapping[str, str | None], lookup: Callable[[Placeholder], str | None]) -> dict[str, str | None]:
    """Return a configuration with what `lookup` finds in place of the placeholders; what it does not find stays."""

    def put(found: re.Match[str]) -> str:
        value = lookup(_placeholder(found))
        return found[0] if value is None else value

    return {key: None if value is None else _VARIABLE.sub(put, value) for key, value in props.items()}


def sensitive_keys(props: Mapping[str, str | None], definition: ConfigDef | None = None) -> set[str]:
    """Return the keys whose values nobody is shown: passwords by type, and by name where no type is known."""
    typed = {} if definition is None else definition.keys
    found = set()
    for key in props:
        if key in typed:
            if typed[key].type is ConfigType.PASSWORD:
                found.add(key)
        elif _SECRET.search(key.lower()):
            found.add(key)
    return found


def masked(props: Mapping[str, str | None], hidden: Iterable[str]) -> dict[str, str | None]:
    """Return a configuration to show: hidden values are `[hidden]`, but placeholders are no secrets and stay."""
    secret = set(hidden)

    def shown(key: str, value: str | None) -> str | None:
        if key not in secret or not value or _VARIABLE.fullmatch(value):
            return value
        return HIDDEN

    return {key: shown(key, value) for key, value in props.items()}
