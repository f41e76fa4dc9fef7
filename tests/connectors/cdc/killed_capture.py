"""A process with a capture whose records go to a file, and which stands still at a count until it is killed.

`python -m tests.connectors.cdc.killed_capture PROPS FOLDER STILL`: properties as JSON, where the records and offsets are,
and at how many records of this process it stands still; 0 has it go on until the row with id -1 is told.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

from ottla.connect import SourceColumns
from ottla.connectors.cdc import PostgresConnector
from tests.connectors.contexts import Store, started

__all__ = ["main"]


def main() -> None:
    """Run; says each count in a line, and how many of the rows came in columns."""
    props, folder, still = json.loads(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
    store, kept = Store(), folder / "offsets.json"
    if kept.exists():
        store.offsets = json.loads(kept.read_text())
    task = started(PostgresConnector.task_class(), props, store)
    count = in_columns = 0
    is_over = False
    with (folder / "topic.jsonl").open("a") as topic:
        while not is_over:
            for each in task.poll() or ():
                records = each.records() if isinstance(each, SourceColumns) else [each]
                in_columns += len(records) if isinstance(each, SourceColumns) else 0
                count += len(records)
                for record in records:
                    row = None if record.value is None else record.value["after"]
                    topic.write(json.dumps([record.key["id"], None if row is None else row["v"]]) + "\n")
                    is_over = is_over or (row is not None and record.key["id"] == -1)
                topic.flush()
                store.take(records)
                new = kept.with_suffix(".new")
                new.write_text(json.dumps(store.offsets))
                os.replace(new, kept)
                print(count, in_columns, flush=True)
                if 0 < still <= count:
                    print("still", flush=True)
                    time.sleep(600)
    task.stop()


if __name__ == "__main__":
    main()
