"""What commands print besides Kafka's own text: one answer in the form that `-o` names.

A command makes an `Answer` of plain values and gives it to `print_answer` with `args.output`; the form `text` is not
known here, since it is Kafka's own and each command prints it itself. Columns come from the same rows as JSON, so a
table never says something else.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

__all__ = ["FORMS", "Answer", "is_colourful", "paint", "print_answer", "print_json", "print_table"]

FORMS = {
    "text": "Kafka's own text (default)",
    "table": "aligned columns",
    "wide": "a table with every column",
    "json": "one JSON document",
    "jsonl": "one JSON document per line",
    "yaml": "one YAML document",
    "name": "names only, one per line",
}
"""What `-o` takes."""

STYLES = {"bold": "1", "red": "31", "green": "32", "yellow": "33", "dim": "2"}


@dataclass(frozen=True)
class Answer:
    """What a command found, for every form but Kafka's own."""

    rows: Sequence[Mapping[str, object]]
    """One per line of a table, and one per line of JSON lines; JSON and YAML print the list of them."""
    columns: Mapping[str, str]
    """The table's heads, each with its key in a row."""
    wide: Mapping[str, str] = field(default_factory=dict)
    """Further columns, for the form `wide`."""
    name: str = ""
    """The key in a row that the form `name` prints, each value once; without it the first column's."""
    document: object = None
    """What JSON and YAML print where it is not the list of rows."""
    items: Sequence[object] | None = None
    """What JSON lines print where it is not the rows."""


def print_answer(form: str, answer: Answer) -> None:
    """Print an answer in one of the `FORMS` other than `text`."""
    document = answer.rows if answer.document is None else answer.document
    match form:
        case "json":
            print_json(document)
        case "jsonl":
            for item in answer.rows if answer.items is None else answer.items:
                print_json(item)
        case "yaml":
            print(_yaml(document), end="")
        case "name":
            key = answer.name or next(iter(answer.columns.values()))
            for name in dict.fromkeys(row[key] for row in answer.rows):
                print(name)
        case "table" | "wide":
            columns = {**answer.columns, **(answer.wide if form == "wide" else {})}
            print_table([*columns], [[row.get(key) for key in columns.values()] for row in answer.rows])
        case _:
            raise AssertionError(f"{form} is printed by the command itself")


def print_json(value: object) -> None:
    """Print one line of compact JSON, as Kafka's tools that have any do."""
    print(json.dumps(value, separators=(",", ":"), ensure_ascii=False))


def _yaml(value: object) -> str:
    import yaml

    plain = json.loads(json.dumps(value))  # so that tuples and enumerations are plain values, as in JSON
    text: str = yaml.safe_dump(plain, sort_keys=False, allow_unicode=True, default_flow_style=False)
    return text


def print_table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print columns under their names, numbers to the right; the names are bold on a terminal."""
    rows = list(rows)
    cells = [[_text(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(head, *cells, strict=True)]
    right = [bool(rows) and all(type(row[index]) is int for row in rows) for index in range(len(head))]
    for number, line in enumerate([list(head), *cells]):
        padded = [
            cell.rjust(width) if is_number else cell.ljust(width)
            for cell, width, is_number in zip(line, widths, right, strict=True)
        ]
        text = "  ".join(padded).rstrip()
        print(paint(text, "bold") if number == 0 else text)


def is_colourful() -> bool:
    """True where standard output is a terminal that shows colours, and NO_COLOR is not set (no-color.org)."""
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb" and sys.stdout.isatty()


def paint(text: str, style: str) -> str:
    """Return the text in one of the `STYLES` where colours are shown, else as it is."""
    return f"\x1b[{STYLES[style]}m{text}\x1b[0m" if is_colourful() else text


def _text(cell: object) -> str:
    if cell is None:
        return "-"
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if isinstance(cell, list | tuple):
        return ",".join(map(str, cell)) or "-"
    if isinstance(cell, dict):
        return ",".join(f"{key}={value}" for key, value in cell.items()) or "-"
    return str(cell)
