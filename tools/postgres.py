"""A private PostgreSQL: Debian's packages installed where they are missing, and a cluster in a folder that goes away.

`python -m tools.postgres install` installs it; `python -m tools.postgres run [SETTING=VALUE …] -- COMMAND …` runs a command
beside a fresh cluster, whose URL stands in `OTTLA_POSTGRES_URL`. Tests and demonstrations use `PostgresServer`.
"""

from __future__ import annotations

import ctypes
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from tests.ports import free_port

__all__ = ["PostgresServer", "binaries", "install", "missing", "private_cluster"]

PACKAGE = "postgresql"
USER = "ottla"
PASSWORD = "s3cret-of-the-tests"
READY_SECONDS_MAX = 100.0
STOP_SECONDS_MAX = 100.0
INSTALL_SECONDS_MAX = 300.0
_SETTINGS = {
    "fsync": "off",
    "full_page_writes": "off",
    "shared_buffers": "32MB",
    "max_connections": "60",
    "listen_addresses": "127.0.0.1",
    "logging_collector": "off",
    "timezone": "UTC",
}
_PR_SET_PDEATHSIG = 1


def binaries() -> Path | None:
    """Return the folder of the newest PostgreSQL's programs that is installed, None where there is none."""
    on_path = shutil.which("initdb")
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda each: _version(each.parent.name))
    found = [each for each in folders if (each / "initdb").exists() and (each / "postgres").exists()]
    return found[-1] if found else Path(on_path).resolve().parent if on_path else None


def _version(name: str) -> int:
    return int(name) if name.isdigit() else 0


def install() -> None:
    """Install Debian's package; raises RuntimeError, with the line to type, where that cannot be done here."""
    how = f"PostgreSQL is not installed: apt-get install {PACKAGE}"
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
    """Return why no PostgreSQL can run here, None where one can; installs it first where it is not there."""
    if binaries() is None:
        try:
            install()
        except (RuntimeError, subprocess.TimeoutExpired) as error:
            return str(error)
    if binaries() is None:
        return f"PostgreSQL's programs were not found behind apt-get install {PACKAGE}"
    return None


def _unprivileged() -> pwd.struct_passwd | None:
    """Return whom the server runs as: PostgreSQL refuses root, so then as Debian's own user, or nobody."""
    if os.geteuid() != 0:
        return None
    known = {each.pw_name: each for each in pwd.getpwall()}
    return known.get("postgres") or known["nobody"]


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGQUIT)


