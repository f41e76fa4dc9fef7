"""`ottla dev`: everything runs, is wired together and has data; it ends with Ctrl+C, and says why where it cannot go on."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path

import pytest

from ottla.base import OttlaError
from ottla.cli import contexts
from ottla.cli.dev import places, services
from ottla.cli.dev.places import HOST, Places, free_places
from ottla.cli.local import console_links, serving
from ottla.spark.java import find_java
from tests.cli.conftest import Run
from tests.ports import free_port
from tests.waiting import until

START_SECONDS_MAX = 120.0


@dataclass
class Dev:
    """A running `ottla dev`, and what it has printed."""

    process: subprocess.Popen[str]
    out: Path
    places: Places

    def said(self, service: str) -> list[str]:
        """What it has said of a service."""
        lines = self.out.read_text().splitlines()
        return [line[10:] for line in lines if line.startswith(f"{service:<10}")]

    def until_said(self, service: str) -> str:
        """Return what it says of a service once it does."""

        def look() -> list[str]:
            assert self.process.poll() is None, self.out.read_text()
            return self.said(service)

        return until(look, self.out.read_text, seconds=START_SECONDS_MAX)[0]

    def children(self) -> set[int]:
        """Return every process that it has begun, and those that these have."""
        parents = {}
        for path in Path("/proc").glob("[0-9]*/stat"):
            try:
                text = path.read_text()
            except OSError:
                continue
            parents[int(path.parent.name)] = int(text.rpartition(")")[2].split()[1])
        found = {self.process.pid}
        while more := {pid for pid, parent in parents.items() if parent in found} - found:
            found |= more
        return found - {self.process.pid}

    def broker(self) -> int:
        """Return the broker's process."""
        lines = {each: Path(f"/proc/{each}/cmdline").read_bytes() for each in self.children()}
        (found,) = [each for each, line in lines.items() if b"server\0start" in line]
        return found


@contextmanager
def running(tmp_path: Path, *options: str, **environ: str) -> Iterator[Dev]:
    wanted = Places(**{each.name: free_port() for each in fields(Places)})
    ports = [f"--port={each.name}={getattr(wanted, each.name)}" for each in fields(Places)]
    out = tmp_path / "out"
    with out.open("w") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "ottla.cli.main", "dev", "--no-browser", *ports, *options],
            stdout=file,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "TMPDIR": str(tmp_path), "XDG_STATE_HOME": str(tmp_path / "state"), **environ},
            start_new_session=True,
        )
    try:
        yield Dev(process, out, wanted)
    finally:
        process.kill()
        process.wait()


def asked(url: str) -> object:
    with urllib.request.urlopen(url, timeout=30) as answer:
        return json.load(answer)


