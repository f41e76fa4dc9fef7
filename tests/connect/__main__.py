"""`python -m tests.connect record [NAME ...]` asks Apache Kafka Connect and writes the facts; `compare NAME SEED COUNT`
asks both and prints what differs."""

from __future__ import annotations

import json
import random
import sys
import traceback
from pathlib import Path
from typing import Any

from tests.connect import cases
from tests.connect.described import settled
from tests.connect.ours import answer
from tests.peer.connect import oracle

FACTS = Path(__file__).with_name("facts")
SHOWN_MAX = 6


def record(names: list[str]) -> None:
    FACTS.mkdir(exist_ok=True)
    with oracle() as ask:
        for name in names or list(cases.FAMILIES):
            family, count = cases.FAMILIES[name]
            asked = list(family(random.Random(43), count))
            lines = [json.dumps([each, ask(each)], ensure_ascii=False) for each in asked]
            (FACTS / f"{name}.json").write_text("[\n" + ",\n".join(lines) + "\n]\n")
            print(f"{name}: {len(lines)} facts")


def first_difference(one: Any, other: Any, path: str = "") -> tuple[str, str, str]:
    """Return where two JSON values differ first, and both there."""
    if isinstance(one, dict) and isinstance(other, dict) and one.keys() == other.keys():
        for key in one:
            if one[key] != other[key]:
                return first_difference(one[key], other[key], f"{path}.{key}")
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for place, (each, its) in enumerate(zip(one, other, strict=True)):
            if each != its:
                return first_difference(each, its, f"{path}[{place}]")
    return path, json.dumps(one)[:500], json.dumps(other)[:500]


def compare(name: str, seed: int, count: int) -> int:
    """Return how many answers differ, and print the first few."""
    differing = 0
    with oracle() as ask:
        for asked in cases.FAMILIES[name][0](random.Random(seed), count):
            theirs = settled(ask(asked))
            try:
                ours = settled(json.loads(json.dumps(answer(asked))))
            except Exception:
                ours = "".join(traceback.format_exc().splitlines(keepends=True)[-3:])
            if ours != theirs:
                differing += 1
                if differing <= SHOWN_MAX:
                    print("ASKED", json.dumps(asked)[:700])
                    print(" JAVA, OURS", *first_difference(theirs, ours), sep="\n  ")
    print(f"{differing} of {count} differ")
    return differing


if __name__ == "__main__":
    if sys.argv[1] == "record":
        record(sys.argv[2:])
    else:
        sys.exit(compare(sys.argv[2], int(sys.argv[3]), int(sys.argv[4])) > 0)
