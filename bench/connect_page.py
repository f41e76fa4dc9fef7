"""`python -m bench.connect_page FILE.json > docs/connect-benchmark.md`: the rows of `bench.connect` as a page."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from bench.rows import page_of

__all__ = ["page"]

INTRODUCTION = """# Connect's workers beside Apache Kafka Connect

Both on one machine, in one run, on one Ottla broker: `make bench-connect OUT=bench-connect.json` (needs `make peer`
once; about five minutes, `SIZE=0.1` for a trial), then `python -m bench.connect_page bench-connect.json >
docs/connect-benchmark.md`.

- Workers are standalone, of Kafka's defaults but for `offset.flush.interval.ms=1000`; Apache Kafka Connect 4.3.0 runs
  with `-Xmx1g`. Each is warm: a source and a sink have run in it and are gone.
- **Files**: Kafka's FileStream connectors under the same names, lines of 100 bytes, a topic of one partition, the
  file source's `batch.size` 2000 on both sides. Rates count from the first record that is seen, so that no start
  counts, and the broker is on the same processors. JSON with schemas is JsonConverter as the stock properties have
  it; strings are StringConverter. What the sink has written is compared with what the source has read.
- **Processor time** is of all the worker's processes, the start of connector and task with it, JSON with schemas.
- **From its connector's creation**: the REST call until the topic has its first record, and all thousand.
- **Memory** is of all the worker's processes, shared pages counted once (PSS), when they have done all that.
- **Plain** connectors are of a user's own (`bench/plain_connectors.py`), Ottla's alone: a source whose `poll` returns
  2,000 records of 99 bytes, and a sink whose `put` looks at each, 400,000 in all.
- **JDBC** is Ottla's alone: Apache Kafka has no such connectors. A table of 200,000 rows of three columns in
  PostgreSQL, mode `incrementing`; the sink inserts with a primary key.
- **Captures** are beside Debezium 3.7.0 in Kafka Connect: a table of 500,000 rows of four columns read whole,
  then 200,000 inserts of one transaction. Defaults are JSON with schemas; tuned is JSON without, larger batches
  on both sides, the same settings. A change's way is timed a hundred times, from the answer to its commit until
  the topic's end has moved.
"""


def page(rows: list[dict[str, Any]]) -> str:
    """Return the page of these rows."""
    return page_of(INTRODUCTION, "Kafka Connect", rows)


def main(argv: list[str]) -> int:
    """Print the page of a result file."""
    print(page(json.loads(Path(argv[0]).read_text())), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
