"""Questions for Connect's classes, made from a seed: the same to the oracle's JVM and to Ottla."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

Json = Any

PIECES = [
    *(
        "1",
        "-7",
        "127",
        "128",
        "32768",
        "2147483648",
        "9223372036854775808",
        "1.5",
        "1e3",
        "1.0",
        "0.1",
        "-0.0",
        "1e40",
    ),
    *("1e400", "007", "+5", "true", "false", "null", "TRUE", "a", "b c", "é", "x:y", '"q"', '"a b"', '"2020-01-02"'),
    *("2020-01-02", "2020-01-02T03:04:05.678Z", "12:34:56.789Z", "12:34:56", "[", "]", "{", "}", ",", ":", " ", "\\"),
    *("\\:", "NaN", "-", "+", ".5", "5.", "2020-13-45", "1234567890", "9999999999999999999", "[1,2]", '{"a":1}', "[]"),
]


def parses(random: random.Random, count: int) -> Iterator[Json]:
    """Texts for the value parser: well formed, nearly so, and not at all."""
    for _ in range(count):
        shape = random.randrange(5)
        if shape == 0:
            text = random.choice(PIECES)
        elif shape == 1:
            text = "".join(random.choice(PIECES) for _ in range(random.randrange(1, 6)))
        else:
            text = written(random, 0)
        yield {"op": "parse", "text": text}


def written(random: random.Random, depth: int) -> str:
    """Return a list, map or scalar in Connect's text form."""
    kind = random.randrange(4 if depth < 3 else 2)
    space = random.choice(["", "", " "])
    if kind < 2:
        return space + random.choice(PIECES[:26]) + space
    alike = random.choice([None, random.choice(PIECES[:13])])
    items = [alike or written(random, depth + 1) for _ in range(random.randrange(4))]
    if kind == 2:
        return "[" + ",".join(items) + "]"
    keys = [random.choice([f'"k{place}"', str(place), f'"2020-01-0{place + 1}"']) for place in range(len(items))]
    return "{" + ",".join(f"{key}{space}:{item}" for key, item in zip(keys, items, strict=True)) + "}"


FAMILIES = {
    "parses": (parses, 400),
}
"""Family -> its questions, and how many of them are kept as facts."""
