"""Consuming as a member of a group: positions are the group's, and what was printed is committed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import peer
from tests.cli.conftest import Run
from tests.ports import free_port
from tests.server import running_server


@pytest.fixture(
    params=[
        "ottla",
        pytest.param("kafka", marks=pytest.mark.peer),
    ]
)
def cluster(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A broker that the commands mean, and a topic `t` with the records 0 to 5."""
    if request.param == "ottla":
        with running_server(tmp_path, overrides=["group.initial.rebalance.delay.ms=0"]) as server:
            monkeypatch.setenv("OTTLA_BOOTSTRAP_SERVERS", server.bootstrap)
            yield
    else:
        port = free_port()
        with peer.running_broker(tmp_path, port):
            monkeypatch.setenv("OTTLA_BOOTSTRAP_SERVERS", f"127.0.0.1:{port}")
            yield


def test_a_group_goes_on_where_it_stopped(run: Run, cluster: None) -> None:
    assert run("produce t", "0\n1\n2\n3\n4\n5\n").code == 0
    limits = "--group g --timeout-ms 20000"
    assert run(f"console-consumer --topic t --from-beginning --max-messages 2 {limits}").out == "0\n1\n"
    assert run(f"console-consumer --topic t --from-beginning --max-messages 2 {limits}").out == "2\n3\n"
    assert run(f"consume t -n 1 {limits} -f '%o:%v\\n'").out == "4:4\n"
    assert run(f"console-consumer --include 't|u' --max-messages 1 {limits}").out == "5\n"
    assert run("consume t -n 1 --group another --timeout-ms 20000").out == "0\n"
    assert "misspelt" in run("consume misspelt --group another --timeout-ms 3000").err
    assert "misspelt" not in run("topics --list").out


def test_the_name_behind_a_verb_is_what_the_command_is_about(run: Run, tmp_path: Path) -> None:
    with running_server(tmp_path) as server:
        at = f"--bootstrap-server {server.bootstrap}"
        assert run(f"produce t {at}", "0\n").code == 0
        assert run(f"consume t --group g -n 1 {at}").out == "0\n"
        described = run(f"consumer-groups describe g {at}")
        assert described.code == 0 and "g               t " in described.out, described
        for same in (f"groups describe g {at}", f"groups {at} describe g", f"groups --describe --group g {at}"):
            assert run(same) == described
        assert run(f"groups delete g {at}").code == 0
        assert "g" not in run(f"consumer-groups list {at}").out.split()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("console-consumer --topic t --group g --command-property group.id=h", "do not match"),
        ("console-consumer --topic t --from-beginning --command-property auto.offset.reset=latest", "--from-beginning"),
        ("consume t --group g --tail 1", "--group goes with none of"),
        ("consume t --group g --property default.api.timeout.ms=100", "127.0.0.1:1 refused the connection"),
    ],
)
def test_a_mistake_is_named(run: Run, monkeypatch: pytest.MonkeyPatch, arguments: str, said: str) -> None:
    monkeypatch.setenv("OTTLA_BOOTSTRAP_SERVERS", "127.0.0.1:1")
    found = run(arguments)
    assert found.code == 1
    assert said in found.err and "Traceback" not in found.err
