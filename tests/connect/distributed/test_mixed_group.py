"""A worker of Apache Kafka Connect and one of ours in one group, as while a cluster is moved worker by worker."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.connect.rest.asked import ask_once
from tests.connect.rest.calls import Call
from tests.connect.whole import WholeWorker, running_connect
from tests.peer.connect.worker import running_worker
from tests.ports import free_port
from tests.server import running_server
from tests.waiting import until

CLASSES = "org.apache.kafka.connect.file.FileStream"
NUMBERS = range(3)


def text_of(path: Path) -> str:
    return path.read_text() if path.exists() else ""


def owners(ours: WholeWorker) -> set[str]:
    """Return the workers on which tasks run; nothing while one does not run."""
    found = set()
    for number in NUMBERS:
        for name in (f"in{number}", f"out{number}"):
            status, body = ours.ask("GET", f"/connectors/{name}/status")
            if status != 200 or [each["state"] for each in body["tasks"]] != ["RUNNING"]:
                return set()
            found.add(body["tasks"][0]["worker_id"])
    return found


@pytest.mark.peer
@pytest.mark.slow
def test_java_and_python_workers_share_the_tasks_of_one_group_and_ours_takes_all_that_is_left(tmp_path: Path) -> None:
    port = free_port()
    with (
        running_server(tmp_path, overrides=["group.initial.rebalance.delay.ms=0"]) as server,
        running_worker("distributed", tmp_path / "java", server.bootstrap, port) as java,
        running_connect(tmp_path, server.bootstrap, distributed=True) as ours,
    ):
        for number in NUMBERS:
            given, taken = tmp_path / f"in{number}", tmp_path / f"out{number}"
            given.write_text("one\n")
            configs = {
                f"in{number}": {
                    "connector.class": f"{CLASSES}SourceConnector",
                    "file": str(given),
                    "topic": f"t{number}",
                },
                f"out{number}": {
                    "connector.class": f"{CLASSES}SinkConnector",
                    "file": str(taken),
                    "topics": f"t{number}",
                },
            }
            for name, config in configs.items():
                body = {"name": name, "config": config}
                until(lambda body=body: ask_once(port, Call("POST", "/connectors", body))["status"] in (201, 409))
                until(lambda name=name: ours.ask("GET", f"/connectors/{name}")[0] == 200)
        until(lambda: len(owners(ours)) == 2, lambda: owners(ours))
        until(lambda: all(text_of(tmp_path / f"out{number}") == "one\n" for number in NUMBERS))
        assert ours.ask("PUT", "/connectors/in0/pause")[0] == 202  # whoever leads, whoever runs it
        until(lambda: ours.states("in0") == ("PAUSED", "PAUSED"))
        assert ask_once(port, Call("PUT", "/connectors/in0/resume"))["status"] == 202
        until(lambda: ours.states("in0") == ("RUNNING", "RUNNING"))

        java.kill()
        java.wait()
        for number in NUMBERS:
            with (tmp_path / f"in{number}").open("a") as file:
                file.write("two\n")
        until(lambda: all("two\n" in text_of(tmp_path / f"out{number}") for number in NUMBERS))
        until(lambda: len(owners(ours)) == 1, lambda: owners(ours))
