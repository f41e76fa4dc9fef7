"""`python -m tests.connect.rest record [standalone|distributed ...]` asks Apache Kafka Connect and writes the facts."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

from tests.connect.rest.asked import ask_all, written
from tests.connect.rest.calls import CALLS
from tests.peer.connect.worker import MODES, running_worker
from tests.ports import free_port
from tests.server import running_server

FACTS = Path(__file__).with_name("facts")


def record(modes: list[str]) -> None:
    FACTS.mkdir(exist_ok=True)
    for mode in modes or list(MODES):
        with tempfile.TemporaryDirectory() as name, running_server(Path(name)) as server:
            port = free_port()
            with running_worker(mode, Path(name) / "worker", server.bootstrap, port):
                lines = [
                    json.dumps([written(call), answer], ensure_ascii=False) for call, answer in ask_all(port, CALLS)
                ]
        (FACTS / f"{mode}.json").write_text("[\n" + ",\n".join(lines) + "\n]\n")
        print(f"{mode}: {len(lines)} facts")


if __name__ == "__main__":
    if sys.argv[1:2] != ["record"]:
        sys.exit(__doc__)
    record(sys.argv[2:])
