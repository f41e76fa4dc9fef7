"""Random inputs of a case, from a seed: late records, equal timestamps, records without key or value, leaps in time."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

__all__ = ["random_inputs"]

_LEAPS = (0, 0, 0, 1, 1, 2, 3, 5, 12)
_VALUES = {
    "long": lambda chance: chance.randint(-2, 9),
    "string": lambda chance: chance.choice(["x", "y", "xy", "z", "yy"]),
    "words": lambda chance: " ".join(chance.choice(["one", "two", "x"]) for _ in range(chance.randint(1, 3))),
    "foreign": lambda chance: f"{chance.choice(['', 'p', 'q', 'q', 'r'])}|{chance.randint(0, 3)}",
}


def random_inputs(
    seed: int,
    topics: dict[str, str],
    *,
    count: int = 40,
    keys: Sequence[str] = ("a", "b", "c"),
    foreign_keys: Sequence[str] = ("p", "q", "r"),
    leap: int = 40,
    headers: bool = False,
    advance: int = 0,
) -> list[dict[str, Any]]:
    """Return `count` records for topics, each with a kind of values; a kind that ends in `!` has none that are missing.

    `leap` is how far time leaps now and then, `advance` the step of the wall clock (0: it stands). A topic whose name begins
    with `f` has foreign keys.
    """
    chance = random.Random(seed)
    now, inputs = 0, []
    for _ in range(count):
        topic = chance.choice(sorted(topics))
        kind, whole = topics[topic].rstrip("!"), topics[topic].endswith("!")
        now += leap if chance.random() < 0.06 else chance.choice(_LEAPS)
        late = chance.randint(1, 25) if chance.random() < 0.2 else 0
        key = chance.choice(foreign_keys if topic.startswith("f") else keys)
        record: dict[str, Any] = {
            "topic": topic,
            "key": None if chance.random() < 0.05 and not whole else key,
            "value": None if chance.random() < 0.12 and not whole else _VALUES[kind](chance),
            "ts": max(0, now - late),
        }
        if headers and chance.random() < 0.4:
            record["headers"] = {"h": str(chance.randint(0, 9))}
        inputs.append(record)
        if advance and chance.random() < 0.3:
            inputs.append({"advance": chance.randint(1, 2 * advance)})
    return inputs
