"""Every command, where nothing listens: it says which address refused, and what to do, and shows no number of an error."""

from __future__ import annotations

import email.message
import re
import urllib.error
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from ottla.base import why_unreached
from ottla.cli.main import NOUNS
from ottla.client import BlockingClient
from ottla.registry import service
from ottla.spark.streams import backlog
from tests.cli.conftest import Run

BROKER = "`ottla server start` starts one"
BY_BROKER = [
    *("topics list", "topics create t", "groups list", "groups describe g", "consumer-groups list", "acls list"),
    *("configs describe t", "consume t --exit", "produce t", "console-producer --topic t", "get-offsets --topic t"),
    *("console-consumer --topic t", "console-consumer --topic t --group g", "transactions list", "log-dirs describe"),
    "delete-records --offset-json-file {offsets}",
    "delegation-tokens describe --command-config {client}",
    *("reassign-partitions list", "leader-election --election-type preferred --all-topic-partitions"),
    *("cluster cluster-id", "cluster list-endpoints", "broker-api-versions", "metadata-quorum describe --status"),
    *("features describe", "producer-perf-test --topic t --num-records 1 --record-size 1 --throughput -1"),
    *("consumer-perf-test --topic t --num-records 1 --timeout 200", "verifiable-producer --topic t --max-messages 1"),
    "e2e-latency --topic t --num-records 1 --producer-acks 1 --record-size 1",
    *("verifiable-consumer --topic t --group-id g --max-messages 1", "registry start"),
    *("streams query {app} counts --key k", "streams-application-reset --application-id x --input-topics t"),
    *("word-count", "doctor", "plan create-topic topic=t partitions=1"),
]
"""Commands of a broker."""
BY_URL = ["registry subjects --url {url}", "connect list --url {url}", "sql {url} -f {script}"]
BY_URL.append("streams promote {app} --to continuous --url {url}")
WITHOUT = {
    **dict.fromkeys(("server", "storage", "security", "context", "completion", "dump-log", "generate"), "no client"),
    **dict.fromkeys(("examples", "home", "run-class", "dev", "demo", "mirror"), "no client, or a server of its own"),
    **dict.fromkeys(
        ("console", "connect-distributed", "connect-standalone", "connect-mirror-maker"), "servers that wait"
    ),
}
"""Nouns that connect to nothing at once; those that wait say the client's words (`test_supervisor`, `test_worker`)."""


def test_each_command_is_asked_or_connects_to_nothing() -> None:
    asked = {words.split()[0] for words in (*BY_BROKER, *BY_URL)}
    assert set(NOUNS) - asked - WITHOUT.keys() == set()


@pytest.fixture
def places(tmp_path: Path) -> dict[str, str]:
    """Files that commands are told of, and an address where nothing listens."""
    files = {
        "offsets": '{"version": 1, "partitions": [{"topic": "t", "partition": 0, "offset": 1}]}',
        "client": "default.api.timeout.ms=200\nmax.block.ms=200\n",
        "script": "SHOW TOPICS;\n",
        "app": "from ottla.streams import StreamsBuilder\n"
        "builder = StreamsBuilder(default_key_serde='string', default_value_serde='string')\n"
        "builder.table('t', materialized='counts')\n",
    }
    for name, text in files.items():
        (tmp_path / f"{name}.py").write_text(text)
    return {name: str(tmp_path / f"{name}.py") for name in files} | {"url": "http://127.0.0.1:1"}


@pytest.mark.parametrize("words", BY_BROKER)
def test_a_command_of_a_closed_port_says_the_address_and_what_starts_a_broker(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, places: dict[str, str], words: str
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))  # a context that waits 0.2 s, and not 5
    run(f"context create closed --bootstrap-server 127.0.0.1:1 --command-config {places['client']}")
    monkeypatch.setenv("OTTLA_CONTEXT", "closed")
    quick = replace(service.CLIENT_LIMITS, unreachable_s=0.2)  # of clients that no file of the test's reaches
    monkeypatch.setattr(service, "CLIENT_LIMITS", quick)
    monkeypatch.setattr(backlog, "BlockingClient", partial(BlockingClient, limits=quick))
    found = run(words.format(**places), "1\n")
    said = found.out + found.err
    assert found.code != 0, said
    assert "127.0.0.1:1" in said and "ottla server start" in said, said
    assert not re.search(r"Errno|Traceback|Connect call", said), said


@pytest.mark.parametrize("words", BY_URL)
def test_a_command_of_a_closed_url_says_the_address_and_what_to_do(
    run: Run, places: dict[str, str], words: str
) -> None:
    found = run(words.format(**places))
    said = found.out + found.err
    assert found.code != 0, said
    assert "http://127.0.0.1:1" in said and re.search("start|running", said), said
    assert "nothing listens there" in said, said
    assert not re.search(r"Errno|Traceback|Connect call", said), said


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ConnectionRefusedError(111, "Connection refused"), "the connection is refused, so nothing listens there"),
        (TimeoutError(), "no answer came in time"),
        (TimeoutError("no whole answer within 3 s"), "no whole answer within 3 s"),
        (OSError(113, "No route to host"), "No route to host"),
        (PermissionError(13, "Permission denied", "/x"), "Permission denied: /x"),
        (ValueError("no number"), "no number"),
        (ValueError(), "ValueError"),
    ],
)
def test_the_reason_of_an_error_has_no_number(error: Exception, said: str) -> None:
    assert why_unreached(error) == said


def test_an_answer_that_urllib_raises_is_told_with_its_status() -> None:
    answer = urllib.error.HTTPError("http://127.0.0.1/token", 401, "Unauthorized", email.message.Message(), None)
    assert why_unreached(answer) == "HTTP Error 401: Unauthorized"
