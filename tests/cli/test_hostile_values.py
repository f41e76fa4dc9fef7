"""Whatever an option is given: a line that says what is wrong and exit code 1, and never a traceback."""

from __future__ import annotations

import argparse
import asyncio
import io
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import confluent_kafka
import pytest

import ottla.client
from ottla.base import ErrorCode, KafkaError
from ottla.cli.catalogue import parsers_of
from ottla.cli.group_reset import Scenario, parse_duration, target_of
from ottla.cli.main import NOUNS, run
from ottla.cli.options import Options, UsageError
from ottla.wire import encode
from ottla.wire.messages.list_groups import ListGroupsRequest

HOSTILE = ("", "-1", "9" * 24, "\udcff", "--", "-PT1H", "[]", "a=b,c:d")
MORE = ("0", "1.5", "1e400", "=", ":", ",,", "é" * 300, "a" * 20_000, "/", "NaN", "{", "*", "(", "::1", ":99999", "٣")
BROKER = "127.0.0.1:1"


class Begun(BaseException):
    """A command has understood its options, and begins what this test does not let it do."""


def begin(*arguments: Any, **named: Any) -> NoReturn:
    for each in arguments:
        if asyncio.iscoroutine(each):
            each.close()
    raise Begun


def refuse(*arguments: Any, **named: Any) -> NoReturn:
    raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, "no broker answers")


@pytest.fixture
def shut_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let commands read options and files, and reach no network, process, loop or sleep.

    No process above all: `server stop` looks for every server of this user, whoever has started it.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KAFKA_HOME", raising=False)
    monkeypatch.setattr(ottla.client.BlockingClient, "__init__", refuse)
    for owner, name in (
        *((confluent_kafka, each) for each in ("Producer", "Consumer")),
        (asyncio, "run"),
        (asyncio.Runner, "run"),
        (subprocess.Popen, "__init__"),
        *((os, each) for each in ("execv", "execvp", "execve", "kill", "killpg")),
        (urllib.request, "urlopen"),
        (socket, "create_connection"),
        (socket.socket, "connect"),
        (time, "sleep"),
    ):
        monkeypatch.setattr(owner, name, begin)
    monkeypatch.setattr(signal, "signal", lambda *arguments: None)
    mask = os.umask(0o077)
    yield
    os.umask(mask)


def outcome(noun: str, argv: list[str], monkeypatch: pytest.MonkeyPatch) -> str:
    """Run a command, and return what is wrong with how it ended; nothing where that is as it should be."""
    with monkeypatch.context() as patch:
        for name in ("stdout", "stderr"):
            patch.setattr(sys, name, io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="backslashreplace"))
        patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"x\n")))
        try:
            code: object = run(noun, argv)
        except Begun:
            return ""
        except SystemExit as ended:
            code = ended.code or 0
        except Exception as error:  # what this test is about
            return f"{noun} {argv}: {type(error).__name__}: {error}"[:400]
    return "" if code in (0, 1, 2) else f"{noun} {argv}: exit code {code}"


def _needed(action: argparse.Action) -> str:
    return str(next(iter(action.choices))) if action.choices else "1"


def lines_of(parser: Options, values: tuple[str, ...]) -> Iterator[list[str]]:
    """Yield arguments: each option of a parser with each value, without one, and twice; each place with each value."""
    own = [each for each in parser._actions if each.dest not in ("help", "version")]
    options = [each for each in own if each.option_strings]
    places = [each for each in own if not each.option_strings]
    begin = parser.prog.split()[2:]
    if any(each.dest == "bootstrap_server" for each in options):
        begin += ["--bootstrap-server", BROKER]
    for each in options:
        if each.required:
            begin += [each.option_strings[0], _needed(each)]
    needed = [_needed(each) for each in places if each.nargs not in ("?", "*")]
    for each in options:
        name = each.option_strings[-1]
        if each.nargs == 0:
            yield [*begin, *needed, name, name]
            yield [*begin, *needed, f"{name}=x"]
            continue
        yield from ([*begin, *needed, f"{name}={value}"] for value in values)
        yield [*begin, *needed, name]
        yield [*begin, *needed, name, "1", name, "2"]
    yield from ([*begin, *(value for _ in places)] for value in values)
    yield from (line for value in values for line in ([value], [*parser.prog.split()[2:], value]))


@pytest.mark.parametrize("noun", NOUNS)
def test_no_value_of_any_option_ends_a_command_with_a_traceback(
    noun: str, shut_in: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = [line for parser in parsers_of(noun) for line in lines_of(parser, HOSTILE)]
    assert [found for line in tried if (found := outcome(noun, line, monkeypatch))] == []


@pytest.mark.slow
@pytest.mark.parametrize("noun", NOUNS)
def test_nor_does_any_of_more_values(noun: str, shut_in: None, monkeypatch: pytest.MonkeyPatch) -> None:
    tried = [line for parser in parsers_of(noun) for line in lines_of(parser, MORE)]
    assert [found for line in tried if (found := outcome(noun, line, monkeypatch))] == []


@pytest.mark.parametrize("words", [["--by-duration", "-PT1H"], ["--by-duration=-PT1H"], ["--to-offset", "-5"]])
def test_a_value_may_begin_with_a_dash_as_in_kafkas_tools(words: list[str]) -> None:
    (parser,) = parsers_of("consumer-groups")
    args = parser.parse(["--reset-offsets", "--group", "g", "--topic", "t", *words])
    assert args.by_duration == "-PT1H" or args.to_offset == -5


@pytest.mark.parametrize(
    ("noun", "words", "named"),
    [
        ("server", ["start", ""], "server.properties"),
        ("server", ["format", "-t", "x", "-c", ""], "config"),
        ("topics", ["--list", "--command-config", ""], "command-config"),
        ("home", ["--copy", ""], "copy"),
        ("cluster", ["start", "--data="], "data"),
        ("streams", ["run", ""], "app.py"),
    ],
)
def test_the_empty_name_of_a_file_is_not_the_working_folder(
    noun: str,
    words: list[str],
    named: str,
    shut_in: None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(noun, words) == 1
    assert f"Cannot parse argument '' of option {named}\nThe name of a file" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_an_option_is_no_value_of_the_one_before() -> None:
    (parser,) = parsers_of("consumer-groups")
    with pytest.raises(UsageError, match="Option by-duration requires an argument"):
        parser.parse(["--reset-offsets", "--by-duration", "-o", "json"])


def test_a_duration_back_is_a_time_ahead_and_one_before_all_times_is_the_beginning() -> None:
    hour_ms = 3_600_000
    assert parse_duration("-PT1H") == -hour_ms
    ahead = target_of(Scenario("by-duration", "-PT1H"))
    assert ahead.value > time.time() * 1000 + hour_ms / 2
    assert target_of(Scenario("by-duration", "P30000D")).value == 0
    assert target_of(Scenario("to-datetime", "1900-01-01T00:00:00.000")).value == 0
    for text in ("P999999999999999D", f"P{'9' * 30}D"):
        with pytest.raises(KafkaError, match="cannot be parsed to a Duration"):
            parse_duration(text)


def test_a_value_that_the_protocol_does_not_carry_is_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def ask(*arguments: Any, **named: Any) -> NoReturn:
        encode(ListGroupsRequest(states_filter=[2**70]), 4)  # type: ignore[list-item]
        raise AssertionError("it was written")

    monkeypatch.setattr(ottla.client.BlockingClient, "__init__", ask)
    assert run("groups", ["--bootstrap-server", BROKER, "--list"]) == 1
    assert capsys.readouterr().err.startswith("ottla groups: a value is beyond what the protocol carries: ListGroups")