@dataclass
class PostgresServer:
    """A cluster in `folder` and the server on it, which can be killed and started again on its port."""

    folder: Path
    port: int = 0
    process: subprocess.Popen[bytes] | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    """What is set beside what all of them have."""
    _made: int = field(default=0, repr=False)

    @property
    def url(self) -> str:
        """The URL of its first database, as SQLAlchemy writes it, password included."""
        return self.url_of("postgres")

    def url_of(self, database: str) -> str:
        """Return the URL of one of its databases."""
        return f"postgresql+psycopg://{USER}:{PASSWORD}@127.0.0.1:{self.port}/{database}"

    def jdbc_url(self, database: str) -> str:
        """Return the URL of one of its databases as JDBC writes it, without user and password."""
        return f"jdbc:postgresql://127.0.0.1:{self.port}/{database}"

    def init(self) -> None:
        """Make the cluster; its superuser is `USER` with `PASSWORD`."""
        user = _unprivileged()
        self.folder.mkdir(parents=True, exist_ok=True)
        secret = self.folder / "password"
        secret.write_text(PASSWORD)
        if user is not None:
            for path in (self.folder, secret):
                os.chown(path, user.pw_uid, user.pw_gid)
        options = ["--username", USER, "--pwfile", str(secret), "--auth", "scram-sha-256"]
        options += ["--encoding", "UTF8", "--locale", "C", "--no-sync", "--no-instructions"]
        done = subprocess.run(
            [str(self._program("initdb")), "-D", str(self.folder / "data"), *options],
            **self._as_user(),
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise RuntimeError(f"initdb failed: {done.stdout}\n{done.stderr}")

    def start(self) -> None:
        """Start the server; returns when it takes connections, raises RuntimeError with its log when it does not."""
        self.port = self.port or free_port()
        settings = {**_SETTINGS, **self.settings, "port": str(self.port), "unix_socket_directories": str(self.folder)}
        command = [str(self._program("postgres")), "-D", str(self.folder / "data")]
        for name, value in settings.items():
            command += ["-c", f"{name}={value}"]
        with (self.folder / "log").open("ab") as out:
            self.process = subprocess.Popen(
                command, stdout=out, stderr=out, preexec_fn=_die_with_parent, **self._as_user()
            )
        ready = [str(self._program("pg_isready")), "-q", "-h", "127.0.0.1", "-p", str(self.port)]
        deadline = time.monotonic() + READY_SECONDS_MAX
        while subprocess.run(ready, check=False).returncode != 0:
            if self.process.poll() is not None or time.monotonic() > deadline:
                log = (self.folder / "log").read_text(errors="replace")
                self.kill()
                raise RuntimeError(f"PostgreSQL did not start:\n{log[-2000:]}")
            time.sleep(0.02)

    def stop(self) -> None:
        """End the server in good order: connections are closed, what is committed is on disk."""
        self._signal(signal.SIGINT)

    def kill(self) -> None:
        """End the server as a crash does; it recovers when it starts again."""
        self._signal(signal.SIGQUIT)

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
        """Make an empty database and return its name."""
        self._made += 1
        name = f"db{self._made}"
        command = [
            str(self._program("psql")),
            "-q",
            "-h",
            "127.0.0.1",
            "-p",
            str(self.port),
            "-U",
            USER,
            "-d",
            "postgres",
        ]
        subprocess.run(
            [*command, "-c", f"CREATE DATABASE {name} STRATEGY FILE_COPY"],
            check=True,
            env={**os.environ, "PGPASSWORD": PASSWORD},
            capture_output=True,
        )
        return name

    def _program(self, name: str) -> Path:
        folder = binaries()
        if folder is None:
            raise RuntimeError(missing() or "PostgreSQL's programs were not found")
        return folder / name

    def _as_user(self) -> dict[str, Any]:
        user = _unprivileged()
        common: dict[str, Any] = {"cwd": self.folder}
        return common if user is None else {**common, "user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}


@contextmanager
def private_cluster(settings: Mapping[str, str] | None = None) -> Iterator[PostgresServer]:
    """Run a fresh cluster on loopback until the block ends; raises RuntimeError where none can run."""
    reason = missing()
    if reason is not None:
        raise RuntimeError(reason)
    folder = Path(tempfile.mkdtemp(prefix="ottla-postgres-"))
    server = PostgresServer(folder, settings=settings or {})
    try:
        server.init()
        server.start()
        yield server
    finally:
        server.kill()  # nothing is kept, so nothing need be written
        shutil.rmtree(folder, ignore_errors=True)


def main(argv: Sequence[str]) -> int:
    """Install PostgreSQL, or run a command beside a private cluster; returns the exit code."""
    if list(argv) == ["install"]:
        reason = missing()
        print(reason or f"PostgreSQL is installed: {binaries()}")
        return 0 if reason is None else 1
    if argv and argv[0] == "run" and "--" in argv[1:-1]:
        at = list(argv).index("--")
        settings = dict(each.split("=", 1) for each in argv[1:at] if "=" in each)
        with private_cluster(settings) as server:
            return subprocess.run(
                list(argv[at + 1 :]), env={**os.environ, "OTTLA_POSTGRES_URL": server.url}, check=False
            ).returncode
    print("usage: postgres.py install | postgres.py run [SETTING=VALUE …] -- COMMAND [ARGUMENT …]")
    return 2


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except RuntimeError as failure:
        sys.exit(f"postgres: {failure}")
