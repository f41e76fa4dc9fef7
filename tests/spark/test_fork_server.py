"""Spark's Python processes are forks of one that has imported already; where it is gone, they start by themselves."""

from __future__ import annotations

import fcntl
import os
import signal
import socket
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ottla.spark.fork_server import ForkServer, start_fork_server
from tests.processes import below, command_of, python_workers
from tests.waiting import until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DAEMON = ("-m", "pyspark.daemon", "pyspark.worker")


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder with a short name: a socket's path has 107 bytes at most, and pytest's own folders have nearly as many."""
    with tempfile.TemporaryDirectory(prefix="fork-") as found:
        yield Path(found)


@pytest.fixture(scope="module")
def server() -> Iterator[ForkServer]:
    found = ForkServer(["numpy"])
    yield found
    found.close()


def daemon(python: str, folder: Path) -> subprocess.Popen[bytes]:
    """Start Spark's daemon as its JVM does: it makes a socket in a folder and says which."""
    own = {
        "PYTHONHASHSEED": "0",
        "PYTHON_UNIX_DOMAIN_ENABLED": "true",
        "PYTHON_WORKER_FACTORY_SOCK_DIR": str(folder),
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    pipe = subprocess.PIPE
    return subprocess.Popen([python, *DAEMON], stdin=pipe, stdout=pipe, env={**os.environ, **own})


def socket_of(process: subprocess.Popen[bytes]) -> Path:
    """Return the socket that a daemon has said it listens at."""
    assert process.stdout is not None
    length = int.from_bytes(process.stdout.read(4), "big")
    return Path(process.stdout.read(length).decode())


def children(server: ForkServer) -> set[int]:
    assert server.pid is not None
    return below(server.pid) - {server.pid}


def test_a_daemon_is_a_fork_with_the_environment_and_the_streams_of_its_stub(server: ForkServer, folder: Path) -> None:
    process = daemon(server.python, folder)
    assert socket_of(process).parent == folder
    assert len(children(server)) == 1
    assert process.stdin is not None
    process.stdin.close()  # so Spark's JVM ends it
    process.wait(60)
    until(lambda: not children(server))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_fork_ends_when_its_stub_is_ended(server: ForkServer, folder: Path, number: signal.Signals) -> None:
    process = daemon(server.python, folder)
    socket_of(process)
    process.send_signal(number)
    process.wait(60)
    until(lambda: not children(server))


def test_a_stub_ends_with_the_exit_code_and_the_words_of_what_it_stands_for(server: ForkServer) -> None:
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    for given in (["--version"], ["no-such-command"]):
        command = ["-m", "ottla.cli.main", *given]
        found, wanted = (
            subprocess.run([python, *command], capture_output=True, env=environment, check=False)
            for python in (server.python, sys.executable)
        )
        assert (found.returncode, found.stdout, found.stderr) == (wanted.returncode, wanted.stdout, wanted.stderr)


def test_what_is_no_module_of_sparks_is_run_by_the_interpreter_itself(server: ForkServer) -> None:
    words = "import sys; print(sys.argv[1:], sys.flags.isolated, 'numpy' in sys.modules)"
    found = subprocess.run([server.python, "-c", words, "a"], capture_output=True, text=True, check=True)
    assert found.stdout == "['a'] 0 False\n"


def test_processes_that_hash_otherwise_are_not_forked(server: ForkServer) -> None:
    words = ["-m", "ottla.cli.main", "--version"]
    found = subprocess.run([server.python, *words], env={**os.environ, "PYTHONHASHSEED": "7"}, check=False)
    assert found.returncode == 0 and not children(server)


def is_the_daemon_itself(server: ForkServer, folder: Path) -> bool:
    """Start Spark's daemon by a server's stub, and return whether the stub has become it."""
    return is_the_daemon_itself_by(server.python, folder)


def is_the_daemon_itself_by(python: str, folder: Path) -> bool:
    process = daemon(python, folder)
    try:
        assert socket_of(process).parent == folder
        return command_of(process.pid).split()[1:] == [*DAEMON]
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_without_its_server_a_stub_is_the_daemon_itself(folder: Path, number: signal.Signals) -> None:
    server = ForkServer([])
    assert server.pid is not None
    os.kill(server.pid, number)
    until(lambda: not server.runs)
    assert is_the_daemon_itself(server, folder)
    server.close()


@pytest.mark.parametrize(
    "fault",
    [
        "import os\ndef fork(): raise BlockingIOError('no more processes')\nos.fork = fork",
        "import os\ndef fork(): raise MemoryError\nos.fork = fork",  # that ends the server itself
        "import ottla.no_such_module",
    ],
    ids=["no-process", "no-memory", "no-module"],
)
def test_a_server_that_cannot_do_it_leaves_its_stubs_to_themselves(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    (tmp_path / "broken_server.py").write_text(fault)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    server = ForkServer(["broken_server"])
    for _ in range(2):
        assert is_the_daemon_itself(server, folder)
    server.close()


def test_what_clears_temporary_folders_leaves_the_stub_alone(server: ForkServer) -> None:
    """systemd-tmpfiles passes over a folder that somebody has locked."""
    folder = os.open(Path(server.python).parent, os.O_RDONLY)
    try:
        with pytest.raises(BlockingIOError):
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    finally:
        os.close(folder)


@pytest.mark.parametrize("sent", [b"", b"nonsense\n", b'{"module": 1}\n', b"x" * 100_000], ids=len)
def test_an_order_that_is_none_forks_nothing_and_ends_nothing(server: ForkServer, tmp_path: Path, sent: bytes) -> None:
    with socket.socket(socket.AF_UNIX) as stub:
        stub.connect(str(Path(server.python).parent / "socket-0"))
        assert stub.recv(1) == b"R"
        stub.sendall(sent)
        stub.shutdown(socket.SHUT_WR)
        assert stub.recv(1) == b""
    assert not children(server) and server.runs


def test_a_server_ends_with_its_owner_and_its_folder_with_it(tmp_path: Path) -> None:
    words = "from ottla.spark.fork_server import ForkServer; print(ForkServer([]).python, flush=True); input()"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    pipe = subprocess.PIPE
    owner = subprocess.Popen([sys.executable, "-c", words], stdin=pipe, stdout=pipe, env=environment)
    assert owner.stdout is not None
    folder = Path(owner.stdout.readline().decode().strip()).parent
    assert folder.stat().st_mode & 0o777 == 0o700
    owner.kill()
    owner.wait()
    until(lambda: not folder.exists(), "the folder's end")


EARLY = """
import logging, sys
from ottla.spark.fork_server import fork_early, start_fork_server
logging.basicConfig()
server = fork_early(["numpy"])
assert server is not None and start_fork_server(["numpy"]) is server
print(server.python, server.pid, flush=True)
input()
server.close()
"""


@pytest.fixture
def owner() -> Iterator[subprocess.Popen[str]]:
    """A process that has had itself forked to be a server; its first line is said, and it waits for one."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    pipe = subprocess.PIPE
    found = subprocess.Popen([sys.executable, "-c", EARLY], stdin=pipe, stdout=pipe, env=environment, text=True)
    yield found
    found.kill()
    found.wait()


def said_by(owner: subprocess.Popen[str]) -> tuple[str, int]:
    """Return the stub and the number of its server."""
    assert owner.stdout is not None
    python, pid = owner.stdout.readline().split()
    return python, int(pid)


def test_a_process_may_be_forked_to_be_the_server_itself(owner: subprocess.Popen[str], folder: Path) -> None:
    python, pid = said_by(owner)
    process = daemon(python, folder)
    assert socket_of(process).parent == folder
    [forked] = below(pid) - {pid}
    assert command_of(forked) == command_of(owner.pid), "it has executed nothing"
    process.kill()
    process.wait()
    until(lambda: below(pid) == {pid})
    os.kill(pid, signal.SIGTERM)  # as a supervisor does to every process, and the owner is not done yet
    assert not is_the_daemon_itself_by(python, folder)
    assert owner.stdin is not None
    owner.stdin.write("\n")
    owner.stdin.close()
    assert owner.wait(60) == 0
    until(lambda: not Path(python).exists() and not command_of(pid))


def test_a_server_that_was_forked_ends_with_its_owner_however_that_ends(owner: subprocess.Popen[str]) -> None:
    python, pid = said_by(owner)
    owner.kill()
    owner.wait()
    until(lambda: not Path(python).parent.exists() and not command_of(pid))


def test_a_process_with_threads_is_not_forked_and_imports_nothing() -> None:
    words = """
import sys, threading
from ottla.spark.fork_server import fork_early
is_over = threading.Event()
threading.Thread(target=is_over.wait).start()
assert fork_early(["numpy"]) is None and "numpy" not in sys.modules
is_over.set()
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-c", words], env=environment, check=True, timeout=100)


def test_where_nothing_can_be_executed_there_is_no_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert start_fork_server(["numpy.linalg"]) is None


@pytest.mark.spark
def test_a_sessions_workers_are_forks_and_draw_numbers_of_their_own(spark: SparkSession) -> None:
    def drawn(_: int) -> tuple[int, float]:
        import time

        import numpy

        time.sleep(0.2)  # so that another worker takes the other number
        return os.getpid(), float(numpy.random.random())

    found = dict(spark.sparkContext.parallelize(range(2), 2).map(drawn).collect())
    assert len(found) == len(set(found.values())) == 2
    assert set(found) <= set(python_workers(below(os.getpid())))
    parts = {pid: command_of(pid) for pid in found}
    assert all("ottla.spark.fork_server" in command for command in parts.values()), parts
    assert os.environ.get("PYSPARK_PYTHON", sys.executable) == sys.executable, "the stub is for Spark alone"


@pytest.mark.parametrize(("module", "expected"), [("ottla.spark.connect.daemon", 0), ("ottla.spark.first_array", 1)])
def test_pandas_is_brought_in_before_anything_is_forked_or_by_no_fork(module: str, expected: int) -> None:
    pytest.importorskip("pandas")
    imported = f"import sys, {module}, pyarrow; pyarrow.array([b'']); sys.exit('pandas' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", imported], check=False, timeout=100).returncode == expected


