"""A private MariaDB: Debian's package installed where it is missing, and a server in a folder that goes away.

`python -m tools.mariadb install` installs it; `python -m tools.mariadb run -- COMMAND …` runs a command beside a fresh
server, whose URL stands in `OTTLA_MARIADB_URL`. Tests and demonstrations use `MariaDbServer`.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from tests.ports import free_port

__all__ = ["PASSWORD", "USER", "MariaDbServer", "install", "missing", "private_server", "program"]

PACKAGE = "mariadb-server"
INSTALLER, SERVER = "mariadb-install-db", "mariadbd"
USER, PASSWORD = "ottla", "s3cret-of-the-tests"
READY_SECONDS_MAX = 100.0
STOP_SECONDS_MAX = 100.0
INSTALL_SECONDS_MAX = 300.0
GREETING_BYTES = 5
"""A packet's header and the version of the protocol, which a server sends that takes connections."""
CAPTURED = ("--log-bin=binlog", "--binlog-format=ROW", "--binlog-row-image=FULL", "--server-id=1")
"""What a server needs for its changes to be captured."""
_COMMON = ("--innodb-flush-log-at-trx-commit=0", "--innodb-buffer-pool-size=32M", "--default-time-zone=+00:00")
_PR_SET_PDEATHSIG = 1


def program(name: str) -> str | None:
    """Return the path of one of MariaDB's programs, None where it is not installed."""
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin")


def install() -> None:
    """Install Debian's package; raises RuntimeError, with the line to type, where that cannot be done here."""
    how = f"MariaDB is not installed: apt-get install {PACKAGE}"
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        raise RuntimeError(how)
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (["apt-get", "update", "-qq"], ["apt-get", "install", "-y", "-qq", PACKAGE]):
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=INSTALL_SECONDS_MAX, check=False
        )
        if done.returncode != 0:
            raise RuntimeError(f"{how} ({' '.join(command)} failed: {done.stderr.strip()[-300:]})")


@cache
def missing() -> str | None:
    """Return why no MariaDB can run here, None where one can; installs it first where it is not there."""
    if program(INSTALLER) is None or program(SERVER) is None:
        try:
            install()
        except (RuntimeError, subprocess.TimeoutExpired) as error:
            return str(error)
    if program(INSTALLER) is None or program(SERVER) is None:
        return f"MariaDB's programs were not found behind apt-get install {PACKAGE}"
    return None


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


@dataclass
class MariaDbServer:
    """A data folder in `folder` and the server on it, which can be killed and started again on its port."""

    folder: Path
    options: Sequence[str] = ()
    port: int = 0
    process: subprocess.Popen[bytes] | None = None
    _made: int = field(default=0, repr=False)

    @property
    def url(self) -> str:
        """The URL of its first database, as SQLAlchemy writes it, password included."""
        return f"mariadb+pymysql://{USER}:{PASSWORD}@127.0.0.1:{self.port}/test"

    def init(self) -> None:
        """Make the data folder; `USER` with `PASSWORD` may do everything."""
        self.folder.mkdir(parents=True, exist_ok=True)
        made = [self._program(INSTALLER), "--no-defaults", f"--datadir={self.folder / 'data'}", *self._as_root()]
        own = {**os.environ, "TMPDIR": str(self.folder)}  # temporary tables of two at once may have the same name
        done = subprocess.run(
            [*made, "--auth-root-authentication-method=normal"], env=own, capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise RuntimeError(f"{INSTALLER} failed: {done.stdout}\n{done.stderr}")
        (self.folder / "start.sql").write_text(
            f"SET sql_log_bin = 0;\nCREATE OR REPLACE USER '{USER}'@'127.0.0.1' IDENTIFIED BY '{PASSWORD}';\n"
            f"GRANT ALL ON *.* TO '{USER}'@'127.0.0.1' WITH GRANT OPTION;\n"
            "CREATE DATABASE IF NOT EXISTS test CHARACTER SET utf8mb4;\n"
        )

    def start(self) -> None:
        """Start the server; returns when it takes connections, raises RuntimeError with its log when it does not."""
        self.port = self.port or free_port()
        command = [self._program(SERVER), "--no-defaults", f"--datadir={self.folder / 'data'}", *self._as_root()]
        command += [f"--port={self.port}", "--bind-address=127.0.0.1", f"--socket={self.folder / 'socket'}"]
        command += [f"--tmpdir={self.folder}", f"--init-file={self.folder / 'start.sql'}", *_COMMON, *self.options]
        with (self.folder / "log").open("ab") as out:
            self.process = subprocess.Popen(command, stdout=out, stderr=out, preexec_fn=_die_with_parent)
        deadline = time.monotonic() + READY_SECONDS_MAX
        while not self._answers():
            if self.process.poll() is not None or time.monotonic() > deadline:
                log = (self.folder / "log").read_text(errors="replace")
                self.kill()
                raise RuntimeError(f"MariaDB did not start:\n{log[-2000:]}")
            time.sleep(0.02)

    def _answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), 1.0) as connection:
                return len(connection.recv(GREETING_BYTES)) == GREETING_BYTES
        except OSError:
            return False

    def stop(self) -> None:
        """End the server in good order."""
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """End the server as a crash does; it recovers when it starts again."""
        self._signal(signal.SIGKILL)

    def _signal(self, number: int) -> None:
        if self.process is None:
            return
        if self.process.poll() is None:
            self.process.send_signal(number)
            try:
                self.process.wait(STOP_SECONDS_MAX)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.process = None

    def new_database(self) -> str:
        """Return the name of a database that is not there yet."""
        self._made += 1
        return f"db{self._made}"

    def _program(self, name: str) -> str:
        found = program(name)
        if found is None:
            raise RuntimeError(missing() or f"{name} was not found")
        return found

    def _as_root(self) -> list[str]:
        return ["--user=root"] if os.geteuid() == 0 else []


@contextmanager
def private_server(options: Sequence[str] = CAPTURED) -> Iterator[MariaDbServer]:
    """Run a fresh server on loopback until the block ends; raises RuntimeError where none can run."""
    reason = missing()
    if reason is not None:
        raise RuntimeError(reason)
    folder = Path(tempfile.mkdtemp(prefix="ottla-mariadb-"))
    server = MariaDbServer(folder, options)
    try:
        server.init()
        server.start()
        yield server
    finally:
        server.kill()  # nothing is kept, so nothing need be written
        shutil.rmtree(folder, ignore_errors=True)


def main(argv: Sequence[str]) -> int:
    """Install MariaDB, or run a command beside a private server; returns the exit code."""
    if list(argv) == ["install"]:
        reason = missing()
        print(reason or f"MariaDB is installed: {program(SERVER)}")
        return 0 if reason is None else 1
    if len(argv) > 2 and list(argv[:2]) == ["run", "--"]:
        with private_server() as server:
            environment = {**os.environ, "OTTLA_MARIADB_URL": server.url}
            return subprocess.run(list(argv[2:]), env=environment, check=False).returncode
    print("usage: mariadb.py install | mariadb.py run -- COMMAND [ARGUMENT …]")
    return 2


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except RuntimeError as failure:
        sys.exit(f"mariadb: {failure}")
