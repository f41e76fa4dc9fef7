"""Values that stand elsewhere: `${provider:path:key}` in configurations."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

__all__ = ["Placeholder", "is_placeholder", "placeholders", "resolved"]


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
    found = next(_found(text), None)
    return found is not None and found[:2] == (0, len(text))


def placeholders(props: Mapping[str, str | None]) -> set[Placeholder]:
    """Return all placeholders of a configuration."""
    return {placeholder for value in props.values() if value for _, _, placeholder in _found(value)}


def _found(text: str) -> Iterator[tuple[int, int, Placeholder]]:
    """Return where placeholders begin and end, in time linear in the text: Kafka's expression tries every colon."""
    at = 0
    while (begin := text.find("${", at)) >= 0 and (end := text.find("}", begin)) >= 0:
        at = end + 1
        provider, colon, rest = text[begin + 2 : end].partition(":")
        if colon:
            path, further, key = rest.partition(":")
            yield begin, at, Placeholder(provider, path, key) if further else Placeholder(provider, "", rest)


def resolved(props: Mapping[str, str | None], lookup: Callable[[Placeholder], str | None]) -> dict[str, str | None]:
    """Return a configuration with what `lookup` finds in place of the placeholders; what it does not find stays."""
    return {key: None if value is None else _put(value, lookup) for key, value in props.items()}


def _put(text: str, lookup: Callable[[Placeholder], str | None]) -> str:
    parts, at = [], 0
    for begin, end, placeholder in _found(text):
        value = lookup(placeholder)
        parts += [text[at:begin], text[begin:end] if value is None else value]
        at = end
    return "".join([*parts, text[at:]])
