"""`ottla server start` and `format`: what an operator sees."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ottla.cli.local.data_folders import data_lines
from tests.cli.conftest import Run
from tests.server import running_server, start_server

CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"


def ottla(folder: Path, *arguments: str, flags: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *flags, "-m", "ottla.cli.main", "server", *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, timeout=30, check=False)


def settings(folder: Path, *more: str) -> str:
    lines = ["listeners=PLAINTEXT://127.0.0.1:0", f"log.dirs={folder / 'one'},{folder / 'two'}", *more]
    path = folder / "server.properties"
    path.write_text("\n".join(lines) + "\n")
    return str(path)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_it_cleanly(tmp_path: Path, number: signal.Signals) -> None:
    server = start_server(tmp_path)
    assert server.stop(number) == 0
    assert (tmp_path / "data" / ".kafka_cleanshutdown").exists()
    assert "Traceback" not in "".join(server.lines)


def test_ready_names_the_listener_that_serves(tmp_path: Path) -> None:
    with running_server(tmp_path) as server:
        assert f"ready PLAINTEXT://127.0.0.1:{server.port}\n" in server.lines


def test_a_start_names_its_data_and_the_other_place_where_some_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / ".local/share/ottla/data"
    home.mkdir(parents=True, mode=0o700)
    (home / "meta.properties").touch()
    monkeypatch.setenv("HOME", str(tmp_path))
    with running_server(tmp_path, overrides=["log.dirs=ottla-data"]) as server:
        assert f"data {tmp_path / 'ottla-data'}\n" in server.lines
        told = f"there is data in {home} too, where $KAFKA_HOME/config/server.properties keeps it; this server does not"
        assert f"{told} open it\n" in server.lines
    monkeypatch.chdir(tmp_path)
    there = "where `ottla server start` keeps it without a configuration"
    assert data_lines([str(home)])[1] == [
        f"there is data in {tmp_path / 'ottla-data'} too, {there}; this server does not open it"
    ]
    assert data_lines(["ottla-data", str(home)])[1] == []


def test_a_bad_value_stops_the_start_in_one_line(tmp_path: Path) -> None:
    found = ottla(tmp_path, "start", "--override", "num.partitions=0")
    assert found.returncode == 1
    said = "ottla server: Invalid value 0 for configuration num.partitions: Value must be at least 1\n"
    assert (found.stdout, found.stderr) == ("", said)


def test_an_unknown_key_is_named_in_a_warning(tmp_path: Path) -> None:
    with running_server(tmp_path, overrides=["num.partitons=3"]) as server:
        said = "warning: unknown configuration num.partitons is ignored; did you mean num.partitions?\n"
        assert said in server.lines


@pytest.mark.parametrize(
    ("override", "key"),
    [
        ("listeners=SSL://127.0.0.1:0", "inter.broker.listener.name"),
        ("authorizer.class.name=com.example.Authorizer", "authorizer.class.name"),
        ("listener.security.protocol.map=PLAINTEXT:SASL_PLAINTEXT", "GSSAPI"),
        ("create.topic.policy.class.name=com.example.Policy", "create.topic.policy.class.name"),
        ("alter.config.policy.class.name=com.example.Policy", "alter.config.policy.class.name"),
        ("client.quota.callback.class=com.example.Quotas", "client.quota.callback.class"),
        ("process.roles=broker", "process.roles"),
        ("log.segment.bytes=many", "log.segment.bytes"),
    ],
)
def test_what_cannot_be_kept_stops_the_start_in_one_line(tmp_path: Path, override: str, key: str) -> None:
    found = ottla(tmp_path, "start", "--override", override)
    assert found.returncode == 1
    assert key in found.stderr and len(found.stderr.splitlines()) == 1


def test_it_refuses_to_run_without_assertions(tmp_path: Path) -> None:
    found = ottla(tmp_path, "start", flags=("-O",))
    assert found.returncode == 1
    assert "python -O" in found.stderr


def test_a_second_process_on_the_folder_is_refused(tmp_path: Path) -> None:
    with running_server(tmp_path):
        found = ottla(tmp_path, "start", "--override", f"log.dirs={tmp_path / 'data'}")
        assert found.returncode == 1
        assert str(tmp_path / "data") in found.stderr and "Traceback" not in found.stderr
        assert (
            "no listener is configured: only programs on this machine reach PLAINTEXT://127.0.0.1:9092" in found.stderr
        )


def test_a_taken_address_is_named(tmp_path: Path) -> None:
    with running_server(tmp_path) as server:
        found = ottla(tmp_path, "start", "--override", f"listeners=PLAINTEXT://127.0.0.1:{server.port}")
        assert found.returncode == 1
        assert f"cannot listen on PLAINTEXT://127.0.0.1:{server.port}: Address already in use; " in found.stderr
        assert len(found.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("host", "remedy"), [("192.0.2.1", "listen on an address of this machine"), ("no-such.invalid", "choose a name or")]
)
def test_an_address_of_elsewhere_is_refused_with_a_remedy(tmp_path: Path, host: str, remedy: str) -> None:
    found = ottla(tmp_path, "start", "--override", f"listeners=PLAINTEXT://{host}:9092")
    assert found.returncode == 1
    assert remedy in found.stderr and len(found.stderr.splitlines()) == 1


def test_descriptors_are_raised_to_what_the_system_allows(tmp_path: Path) -> None:
    with running_server(tmp_path) as server:
        limits = Path(f"/proc/{server.process.pid}/limits").read_text()
        soft, hard = re.search(r"Max open files\s+(\d+)\s+(\d+)", limits).groups()  # type: ignore[union-attr]
        assert soft == hard


def test_format_prepares_every_folder_as_kafka_says_it(run: Run, tmp_path: Path) -> None:
    path = settings(tmp_path)
    found = run(f"server format -t {CLUSTER_ID} -c {path}")
    assert found.code == 0, found.err
    assert f"Formatting data directory {tmp_path / 'two'} with metadata.version 4.3-IV0.\n" in found.out
    assert (
        f"Formatting dynamic metadata voter directory {tmp_path / 'one'} with metadata.version 4.3-IV0.\n" in found.out
    )
    for name in ("one", "two"):
        assert f"cluster.id={CLUSTER_ID}" in (tmp_path / name / "meta.properties").read_text()
    again = run(f"server format -t {CLUSTER_ID} -c {path}")
    assert again.code == 1
    assert "is already formatted. Use --ignore-formatted to ignore this directory and format the others." in again.err
    ignored = run(f"server format -t {CLUSTER_ID} -c {path} --ignore-formatted")
    assert (ignored.code, ignored.out) == (0, "All of the log directories are already formatted.\n")
    other = run(f"server format -t AAAAAAAAAAAAAAAAAAAAAQ -c {path} -g")
    assert other.code == 1
    assert f"Expected AAAAAAAAAAAAAAAAAAAAAQ, but read {CLUSTER_ID}" in other.err


def test_a_formatted_folder_keeps_its_cluster_id(run: Run, tmp_path: Path) -> None:
    data = tmp_path / "data"
    path = tmp_path / "server.properties"
    path.write_text(f"log.dirs={data}\n")
    assert run(f"server format -t {CLUSTER_ID} -c {path} --standalone").code == 0
    with running_server(tmp_path):
        assert f"cluster.id={CLUSTER_ID}" in (data / "meta.properties").read_text()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("-c {path}", "--cluster-id"),
        (f"-t {CLUSTER_ID}", "--config"),
        ("-t abc -c {path}", "abc"),
        (f"-t {CLUSTER_ID} -c {{path}} -r 9.9", "Unknown metadata.version '9.9'"),
        (f"-t {CLUSTER_ID} -c {{path}} -f foo=1", "Unsupported feature: foo"),
        (f"-t {CLUSTER_ID} -c /nowhere/server.properties", "/nowhere/server.properties"),
    ],
)
def test_format_says_what_is_wrong(run: Run, tmp_path: Path, arguments: str, said: str) -> None:
    found = run(f"server format {arguments.format(path=settings(tmp_path))}")
    assert found.code == 1
    assert said in found.err and "Traceback" not in found.err
    assert not (tmp_path / "one").exists()


def test_no_process_is_left(tmp_path: Path) -> None:
    server = start_server(tmp_path)
    server.stop()
    with pytest.raises(ProcessLookupError):
        os.kill(server.process.pid, 0)
