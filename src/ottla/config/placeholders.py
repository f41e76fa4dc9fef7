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
    return text.startswith("${") and text.find("}") == len(text) - 1 and ":" in text


def placeholders(props: Mapping[str, str | None]) -> set[Placeholder]:
    """Return all placeholders of a configuration."""
    return {each for value in props.values() if value for _, _, each in _within(value)}


def _within(text: str) -> Iterator[tuple[int, int, Placeholder]]:
    """Return a text's placeholders with where they begin and end, in one pass."""
    end = 0
    while (begin := text.find("${", end)) >= 0 and (last := text.find("}", begin)) >= 0:
        end = last + 1
        provider, *parts = text[begin + 2 : last].split(":", 2)
        if parts:
            yield begin, end, Placeholder(provider, parts[0] if len(parts) > 1 else "", parts[-1])


def resolved(props: Mapping[str, str | None], lookup: Callable[[Placeholder], str | None]) -> dict[str, str | None]:
    """Return a configuration with what `lookup` finds in place of the placeholders; what it does not find stays."""

    def put(text: str) -> str:
        parts, at = [], 0
        for begin, end, placeholder in _within(text):
            value = lookup(placeholder)
            parts += [text[at:begin], text[begin:end] if value is None else value]
            at = end
        return "".join((*parts, text[at:]))

    return {key: None if value is None else put(value) for key, value in props.items()}
