"""`python -m bench.page FILE.json > docs/benchmark.md`: the benchmark's rows as a page, with how they came about."""

from __future__ import annotations

import json
import os
import platform
import sys
from pathlib import Path
from typing import Any

from bench.rows import number

__all__ = ["page"]

INTRODUCTION = """# Ottla beside Apache Kafka

Both brokers on one machine, in turn, in one run, under the same load: `make bench OUT=bench.json` (needs `make peer`
once), then `python -m bench.page bench.json > docs/benchmark.md`. A ratio is the median over the rounds of Ottla's
value by Kafka's in the same round; `compiled` has the hot modules as machine code (`make install` with a C compiler),
`pure` runs their source.

- Kafka 4.3.0 has the heap of its own scripts, 1 GiB; Ottla has no configuration. Neither flushes per request.
- Most rows come from a generator that sends pre-encoded requests over plain sockets and checks the answers' error
  codes, in a process of its own, so that the broker is what is measured; it says when it may be the limit itself.
  `producer-perf` and `consumer-perf` are Kafka's own tools with their defaults.
- Processor time is the broker's process with its children. On few processors the load shares them with the broker:
  compare the columns, not the figures with other machines.
- Every batch is checked (lengths, CRC-32C, counts, sequences, header); compiled builds check every record too, pure
  ones where a topic's rules depend on it, as `differences.md` says.
"""


def page(rows: list[dict[str, Any]]) -> str:
    """Return the page of these rows."""
    lines = [INTRODUCTION]
    lines.append(
        f"Measured with {os.cpu_count()} processors ({platform.machine()}), Python {platform.python_version()}.\n"
    )
    lines.append("| metric | mode | Ottla | Kafka | ratio | target | met | rounds |")
    lines.append("|---|---|---:|---:|---:|---:|---|---:|")
    for row in rows:
        met = {True: "yes", False: "**no**", None: ""}[row["met"]]
        cells = [row["metric"], row["mode"], number(row["ottla"], row["unit"]), number(row["kafka"], row["unit"])]
        cells += [number(row["ratio"]), row["target"] or "", met, str(row["rounds"])]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def main(argv: list[str]) -> int:
    """Print the page of a result file."""
    print(page(json.loads(Path(argv[0]).read_text())), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
