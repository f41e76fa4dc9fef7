"""Rows as tables that fit the terminal: columns share its width, and what is longer goes on in the next line."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Any

from ottla.base import plain_text

__all__ = ["Table", "cell", "grid"]

LEAST = 4
"""Characters of the narrowest column."""


def cell(value: Any) -> str:
    """A value as it stands in a table."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name}={cell(each)}" for name, each in value.items()) + "}"
    if isinstance(value, list):
        return f"[{', '.join(map(cell, value))}]"
    return value if isinstance(value, str) else plain_text(value) if isinstance(value, Decimal) else json.dumps(value)


class Table:
    """A table whose rows come one by one, in columns of one width."""

    def __init__(self, names: Sequence[str], width: int, *, column_width: int = 0, wraps: bool = True) -> None:
        """`width` is the terminal's; `column_width` fixes the columns' where it is not 0; what does not wrap is cut."""
        count = max(len(names), 1)
        each = column_width or max(LEAST, (width - 1) // count - 1)
        self._widths = [each] * len(names)
        self._wraps = wraps
        self._names = names

    def head(self) -> str:
        """The names, between lines."""
        return f"{self.line()}\n{self.row(self._names)}\n{self.line()}"

    def line(self) -> str:
        """A line between rows."""
        return "+" + "+".join("-" * width for width in self._widths) + "+"

    def row(self, values: Sequence[Any]) -> str:
        """A row, over as many lines as its longest value takes."""
        return _row([cell(each) for each in values], self._widths, wraps=self._wraps)


def grid(names: Sequence[str], rows: Iterable[Sequence[Any]], width: int) -> str:
    """A whole table: columns are as wide as what is in them, where the terminal has room for that."""
    texts = [[cell(each) for each in row] for row in rows]
    widths = [
        max(len(line) for text in column for line in text.split("\n")) for column in zip(names, *texts, strict=True)
    ]
    widths = _fitted(widths, width - 3 * len(names) + 1)
    lines = [" " + _row(list(names), widths, between=" | ", edge="")]
    lines.append("-" * min(width, sum(widths) + 3 * len(names) - 1))
    lines += [" " + _row(row, widths, between=" | ", edge="").replace("\n", "\n ") for row in texts]
    return "\n".join(line.rstrip() for line in lines)


def _fitted(widths: list[int], room: int) -> list[int]:
    """Widths that fit: the widest give way first."""
    found = list(widths)
    while sum(found) > room and max(found) > LEAST:
        widest = max(found)
        second = max((each for each in found if each < widest), default=LEAST)
        number = found.count(widest)
        too_much = sum(found) - room
        less = min(widest - second, -(-too_much // number)) or 1
        found = [max(LEAST, each - less) if each == widest else each for each in found]
    return found


def _row(
    texts: Sequence[str], widths: Sequence[int], *, between: str = "|", edge: str = "|", wraps: bool = True
) -> str:
    columns = [_pieces(text, width, wraps=wraps) for text, width in zip(texts, widths, strict=True)]
    lines = []
    for number in range(max(map(len, columns), default=1)):
        parts = [
            (column[number] if number < len(column) else "").ljust(width)
            for column, width in zip(columns, widths, strict=True)
        ]
        lines.append(edge + between.join(parts) + edge)
    return "\n".join(lines)


def _pieces(text: str, width: int, *, wraps: bool) -> list[str]:
    if not wraps:
        flat = text.replace("\n", " ")
        return [flat if len(flat) <= width else flat[: max(width - 3, 0)] + "..."[:width]]
    return [line[at : at + width] for line in text.split("\n") for at in range(0, max(len(line), 1), width)]
