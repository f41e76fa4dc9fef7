"""`ottla acls` beside Kafka's own tool, each against a broker of the other kind: what is printed, and what is left."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tests import peer
from tests.cli.acl_calls import CALLS, USAGE_ERRORS
from tests.cli.conftest import Run
from tests.cli.test_acls import AUTHORIZER
from tests.ports import free_port
from tests.server import running_server

pytestmark = pytest.mark.peer

TOOL = "org.apache.kafka.tools.AclCommand"
LISTS = re.compile(r"\[([A-Z_, ]+)\]")


OF_JAVA = re.compile(r"\s+at |java\.|jopt|Caused|\s+\.\.\.|$")
"""Stack traces, and lines without a word."""


def lines(printed: str) -> list[str]:
    """Return what was printed without stack traces, sorted: Java's sets have no order; a blank may begin a first line."""
    return sorted(line.strip() for line in printed.splitlines() if not OF_JAVA.match(line))


def in_order(text: str) -> str:
    return LISTS.sub(lambda found: str(sorted(found[1].split(", "))), text)


@pytest.mark.slow  # three JVMs; the texts are in `test_acls.py`, and Kafka's tool meets ours in `broker/test_acls_peer.py`
def test_both_print_the_same_and_leave_the_same_behind(run: Run, tmp_path: Path) -> None:
    port = free_port()
    wrong = []
    (tmp_path / "ours").mkdir()
    with (
        peer.running_broker(tmp_path / "kafka", port, heap="400m", overrides=AUTHORIZER),
        running_server(tmp_path / "ours", overrides=AUTHORIZER) as server,
        peer.one_jvm() as tool,
    ):
        for call in CALLS:
            ours = run(f"acls --bootstrap-server 127.0.0.1:{port} {call}")
            kafkas = tool(TOOL, "--bootstrap-server", server.bootstrap, *shlex.split(call))
            if (ours.code, lines(ours.out)) != (kafkas.returncode, lines(kafkas.stdout)):
                wrong.append(
                    f"{call}\n{ours.code} {ours.out}{ours.err}\n{kafkas.returncode} {kafkas.stdout}{kafkas.stderr}"
                )
        for call in USAGE_ERRORS:
            ours = run(f"acls --bootstrap-server 127.0.0.1:{port} {call}")
            kafkas = tool(TOOL, "--bootstrap-server", server.bootstrap, *shlex.split(call))
            said = kafkas.stderr.splitlines()[0].strip()
            if kafkas.returncode != ours.code or in_order(said) not in in_order(ours.err):
                wrong.append(f"{call}\n{ours.code} {ours.err}\n{kafkas.returncode} {said}")
    assert not wrong, "\n".join(wrong)
