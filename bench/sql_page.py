"""`python -m bench.sql_page FILE.json > docs/sql-benchmark.md`: the rows of `bench.sql` as a page."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from bench.rows import page_of

__all__ = ["page"]

INTRODUCTION = """# The SQL server, measured

`make bench-sql OUT=bench-sql.json` (needs `make peer` once; `SIZE=0.1` for a trial, `ONLY=pull` for one figure), then
`python -m bench.sql_page bench-sql.json > docs/sql-benchmark.md`. A server with hosts in two tasks of a Spark session
of this machine (`--engine python` has them in threads of the server), one Ottla broker, medians over the rounds.

- **Statement to …** is `CREATE STREAM … AS SELECT` on a warm server: to its answer, until its query begins in the hosts,
  and until a pull query over HTTP gives its first row.
- **Idle queries** are 50 `GROUP BY` of their own groups and state. Processors and memory are of the server, its JVM and
  its hosts together; memory that they share counts once.
- **Pull by key**: `SELECT * FROM T WHERE ID = '…'` over HTTP/1.1 on one connection, keys drawn from 100,000.
- **Record to result** at 500 records/s: from a record's time, set by `confluent-kafka`'s producer, until its consumer has
  the result, at least once.
- **A host killed**: the busier of the two hosts under a query that runs exactly once, with SIGKILL; or both.
- **rows/s** are orders of some 60 bytes of JSON at 10,000 keys, on a preloaded topic of four partitions, the first fifth
  not counted: by the offsets that the query's group commits, every 100 ms. Kafka Streams 4.3.0 runs the same plan in a JVM
  with two threads, Jackson's trees for JSON, default caches and the same commit interval. *filter* has a condition and a
  product, *aggregate* COUNT and SUM by key, *window* the same by tumbling minutes, *join* a table of 10,000 rows by key.
"""


def page(rows: list[dict[str, Any]], notes: str = "") -> str:
    """Return the page of these rows."""
    return page_of(f"{INTRODUCTION}\n{notes.strip()}\n" if notes.strip() else INTRODUCTION, "Kafka Streams", rows)


def main(argv: list[str]) -> int:
    """Print the page of a result file, with the notes in `FILE.md` beside it."""
    path = Path(argv[0])
    notes = path.with_suffix(".md")
    print(page(json.loads(path.read_text()), notes.read_text() if notes.exists() else ""), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
