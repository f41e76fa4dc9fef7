"""A node of a MirrorMaker that is killed while another's request waits for it: an answer comes, then the flow goes on."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ottla.client import BlockingClient
from tests.connect.rest.test_logins import worker_properties
from tests.mirror.test_mirroring import make, values, write
from tests.mirror.test_nodes import given
from tests.mirror.test_secured_nodes import ANN, CA, NODE, SOURCE, ask, of_https, workers_of
from tests.net.certificates import client_context
from tests.ports import free_port
from tests.server import Server, running_server
from tests.waiting import until


class Node:
    """One process, whose interface users ask by HTTPS with a password."""

    def __init__(self, folder: Path, servers: tuple[Server, Server]) -> None:
        folder.mkdir()
        port = free_port()
        self.id, self.place = f"127.0.0.1:{port}", f"https://127.0.0.1:{port}"
        own = of_https(folder) | worker_properties(folder) | {"listeners": self.place}
        properties = given(servers, port, topics="kept.*", **own)
        path = folder / "mm2.properties"
        path.write_text("".join(f"{key} = {value}\n" for key, value in properties.items()))
        command = [sys.executable, "-m", "ottla.cli.main", "connect-mirror-maker", str(path), "--clusters", "west"]
        self.log = folder / "log"
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log)

    def ask(self, method: str, path: str = SOURCE, body: Any = None) -> tuple[int, Any]:
        return ask(self.place + path, method, body, context=client_context(CA, NODE), Authorization=ANN)

    def workers(self) -> set[str]:
        return workers_of(self.place, context=client_context(CA, NODE), Authorization=ANN)


@contextmanager
def nodes(folder: Path, servers: tuple[Server, Server]) -> Iterator[list[Node]]:
    found: list[Node] = []
    try:
        found.append(Node(folder / "one", servers))
        found.append(Node(folder / "other", servers))
        yield found
    finally:
        for each in found:
            each.process.kill()
            each.process.wait()


def leader(all_nodes: list[Node]) -> Node:
    """Return the node that answers what may not be sent on any more."""
    path = f"{SOURCE}/config?forward=false"

    def leads(node: Node) -> bool:
        return node.ask("PATCH", path, {"refresh.topics.interval.seconds": "1"})[0] == 200

    return until(lambda: next((each for each in all_nodes if leads(each)), None), "a leader")


@pytest.mark.slow  # two nodes with a Spark session each
def test_a_request_is_answered_when_the_node_that_it_was_sent_on_to_is_killed_and_the_flow_goes_on(
    tmp_path: Path,
) -> None:
    folders = [tmp_path / each for each in ("east", "west")]
    for each in folders:
        each.mkdir()
    with (
        running_server(folders[0]) as one,
        running_server(folders[1]) as other,
        BlockingClient(one.bootstrap) as east,
        BlockingClient(other.bootstrap) as west,
    ):
        for number in range(3):
            make(east, f"kept-{number}", 1)
            write(east, f"kept-{number}", "1")
        with nodes(tmp_path, (one, other)) as both, ThreadPoolExecutor(1) as pool:
            past = (OSError,)
            until(lambda: both[0].workers() == {each.id for each in both}, lambda: both[0].log.read_text(), past=past)
            until(lambda: both[1].ask("GET", "/east/west/connectors")[0] == 200, "the other node", past=past)
            killed = leader(both)
            left = next(each for each in both if each is not killed)
            killed.process.send_signal(signal.SIGSTOP)  # it takes connections, and answers none
            asked = pool.submit(left.ask, "PATCH", f"{SOURCE}/config", {"tasks.max": "2"})
            assert left.ask("GET", "/east/west/connectors")[0] == 200, "other requests are not held up"
            assert not asked.done()
            killed.process.kill()
            status, said = asked.result(100)
            assert status == 500 and "IO Error trying to forward REST request" in said["message"], (status, said)

            def changed() -> bool:
                status, said = left.ask("PATCH", f"{SOURCE}/config", {"tasks.max": "2"})
                assert status in (200, 409, 500), said  # it asks the one that was killed until that has left the group
                return status == 200

            until(changed, "a change by the node that is left")
            make(east, "kept-3", 1)
            write(east, "kept-3", "1")
            names = [f"east.kept-{number}" for number in range(4)]
            until(lambda: all(values(west, each) == Counter("1") for each in names), lambda: left.log.read_text())
            assert left.workers() == {left.id}
