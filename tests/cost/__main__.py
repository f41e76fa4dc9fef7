"""Count what requests cost: `python -m tests.cost --n 256 --all-versions --only METADATA --places`."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.cost import work


def main() -> int:
    """Measure, print what grows or holds the loop, and return 1 where something does."""
    parser = argparse.ArgumentParser(prog="python -m tests.cost", description=__doc__)
    parser.add_argument(
        "--n", type=int, default=64, help="elements of the smaller request; the larger has four times as many"
    )
    parser.add_argument("--all-versions", action="store_true", help="every version, not only the newest")
    parser.add_argument("--only", default="", help="APIs whose name has this in it, as METADATA")
    parser.add_argument("--places", action="store_true", help="show the lines that cost most; slower")
    parser.add_argument(
        "--texts", action="store_true", help="the registry's bodies and schemas, and SQL, in place of APIs"
    )
    parser.add_argument("--report", default="", help="a file for what costs too much, by kind, as JSON")
    parser.add_argument("--all", action="store_true", help="show what is well, too")
    asked = parser.parse_args()
    if asked.places:
        work.watch_places()
    work.install()
    wrong = _texts(asked.n, asked.only) if asked.texts else _apis(asked)
    if asked.report:
        Path(asked.report).write_text(json.dumps(wrong))
    return 1 if wrong else 0


def _texts(n: int, only: str) -> list[tuple[str, str]]:
    from tests.cost.texts import measured_texts  # after `install`: it imports what is counted

    found = measured_texts(n, only)
    wrong = [(name, growth) for name, growth in found if not growth.is_linear]
    for name, growth in wrong:
        print(f"{name}: {growth}")
    print(f"{len(found)} kinds of text, {len(wrong)} of them cost too much")
    return [(name, str(growth)) for name, growth in wrong]


def _apis(asked: argparse.Namespace) -> list[tuple[str, str]]:
    from tests.cost.brokers import measured_apis  # after `install`, too

    with TemporaryDirectory() as folder:
        found = asyncio.run(
            measured_apis(Path(folder), asked.n, all_versions=asked.all_versions, only=asked.only, tell=print)
        )
    wrong = [each for each in found if not (each.growth.is_linear and each.is_bounded)]
    for each in found if asked.all else wrong:
        print(each)
    print(f"{len(found)} kinds of request, {len(wrong)} of them cost too much")
    return [(each.name.partition(" ")[0], str(each)) for each in wrong]


if __name__ == "__main__":
    sys.exit(main())