def test_a_task_that_begins_imports_and_looks_for_nothing_more() -> None:
    program = """
import importlib.metadata, socket, sys
import ottla.spark.connect.daemon
from ottla.spark.connect.executor import plugins_of
import numpy as np
def refused(*args, **given): raise AssertionError("each task looks for plugins")
importlib.metadata.entry_points = refused
before = set(sys.modules)
assert plugins_of(()).connector("FileStreamSource")
assert plugins_of(("/nowhere",)).connector("FileStreamSource")
socket.getaddrinfo("127.0.0.1", 9092)
np.ma.masked_array([1])
print(sorted(set(sys.modules) - before))
"""
    found = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True, timeout=100)
    assert found.stdout == "[]\n"


def test_a_fork_searches_no_archive_of_what_it_has_and_finds_those_of_its_user(
    spark: SparkSession, tmp_path: Path
) -> None:
    archive = tmp_path / "ottla_test_archive.zip"
    with zipfile.ZipFile(archive, "w") as made:
        made.writestr("ottla_test_archived.py", "WORD = 'found'\n")
    spark.sparkContext.addPyFile(str(archive))

    def seen(_: int) -> tuple[list[str], str]:
        import ottla_test_archived
        import py4j.java_gateway
        import pyspark.sql.functions

        assert pyspark.sql.functions and py4j.java_gateway
        places = [Path(each).name for each in sys.path]
        ours = [each for each in places if each.endswith(".jar") or each.startswith(("pyspark.zip", "py4j-"))]
        return ours, ottla_test_archived.WORD

    assert spark.sparkContext.parallelize([0], 1).map(seen).collect() == [([], "found")]