def rows(url: str, statement: str) -> list[object]:
    body = json.dumps({"sql": statement}).encode()
    request = urllib.request.Request(f"{url}/query-stream", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        return [json.loads(line) for line in answer.read().splitlines() if line.strip(b"[],")][1:]


def views(dev: Dev) -> int:
    """Return how many page views SQL has counted."""
    found = rows(dev.places.url("sql"), "SELECT * FROM views_per_page;")
    return sum(each[1] for each in found if isinstance(each, list))


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.spark
@pytest.mark.timeout(400)
def test_everything_is_wired_together_has_data_and_ends_with_an_interrupt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    folder = tmp_path / "kept"
    with running(tmp_path, "--folder", str(folder)) as dev:
        dev.until_said("data")
        at = {each: dev.places.url(each) for each in ("registry", "connect", "sql", "console")}
        assert dev.said("broker") == [dev.places.bootstrap]
        subjects = asked(f"{at['registry']}/subjects")
        assert isinstance(subjects, list) and {"orders-value", "pageviews-value"} <= set(subjects)
        assert asked(f"{at['connect']}/connectors") == ["orders", "pageviews"]
        until(lambda: rows(at["sql"], "SELECT * FROM sales_by_city;"), dev.out.read_text)
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
        link = run("console link")
        assert link.code == 0 and link.out.strip() == dev.said("console")[-1]
        others = dev.children()
        os.killpg(dev.process.pid, signal.SIGINT)  # as a terminal does: to the whole group
        assert dev.process.wait(60) == 0, dev.out.read_text()
        until(lambda: not any(map(alive, others)), lambda: f"the end of {[each for each in others if alive(each)]}")
        assert not any(word in dev.out.read_text() for word in ("Traceback", "WARN", "log4j")), dev.out.read_text()
        assert run("console link").code == 1
    assert (folder / "data").is_dir() and "WARN" in (folder / "dev.log").read_text()


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(400)
def test_what_was_kept_goes_on_and_a_broker_that_dies_is_started_again(tmp_path: Path) -> None:
    folder = str(tmp_path / "kept")
    with running(tmp_path, "--folder", folder) as dev:
        dev.until_said("data")
        before = until(lambda: views(dev), dev.out.read_text)
        dev.process.terminate()
        assert dev.process.wait(60) == 0
    with running(tmp_path, "--folder", folder, "--empty") as dev:
        dev.until_said("ready")
        until(lambda: views(dev) > before, dev.out.read_text)
        assert not dev.said("data")
        os.kill(dev.broker(), signal.SIGKILL)
        until(lambda: "has ended with exit code -9, and is started again" in dev.said("broker"), dev.out.read_text)
        before = views(dev)
        until(lambda: views(dev) > before, dev.out.read_text, past=(OSError,), seconds=START_SECONDS_MAX)
        dev.process.send_signal(signal.SIGINT)
        assert dev.process.wait(60) == 0, dev.out.read_text()


@pytest.mark.spark
@pytest.mark.timeout(400)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_an_interrupt_while_it_starts_ends_it_and_leaves_nothing(tmp_path: Path, number: signal.Signals) -> None:
    with running(tmp_path) as dev:
        dev.until_said("connect")  # Spark starts
        others = dev.children()
        os.killpg(dev.process.pid, number)
        assert dev.process.wait(60) == 0, dev.out.read_text()
        until(lambda: not any(map(alive, others)), "the end of what it had begun")
    assert not list(tmp_path.glob("ottla-dev-*"))


@pytest.mark.timeout(200)
def test_without_a_java_all_but_connect_runs_and_a_closed_terminal_ends_it(tmp_path: Path) -> None:
    with running(tmp_path, JAVA_HOME=str(tmp_path)) as dev:
        assert "it is Connect that writes it" in dev.until_said("data")
        (why,) = dev.said("connect")
        assert why.startswith("not started: JAVA_HOME is ")
        assert asked(f"{dev.places.url('sql')}/info")
        dev.process.send_signal(signal.SIGHUP)
        assert dev.process.wait(60) == 0, dev.out.read_text()
    assert not list(tmp_path.glob("ottla-dev-*")) and not list(tmp_path.glob("state/ottla/consoles/*"))


@pytest.mark.spark
@pytest.mark.timeout(200)
def test_a_jvm_that_does_not_start_is_said_in_a_line(tmp_path: Path) -> None:
    java = find_java()
    assert java is not None
    with running(tmp_path, "--folder", str(tmp_path / "kept"), PATH="/nowhere", JAVA_HOME=str(java.home)) as dev:
        assert dev.process.wait(100) == 1
        out = dev.out.read_text()
        assert "ottla dev: the SQL server does not start: " in out and "Traceback" not in out
        assert "Traceback" in (tmp_path / "kept" / "dev.log").read_text()


def test_a_port_that_only_root_may_have_is_not_called_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(self: socket.socket, address: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(socket.socket, "bind", refused)
    with pytest.raises(OttlaError, match="port 80 is for root, as a rule; choose one from 1024 on"):
        free_places(Places(broker=80))


def test_a_signal_before_anything_serves_leaves_nothing(tmp_path: Path) -> None:
    with running(tmp_path) as dev:
        until(lambda: list(tmp_path.glob("ottla-dev-*")), "its folder")
        dev.process.terminate()
        assert dev.process.wait(60) in (0, 128 + signal.SIGTERM), dev.out.read_text()
        assert "Traceback" not in dev.out.read_text()
    assert not list(tmp_path.glob("ottla-dev-*"))


def test_a_port_that_is_taken_is_followed_by_the_next_one_and_no_port_is_given_twice() -> None:
    with socket.create_server((HOST, 0)) as taken:
        port = taken.getsockname()[1]
        found = free_places(Places(broker=port, registry=port, connect=port, sql=port, console=port))
        ports = [getattr(found, each.name) for each in fields(found)]
        assert len(set(ports)) == 5 and min(ports) > port


def test_where_no_port_is_free_the_range_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "PORTS_TRIED_MAX", 1)
    with socket.create_server((HOST, 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(OttlaError, match=f"no port from {port} to {port} is free"):
            free_places(Places(broker=port))


@pytest.mark.parametrize("given", ["broker", "broker=", "broker=x", "kafka=9092", "sql=0", "sql=70000"])
def test_a_port_of_no_service_is_refused_by_name(run: Run, given: str) -> None:
    found = run(f"dev --port {given}")
    assert found.code == 1 and f"not {given}" in found.err and "broker, registry, connect, sql, console" in found.err


def test_only_links_of_consoles_that_answer_are_told_the_newest_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    folder = console_links.links_folder()
    with socket.create_server((HOST, 0)) as first, socket.create_server((HOST, 0)) as second:
        own, other = (f"{HOST}:{each.getsockname()[1]}" for each in (first, second))
        with console_links.kept_links() as keep:
            keep("http://127.0.0.1:1/#key=gone")
            keep(f"http://{own}/#key=a")
            (folder / "1.link").write_text(f"http://{other}/#key=b")
            (folder / "2.link").write_text("http://127.0.0.1:1/#key=gone")
            (folder / "3.link").write_bytes(b"\xff")
            (folder / "4.link").write_text("http://[cut")
            now = time.time()
            for age, name in enumerate(("2", "1", str(os.getpid()))):
                os.utime(folder / f"{name}.link", (now - age, now - age))
            assert console_links.newest_link() == f"http://{other}/#key=b"
            assert console_links.newest_link(own) == f"http://{own}/#key=a"
            assert console_links.newest_link(own.replace(HOST, "localhost")) == f"http://{own}/#key=a"
            assert console_links.newest_link(f"{HOST}:1") is None
            assert (folder.stat().st_mode & 0o777, (folder / f"{os.getpid()}.link").stat().st_mode & 0o777) == (
                0o700,
                0o600,
            )
        assert not (folder / f"{os.getpid()}.link").exists()


def test_a_user_without_a_home_has_neither_links_nor_contexts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for each in ("XDG_STATE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(each, raising=False)
    monkeypatch.setattr(Path, "home", homeless)
    monkeypatch.chdir(tmp_path)
    with console_links.kept_links() as keep:
        keep("http://127.0.0.1:1/#key=a")
        assert console_links.newest_link() is None
    assert contexts.known_contexts()[0] == {}


def homeless() -> Path:
    raise RuntimeError("Could not determine home directory.")


def test_a_folder_with_a_comma_is_refused_for_it_would_be_two(run: Run, tmp_path: Path) -> None:
    found = run(f"dev --folder {tmp_path / 'a,b'}")
    assert found.code == 1 and "told apart by commas (log.dirs)" in found.err and not list(tmp_path.iterdir())


def test_it_ends_where_nobody_reads_any_more_what_it_says(tmp_path: Path) -> None:
    env = {**os.environ, "TMPDIR": str(tmp_path), "XDG_STATE_HOME": str(tmp_path / "state")}
    ports = [f"--port={each.name}={free_port()}" for each in fields(Places)]
    with subprocess.Popen(
        [sys.executable, "-m", "ottla.cli.main", "dev", "--empty", "--no-browser", *ports],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=env,
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        while not process.stdout.readline().startswith("registry"):  # what it says next is the console's, in its start
            assert process.poll() is None, process.stderr.read()
        process.stdout.close()
        assert (process.stderr.read(), process.wait(60)) == ("", 0)
    assert not list(tmp_path.glob("ottla-dev-*")) and not list(tmp_path.glob("state/ottla/consoles/*"))


def test_a_second_one_in_a_folder_is_refused_and_leaves_what_the_first_ones_broker_has_said(tmp_path: Path) -> None:
    log = tmp_path / "broker.log"

    async def story() -> None:
        first, second = (services.Broker(Places(broker=free_port(), registry=1), tmp_path) for _ in range(2))
        await first.start()
        said = log.read_bytes()
        assert b"ready " in said
        with pytest.raises(OttlaError, match=r"the broker did not start: .*(lock|in use)"):
            await second.start()
        assert log.read_bytes().startswith(said)
        await first.stop()

    asyncio.run(story())


def test_a_closed_terminal_stops_a_server_as_it_should_and_nohup_keeps_it(tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGHUP)
    seen: list[int] = []

    async def signalled(times: int) -> None:
        serving.take_signals(seen.append, lambda: bool(seen))
        for _ in range(times):
            os.kill(os.getpid(), signal.SIGHUP)  # by the shell, and by the system
            await asyncio.sleep(0)
        await asyncio.sleep(0)

    try:
        asyncio.run(signalled(2))
        assert seen == [signal.SIGHUP]
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        asyncio.run(signalled(1))
        assert seen == [signal.SIGHUP] and signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_input_that_nobody_holds_has_ended(tmp_path: Path) -> None:
    settings = ("--override", "listeners=PLAINTEXT://127.0.0.1:0", "--override", f"log.dirs={tmp_path}")
    done = subprocess.run(
        [sys.executable, "-m", "ottla.cli.main", "server", "start", "--ends-with-input", *settings],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0 and "cannot listen" not in done.stderr, done.stderr


def test_a_folder_that_cannot_be_made_is_said_in_a_line(run: Run, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    found = run(f"dev --folder {tmp_path / 'file' / 'x'}")
    lines: Sequence[str] = found.err.splitlines()
    assert found.code == 1 and lines[-1].startswith("ottla dev: ") and "cannot be made: Not a directory" in lines[-1]
