"""The front door: help, version, errors and exit codes, and how little it imports."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from ottla import __version__
from ottla.base import KafkaError, bring_extra
from ottla.cli.build_kind import build_kind
from ottla.cli.group_reset import from_file
from ottla.cli.main import NOUNS
from ottla.spark import requirements
from ottla.wire import build_mode
from tests.cli.conftest import Run

TLS_HANDSHAKE = b"\x16"
"""The first byte of a TLS client (RFC 8446, 5.1)."""
HEAVY = {"asyncio", "typing_extensions", "ssl", "confluent_kafka", "numpy", "pyspark", "rich", "argparse", "ottla.wire"}


def test_help_lists_every_noun(run: Run) -> None:
    found = run("--help")
    assert found.code == 0
    for noun in NOUNS:
        assert found.out.count(f"\n  {noun} ") == 1


def test_a_word_that_is_nearly_a_noun_is_recognised(run: Run) -> None:
    assert run("topic --list").err == "ottla: topic is not a noun; did you mean topics? `ottla --help` lists them\n"


@pytest.mark.parametrize("word", ["version", "-v", "-V"])
def test_the_version_is_told_however_it_is_asked_for(run: Run, word: str) -> None:
    assert run(word).out == run("--version").out


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ("--bootstrap-server h:1 topics --list", "`ottla topics --bootstrap-server …`"),
        ("kafka-topics.sh --list", "Kafka's script is `ottla topics` here"),
        ("kafka-share-groups --list", "this version has nothing like it"),
        ("topics --lst", "Did you mean --list?"),
        ("topics --zookeeper localhost:2181 --list", "--bootstrap-server HOST:PORT names its brokers"),
        ("consume t --form earliest", "Did you mean --format?"),
        ("get-offsets greetings", "--topic greetings"),
    ],
)
def test_a_wrong_word_is_answered_with_the_right_one(run: Run, arguments: str, sentence: str) -> None:
    found = run(arguments)
    assert found.code == 1
    assert sentence in found.err


def test_version_says_compiled_or_pure(run: Run) -> None:
    found = run("--version")
    assert found.code == 0
    assert found.out in {f"ottla {__version__} (compiled)\n", f"ottla {__version__} (pure)\n"}


def test_version_agrees_with_what_runs() -> None:
    assert build_kind() == build_mode()


def test_help_and_version_import_next_to_nothing() -> None:
    for option in ("--help", "--version"):
        code = (
            "import sys; from ottla.cli.main import main; main([sys.argv[1]]); "
            "import json; print(json.dumps(sorted(sys.modules)), file=sys.stderr)"
        )
        found = subprocess.run([sys.executable, "-c", code, option], capture_output=True, text=True, check=True)
        assert not HEAVY & set(json.loads(found.stderr)), option


@pytest.mark.parametrize(
    "arguments",
    ["nonsense", "topics --bootstrap-server nowhere --list", "get-offsets --bootstrap-server 127.0.0.1:1 --topic ["],
)
def test_a_mistake_is_one_line_and_exit_code_1(run: Run, arguments: str) -> None:
    found = run(arguments)
    assert found.code == 1
    assert len((found.out + found.err).splitlines()) == 1


@pytest.mark.parametrize(
    "arguments",
    [
        "topics --bootstrap-server 127.0.0.1:1 --list",
        "get-offsets --bootstrap-server 127.0.0.1:1",
        "log-dirs --bootstrap-server 127.0.0.1:1 --describe",
        "console-producer --bootstrap-server 127.0.0.1:1 --topic t",
        "console-consumer --bootstrap-server 127.0.0.1:1 --topic t",
    ],
)
def test_an_unreachable_broker_is_named_in_one_line(run: Run, tmp_path: Path, arguments: str) -> None:
    impatient = tmp_path / "client.properties"
    impatient.write_text("default.api.timeout.ms=100\nmax.block.ms=100\nretry.backoff.ms=10\n")
    found = run(f"{arguments} --command-config {impatient}")
    assert found.code == 1
    said = [line for line in (found.out + found.err).splitlines() if "127.0.0.1:1 refused the connection" in line]
    assert len(said) == 1
    assert "Traceback" not in found.err


def test_a_protected_connection_is_never_opened_in_the_clear(run: Run, tmp_path: Path) -> None:
    protected, seen = tmp_path / "client.properties", []
    protected.write_text("security.protocol=SSL\ndefault.api.timeout.ms=20000\n")
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def hear() -> None:
            connection, _ = listening.accept()
            with connection:
                seen.append(connection.recv(1))

        hearing = threading.Thread(target=hear, daemon=True)
        hearing.start()
        port = listening.getsockname()[1]
        found = run(f"topics --bootstrap-server 127.0.0.1:{port} --list --command-config {protected}")
        hearing.join(20)
    assert found.code == 1 and "Traceback" not in found.err
    assert seen == [TLS_HANDSHAKE]


def test_a_missing_file_is_named(run: Run) -> None:
    found = run("topics --bootstrap-server 127.0.0.1:1 --list --command-config /nowhere/client.properties")
    assert found.code == 1
    assert "/nowhere/client.properties" in found.err and len(found.err.splitlines()) == 1


@pytest.mark.parametrize(
    "arguments",
    [
        "delete-records --offset-json-file {}",
        "producer-perf-test --topic t --num-records 1 --throughput -1 --payload-file {} --payload-delimiter ''",
        "dump-log --files {}",
        "storage info -c {}/nothing",
    ],
)
def test_a_file_that_is_not_what_it_should_be_leaves_no_stack_trace(run: Run, tmp_path: Path, arguments: str) -> None:
    path = tmp_path / "rubbish"
    path.write_bytes(bytes(range(128, 256)) + b"\n")
    found = run(arguments.format(path))
    assert "Traceback" not in found.err and (found.err or "unknown file" in found.out)


def test_offsets_to_reset_are_not_read_from_bytes_that_are_no_text(tmp_path: Path) -> None:
    path = tmp_path / "rubbish"
    path.write_bytes(b"\x80\x81\n")
    with pytest.raises(KafkaError, match="line 1: topic,partition,offset or group,topic,partition,offset is expected"):
        from_file(str(path), "group")


def test_a_terminal_that_is_not_utf8_gets_a_question_mark() -> None:
    command = [sys.executable, "-m", "ottla.cli.main", "topics", "--help"]
    found = subprocess.run(command, capture_output=True, env={"PYTHONIOENCODING": "ascii"}, check=True)
    assert b"--bootstrap-server HOST:PORT,?" in found.stdout


@pytest.mark.parametrize("arguments", ["--help", "--version", "topics --help", "storage random-uuid"])
def test_a_reader_that_has_gone_is_no_error(arguments: str) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [
        sys.executable,
        "-c",
        "import sys; from ottla.cli.main import main; sys.exit(main())",
        *arguments.split(),
    ]
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True, check=False, timeout=60)
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("arguments", ["--version", "topics --help", "storage random-uuid"])
def test_an_output_that_is_full_is_one_line_and_exit_code_1(arguments: str) -> None:
    command = [
        sys.executable,
        "-c",
        "import sys; from ottla.cli.main import main; sys.exit(main())",
        *arguments.split(),
    ]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            command,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            timeout=60,
            env={**os.environ, "PYTHONUNBUFFERED": ""},  # so that it is found at the end, as usual
        )
    assert (done.returncode, done.stderr) == (1, "ottla: standard output: No space left on device\n")


@pytest.mark.parametrize(
    "arguments",
    [
        "demo",
        "word-count",
        "streams run app.py",
        "sql server",
        "connect-standalone w.properties",
        "connect-distributed w",
    ],
)
def test_a_missing_extra_is_one_line_before_any_work(run: Run, monkeypatch: pytest.MonkeyPatch, arguments: str) -> None:
    monkeypatch.setattr(requirements, "PACKAGES", ("pyspark_that_is_not_here",))
    found = run(arguments)
    assert found.code != 0
    assert len((found.out + found.err).splitlines()) == 1
    assert "pip install '.[spark]'" in found.err


def test_a_package_that_is_not_installed_is_named_with_the_extra_that_brings_it(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "prompt_toolkit", None)
    for module in [name for name in sys.modules if name.startswith("ottla.cli.sql_shell")]:
        monkeypatch.delitem(sys.modules, module)

    def needs_it(argv: list[str]) -> int:
        import prompt_toolkit  # noqa: F401

        return 0

    monkeypatch.setattr("ottla.cli.commands.home.main", needs_it)
    found = run("home")
    assert found.code == 1
    assert found.err == (
        f"ottla home: it needs the Python package prompt_toolkit, which is not installed: {bring_extra('sql')}\n"
    )


@pytest.mark.parametrize(("words", "closed", "code"), [("consume", "2>&-", 1), ("--version", ">&-", 0)])
def test_a_closed_standard_output_or_error_has_its_words_nowhere_else(words: str, closed: str, code: int) -> None:
    shell = f'exec "$0" -m ottla.cli.main {words} {closed}'
    found = subprocess.run(["sh", "-c", shell, sys.executable], capture_output=True, text=True)
    assert (found.stdout, found.stderr, found.returncode) == ("", "", code)
