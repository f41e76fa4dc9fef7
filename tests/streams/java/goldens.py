"""Java's answers as facts: what the claims are tested against where there is no Java.

One file for each group of topologies, a line of JSON for each case: `case` and `answer`, without what no test reads.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.peer import streams
from tests.streams.java.cases import GROUPS, cases

__all__ = ["read", "write"]

_FOLDER = Path(__file__).parent / "goldens"
_RECORDS = 20


def read(group: str) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Return a group's cases and Java's answers."""
    lines = (_FOLDER / f"{group}.jsonl").read_text(encoding="utf-8").split("\n")
    found = [json.loads(line) for line in lines if line]
    return [(each["case"], each["answer"]) for each in found]


def write(*groups: str) -> None:
    """Ask Java and write the files of some groups, or of all."""
    _FOLDER.mkdir(exist_ok=True)
    for group in groups or GROUPS:
        given = cases(group, count=None if group == "operators" else _RECORDS)
        lines = []
        for case, answer in zip(given, streams.answers(given), strict=True):
            kept = {key: answer[key] for key in ("outputs", "dropped", "error") if key in answer}
            kept["outputs"] = {
                topic: _last(rows) if topic.endswith("-changelog") else rows for topic, rows in kept["outputs"].items()
            }
            lines.append(json.dumps({"case": case, "answer": kept}, separators=(",", ":")) + "\n")
        (_FOLDER / f"{group}.jsonl").write_text("".join(lines), encoding="utf-8")


def _last(rows: list[list[Any]]) -> list[list[Any]]:
    """Return only the last record of each key: all that is compared of a changelog."""
    return list({row[0]: row for row in rows}.values())
