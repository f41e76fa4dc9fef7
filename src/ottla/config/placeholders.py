"""Values that stand elsewhere: `${provider:path:key}` in configurations."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

__all__ = ["Placeholder", "is_placeholder", "placeholders", "resolved"]

_VARIABLE = re.compile(r"\$\{([^}]*?):(([^}]*?):)?([^}]*?)\}")


class Placeholder(NamedTuple):
    """One `${provider:path:key}`; without a path it is empty."""

    provider: str
    path: str
    key: str

    def __str__(self) -> str:
        """As it stands in a configuration."""
        return f"${{{self.provider}:{self.path}{':' if self.path else ''}{self.key}}}"


def is_placeholder(text: str) -> bool:
    """Return whether a value is one placeholder and nothing else."""
    return _VARIABLE.fullmatch(text) is not None


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
