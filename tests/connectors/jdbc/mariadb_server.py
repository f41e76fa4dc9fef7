"""A private MariaDB in a folder that goes away, where its programs and a driver are installed."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import sqlalchemy as sa

from tests.ports import free_port
from tests.processes import end
from tests.waiting import until

__all__ = ["PASSWORD", "USER", "missing", "running_mariadb"]

USER, PASSWORD = "ottla", "s3cret-of-the-tests"
SECONDS_MAX = 60.0
INSTALLER, SERVER, DRIVER = "mariadb-install-db", "mariadbd", "pymysql"


def missing() -> str | None:
    """Return why no MariaDB can run here, None where one can."""
    if shutil.which(INSTALLER) is None or _server() is None:
        return "MariaDB is not installed: apt-get install mariadb-server"
    if importlib.util.find_spec(DRIVER) is None:
        return f"MariaDB's driver is not installed: pip install {DRIVER}"
    return None


def _server() -> str | None:
    return shutil.which(SERVER, path=f"{os.environ.get('PATH', '')}:/usr/sbin")


@contextmanager
def running_mariadb(folder: Path, options: Sequence[str] = ()) -> Iterator[int]:
    """Run a server until the block ends; yields its port on this machine."""
    data, port = folder / "data", free_port()
    as_root = ["--user=root"] if os.geteuid() == 0 else []
    made = [INSTALLER, "--no-defaults", f"--datadir={data}", "--auth-root-authentication-method=normal", *as_root]
    subprocess.run(made, check=True, capture_output=True, timeout=SECONDS_MAX)
    start = folder / "start.sql"
    start.write_text(
        f"CREATE USER '{USER}'@'127.0.0.1' IDENTIFIED BY '{PASSWORD}';\n"
        f"GRANT ALL ON *.* TO '{USER}'@'127.0.0.1';\nCREATE OR REPLACE DATABASE test CHARACTER SET utf8mb4;\n"
    )
    server = _server()
    assert server is not None
    command = [server, "--no-defaults", f"--datadir={data}", f"--port={port}", "--bind-address=127.0.0.1", *as_root]
    command += [f"--socket={folder / 'socket'}", f"--init-file={start}", *options]
    with (folder / "server.log").open("ab") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        until(lambda: _answers(port), "MariaDB", seconds=SECONDS_MAX)
        yield port
    finally:
        end(process, SECONDS_MAX)


def _answers(port: int) -> bool:
    engine = sa.create_engine(f"mariadb+{DRIVER}://{USER}:{PASSWORD}@127.0.0.1:{port}/test", poolclass=sa.NullPool)
    try:
        with engine.connect():
            return True
    except sa.exc.OperationalError:
        return False
    finally:
        engine.dispose()
