"""`python -m bench.page FILE.json > docs/benchmark.md`: the benchmark's rows as a page, with how they came about.

The page is made whole of the file, of the notes in `FILE.md` beside it, and of the cases that the benchmark has: those
without a row are named. The file of the page as it stands is `bench/results/broker.json`.
"""

from __future__ import annotations

import json
import os
import platform
import sys
from pathlib import Path
from typing import Any

from bench.__main__ import make
from bench.broker import broker_cases
from bench.compaction import compaction_cases
from bench.crowd import crowd_cases
from bench.rows import number

__all__ = ["page"]

INTRODUCTION = """# Ottla beside Apache Kafka

Both brokers on one machine, in turn, in one run, under the same load: `make bench OUT=bench.json` (needs `make peer`
once), then `python -m bench.page bench.json > docs/benchmark.md`; the rows of this page are those of
`bench/results/broker.json`, and what they lack is named below them. A ratio is the median over the rounds of Ottla's
value by Kafka's in the same round; `compiled` has the hot modules as machine code (`make install` with a C compiler),
`pure` runs their source.

- Kafka 4.3.0 has the heap of its own scripts, 1 GiB; Ottla has no configuration. Neither flushes per request.
- Most rows come from a generator that sends pre-encoded requests over plain sockets and checks the answers' error
  codes, in a process of its own, so that the broker is what is measured; it says when it may be the limit itself.
- Processor time is the broker's process with its children. On few processors the load shares them with the broker:
  compare the columns, not the figures with other machines.
- Every batch is checked (lengths, CRC-32C, counts, sequences, header); compiled builds check every record too, pure
  ones where a topic's rules depend on it, as `differences.md` says.
"""


PERF = "`producer-perf` and `consumer-perf` are Kafka's own tools with their defaults."


def table(rows: list[dict[str, Any]], *, others: bool = False) -> list[str]:
    """Return the lines of a table; `others` is a column for how many processors others kept busy meanwhile."""
    more = " others |" if others else ""
    lines = [f"| metric | mode | Ottla | Kafka | ratio | target | met | rounds |{more}"]
    lines.append("|---|---|---:|---:|---:|---:|---|---:|" + ("---:|" if others else ""))
    for row in rows:
        met = {True: "yes", False: "**no**", None: ""}[row["met"]]
        cells = [row["metric"], row["mode"], number(row["ottla"], row["unit"]), number(row["kafka"], row["unit"])]
        cells += [number(row["ratio"]), row["target"] or "", met, str(row["rounds"])]
        cells += [number(row["others"])] if others else []
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def page(rows: list[dict[str, Any]], notes: str | None = None) -> str:
    """Return the page of these rows; without notes it is this machine that they were measured on."""
    if notes is None:
        notes = f"Measured with {os.cpu_count()} processors ({platform.machine()}), Python {platform.python_version()}."
    lines = [INTRODUCTION, notes.strip() + "\n"]
    lines += table(rows)
    names = [row["metric"] for row in rows]
    if any("-perf" in name for name in names):
        lines.append(f"\n{PERF}")
    if absent := [name for name in known_metrics() if name not in names]:
        lines.append("\nNo run of these is kept, which `make bench` measures too: " + "; ".join(absent) + ".")
    return "\n".join(lines) + "\n"


def known_metrics() -> list[str]:
    """Return the names of the rows that the benchmark makes of its own cases."""
    cases = [case for family in (broker_cases, compaction_cases, crowd_cases) for case in family(make, scale=1.0)]
    return [metric.name for case in cases for metric in case.metrics]


def main(argv: list[str]) -> int:
    """Print the page of a result file."""
    path = Path(argv[0])
    notes = path.with_suffix(".md")
    print(page(json.loads(path.read_text()), notes.read_text() if notes.exists() else None), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
