"""How Protobuf's names are said: as short as they mean what they are to mean, where they stand."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from ottla.schemas.interface import InvalidSchemaError

__all__ = ["Names", "identifier"]

_CHARS_MAX = 1_000
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def identifier(name: str) -> str:
    """Return a name; raises InvalidSchemaError where it could not stand in a text."""
    if not _IDENTIFIER.fullmatch(name):
        raise InvalidSchemaError(f"{name[:100]!r} is not a name of Protobuf's")
    return name


class Names:
    """The full names of files: which there are, and which may have names inside."""

    def __init__(self, files: Iterable[Any]) -> None:
        self._types: set[str] = set()
        self._outer: set[str] = set()
        self._others: set[str] = set()
        for file in files:
            parts = _joined(file.package, "").split(".")[:-1]
            self._outer |= {".".join(parts[: index + 1]) for index in range(len(parts))}
            self._add(file.package, file)
            for service in file.service:
                self._outer.add(_joined(file.package, service.name))

    def _add(self, scope: str, holder: Any) -> None:
        for enum in holder.enum_type:
            self._types.add(_joined(scope, enum.name))
            self._outer.add(_joined(scope, enum.name))
            self._others |= {_joined(scope, value.name) for value in enum.value}
        self._others |= {_joined(scope, each.name) for each in holder.extension}
        for message in holder.message_type if hasattr(holder, "message_type") else holder.nested_type:
            full = _joined(scope, message.name)
            self._types.add(full)
            self._outer.add(full)
            self._others |= {_joined(full, each.name) for each in (*message.field, *message.oneof_decl)}
            self._add(full, message)

    def said(self, full: str, scope: str, package: str) -> str:
        """Return how a type is said inside a message, a service or a file: never in a way that means another."""
        parts = full.split(".")
        start = len(package.split(".")) if package and full.startswith(package + ".") else 0
        shortest = range(len(parts) - 1, start - 1, -1) if start or not package else [0]
        for index in shortest:
            said = ".".join(parts[index:])
            if self._means(said, scope, only_types=True) == full:
                return said
        return f".{full}"

    def extension_said(self, full: str, scope: str) -> str:
        """Return how an extension is said inside the brackets of an option."""
        return full if self._means(full, scope, only_types=False) == full else f".{full}"

    def _means(self, said: str, scope: str, *, only_types: bool) -> str | None:
        """Return what a name means: what its first part is, in the innermost scope that has such a thing."""
        first, dot, _ = said.partition(".")
        for outer in _scopes(scope):
            found = _joined(outer, first)
            if dot:
                if found in self._outer:
                    full = _joined(outer, said)
                    return full if full in self._types or full in self._others else None
            elif found in self._types or (not only_types and found in self._others):
                return found
        return None


def _scopes(scope: str) -> Iterator[str]:
    while scope:
        yield scope
        scope = scope.rpartition(".")[0]
    yield ""


def _joined(scope: str, name: str) -> str:
    if len(scope) + len(name) > _CHARS_MAX:
        raise InvalidSchemaError(f"A full name has more than {_CHARS_MAX} characters")
    return f"{scope}.{name}" if scope else name
