"""A process that has imported what Spark's Python processes need, and forks each of them: its imports are paid for once.

Spark starts a Python of its own for every kind of work: to find data sources, to make one, to plan its reading, to run
tasks. Each of them imports PySpark, NumPy, Arrow and us, a second of a processor, one after the other on the way to a first
result. A local session starts this process beside its JVM, and tells Spark that Python is `python_stub`, which gives its
arguments, environment and standard streams to this process; a child that is forked for them goes on in its place.

They talk over a Unix socket in a folder that only this user can enter. After a connection is accepted:

1. here `READY`, when everything is imported; until then the stub may change its mind;
2. there an order (`_Order`), a line of JSON, and the descriptors 0, 1 and 2;
3. here `FORKED`, or the connection's end where nothing could be forked: then the stub becomes the interpreter itself;
4. here, when the child has ended, a byte: its exit code. Where the stub was ended before, by SIGTERM as Java's
   `Process.destroy` does, its child gets SIGTERM.

A process that needs the same modules itself may be forked to be the server, before it has threads (`fork_early`): what
both hold of them is in memory once, and they are imported once.

The stub stays where it is for as long as the process that started the server, whatever becomes of the server: Spark runs it
for every Python process, and could run none without it.
"""

from __future__ import annotations

import atexit
import fcntl
import gc
import importlib
import json
import logging
import os
import random
import runpy
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, NoReturn, Protocol

from ottla.spark import python_stub

__all__ = ["ForkServer", "fork_early", "forked_python", "start_fork_server"]

PYTHON_VARIABLES = ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON")
ORDER_BYTES_MAX = 1 << 20
ORDER_SECONDS_MAX = 10.0
WAITING_MAX = 64
"""How many stubs may wait for an answer."""
CHILDREN_MAX = 256
PROCESS_NAME = "ottla-fork"
"""By which `ps -e` and `top` tell the server and its children."""
FIRST_LINE_MAX = 127
"""How long a first line Linux reads that names an interpreter."""
_HASH_SEED = "PYTHONHASHSEED"
_HASH_SEED_OF_SPARK = "0"
"""Python processes of one session have to hash alike; PySpark sets this unless the environment says otherwise."""


class _Process(Protocol):
    """The server's process, for who has started it."""

    @property
    def pid(self) -> int: ...

    @property
    def stdin(self) -> IO[bytes] | None:
        """Ends it when it ends."""
        ...

    def poll(self) -> int | None:
        """Return its exit code, None while it runs."""
        ...


class ForkServer:
    """The server of this process; it ends when this process does."""

    def __init__(self, modules: Sequence[str], *, early: bool = False) -> None:
        """Start it; returns at once, or `early` when this process has imported the modules and is forked.

        Raises OSError where it cannot be.
        """
        self._owner = os.getpid()
        self._process: _Process | None = None
        self._folder = Path(tempfile.mkdtemp(prefix="ottla-fork-"))  # for this user alone
        self._kept = os.open(self._folder, os.O_RDONLY)
        """Locked for as long as we live: systemd-tmpfiles, which removes from /tmp what is ten days old, leaves it alone."""
        try:
            with suppress(OSError):  # a file system without locks
                fcntl.flock(self._kept, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self.python = _written_stub(self._folder)
            self._process = (_forked if early else _launched)(self._folder, modules)
        except OSError:
            self.close()
            raise
        atexit.register(self.close)

    @property
    def runs(self) -> bool:
        """Whether the process is there."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int | None:
        """The process's number."""
        return self._process.pid if self._process is not None else None

    def close(self) -> None:
        """Let it end; what it has forked goes on until Spark ends it. A fork of its owner has nothing to end."""
        if os.getpid() != self._owner:
            return
        if self._process is not None and self._process.stdin is not None:
            with suppress(OSError):
                self._process.stdin.close()
        shutil.rmtree(self._folder, ignore_errors=True)
        if self._kept >= 0:
            os.close(self._kept)
            self._kept = -1


_servers: dict[tuple[str, ...], ForkServer] = {}
_starting = threading.Lock()


def start_fork_server(modules: Sequence[str]) -> ForkServer | None:
    """Return this process's server that imports these modules, started if need be; None where there can be none.

    It imports while a JVM starts.
    """
    if not hasattr(os, "fork") or not hasattr(socket, "AF_UNIX"):
        return None
    with _starting:
        found = _servers.get(tuple(modules))
        if found is None or not found.runs:
            try:
                found = _servers[tuple(modules)] = ForkServer(modules)
            except OSError:  # a folder where nothing may be executed, too many processes: Spark's processes do without
                return None
    return found


def fork_early(modules: Sequence[str]) -> ForkServer | None:
    """Import these modules, and have a fork of this process be the server that `start_fork_server` returns for them.

    For a program that needs much of them itself; call it before there are threads, and before anything has imported NumPy,
    whose threads would not survive. Its processes hash as this one does, alike among each other. Returns None, and imports
    nothing, where that cannot be: with other threads, and on systems other than Linux.
    """
    if sys.platform != "linux" or threading.active_count() != 1:
        return None
    with _starting:
        try:
            found = _servers[tuple(modules)] = ForkServer(modules, early=True)
        except OSError:  # as in `start_fork_server`, which is asked later
            return None
    return found


@contextmanager
def forked_python(modules: Sequence[str]) -> Iterator[None]:
    """Have a JVM and a Spark context that are made in the block run Python by forks of a process with these modules.

    Only where Spark's Python is this very interpreter. The environment names that again afterwards, for what else this
    process starts.
    """
    names = [each for each in PYTHON_VARIABLES if os.environ.get(each, sys.executable) == sys.executable]
    server = start_fork_server(modules) if names else None
    if server is not None:
        os.environ.update(dict.fromkeys(names, server.python))
    try:
        yield
    finally:
        if server is not None:
            os.environ.update(dict.fromkeys(names, sys.executable))


def _written_stub(folder: Path) -> str:
    """Write what Spark runs as its Python; raises OSError where that cannot be executed."""
    first = f"#!{sys.executable} -IS\n"
    if len(first) > FIRST_LINE_MAX or " " in sys.executable:
        raise OSError(f"{sys.executable} cannot be named in a script's first line")
    path = folder / "python"
    path.write_text(first + Path(python_stub.__file__).read_text())
    path.chmod(0o700)
    if not os.access(path, os.X_OK):
        raise OSError(f"{folder} is on a file system from which nothing is executed")
    return str(path)


def _hash_seed() -> str:
    return os.environ.get(_HASH_SEED, _HASH_SEED_OF_SPARK)


def _listener(folder: Path) -> socket.socket:
    """Return what stubs of this hash seed connect to; raises OSError."""
    listener = socket.socket(socket.AF_UNIX)
    try:
        listener.bind(str(folder / f"socket-{_hash_seed()}"))
        listener.listen(WAITING_MAX)
    except OSError:
        listener.close()
        raise
    return listener


def _launched(folder: Path, modules: Sequence[str]) -> subprocess.Popen[bytes]:
    known = [os.environ.get("PYTHONPATH", ""), str(Path(__file__).parents[2])]  # where we are
    path = os.pathsep.join(each for each in known if each)
    with _listener(folder) as listener:
        return subprocess.Popen(
            [sys.executable, "-u", "-P", "-m", __name__, str(listener.fileno()), str(folder), *modules],
            stdin=subprocess.PIPE,  # ends when we do
            stdout=subprocess.DEVNULL,
            pass_fds=[listener.fileno()],
            env={**os.environ, _HASH_SEED: _hash_seed(), "PYTHONPATH": path},
            start_new_session=True,  # Ctrl-C is for us
        )


class _Fork:
    """A forked process, as `subprocess.Popen` has one."""

    def __init__(self, pid: int, stdin: IO[bytes]) -> None:
        self.pid, self.stdin = pid, stdin
        self._code: int | None = None

    def poll(self) -> int | None:
        """See `_Process`."""
        if self._code is None:
            try:
                pid, status = os.waitpid(self.pid, os.WNOHANG)
            except ChildProcessError:  # somebody else has waited for it, or this is a fork of its owner
                pid, status = self.pid, 0
            if pid:
                self._code = os.waitstatus_to_exitcode(status)
        return self._code


def _forked(folder: Path, modules: Sequence[str]) -> _Fork:
    _load(modules)
    with _listener(folder) as listener:
        ours, end = os.pipe()
        try:
            pid = os.fork()
        except OSError:
            os.close(ours)
            os.close(end)
            raise
        if pid == 0:
            os.close(end)
            _go_on_as_server(listener, ours, folder)
        os.close(ours)
        return _Fork(pid, os.fdopen(end, "wb"))


def _go_on_as_server(listener: socket.socket, ours: int, folder: Path) -> NoReturn:
    """Be the server, in a process that was somebody else's before."""
    code = 1
    try:
        os.setsid()  # Ctrl-C is for our owner, and so is SIGTERM, which supervisors send to all processes of a service
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        _starting.release()  # what is forked may start a session of its own
        nothing = os.open(os.devnull, os.O_WRONLY)
        for given, number in ((ours, 0), (nothing, 1)):
            os.dup2(given, number)
            os.close(given)
        for each in logging.getLogger().handlers[:]:  # a task's log goes to its worker, and nowhere else
            logging.getLogger().removeHandler(each)
        _serve(listener, folder)
        code = 0
    except BaseException as error:  # never back into what the owner was about to do
        sys.excepthook(type(error), error, error.__traceback__)
    finally:
        os._exit(code)


# -- the process


@dataclass(frozen=True)
class _Order:
    """What a child is to be, as `python_stub.order` says it."""

    module: str
    arguments: list[str]
    environment: dict[str, str]
    folder: str
    blocked: list[int]
    """Signals."""

    def run(self) -> None:
        """Do what `python -m` does."""
        os.environ.clear()
        os.environ.update(self.environment)
        os.chdir(self.folder)
        given = [each for each in self.environment.get("PYTHONPATH", "").split(os.pathsep) if each]
        sys.path[:] = dict.fromkeys([self.folder, *(each for each in given if not _is_loaded(each)), *sys.path])
        sys.argv[1:] = self.arguments
        importlib.invalidate_caches()
        signal.pthread_sigmask(signal.SIG_SETMASK, self.blocked)
        sys.modules.pop(self.module, None)  # it is run, not imported
        runpy.run_module(self.module, run_name="__main__", alter_sys=True)


def _is_loaded(place: str) -> bool:
    """Return whether a place that Spark adds to the path has nothing that is not imported by now.

    These are archives of PySpark and Py4J, and a jar without Python. Each fork's first look for any module would read their
    tables of contents anew, in Python: a tenth of a second (measured).
    """
    name = os.path.basename(place)
    return name.endswith(".jar") or name == "pyspark.zip" or (name.startswith("py4j-") and name.endswith("-src.zip"))


@dataclass(frozen=True)
class _Child:
    """A child, and the connection of the stub in whose place it is."""

    pid: int
    stub: socket.socket


class _Server:
    """Forks a child for each order, and tells of its end."""

    def __init__(self, listener: socket.socket, wakeup: socket.socket) -> None:
        self._listener, self._wakeup = listener, wakeup
        self._children: dict[int, _Child] = {}
        """By the descriptor of the stub's connection."""
        self._poll = select.poll()
        for each in (0, listener.fileno(), wakeup.fileno()):
            self._poll.register(each, select.POLLIN)

    def run(self) -> None:
        """Serve until standard input ends, with the process that started this one."""
        while True:
            for ready, _ in self._poll.poll():
                if ready == 0:
                    return
                if ready == self._wakeup.fileno():
                    self._wakeup.recv(4096)
                    self._reap()
                elif ready == self._listener.fileno():
                    self._accept()
                elif ready in self._children:
                    self._end(ready)

    def _accept(self) -> None:
        stub, _ = self._listener.accept()
        stub.settimeout(ORDER_SECONDS_MAX)
        try:
            if not _is_of_this_user(stub) or len(self._children) >= CHILDREN_MAX:
                stub.close()
                return
            stub.sendall(python_stub.READY)
            order, descriptors = _received(stub)
        except (OSError, ValueError, TypeError):  # the stub has changed its mind, or is none
            stub.close()
            return
        try:
            pid = os.fork()
        except OSError:  # no memory or too many processes now; the stub sees to itself
            pid = -1
        if pid == 0:
            self._go_on_as_child(stub, order, descriptors)
        for each in descriptors:
            os.close(each)
        if pid < 0:
            stub.close()
            return
        with suppress(OSError):  # the stub is gone, and `_end` sees that
            stub.send(python_stub.FORKED)
        self._children[stub.fileno()] = _Child(pid, stub)
        self._poll.register(stub.fileno(), select.POLLIN)

    def _go_on_as_child(self, stub: socket.socket, order: _Order, descriptors: Sequence[int]) -> None:
        """Go on as the child; does not return."""
        code = 1
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            for number, each in enumerate(descriptors):
                os.dup2(each, number)
                os.close(each)
            for connection in (self._listener, self._wakeup, stub, *(each.stub for each in self._children.values())):
                connection.close()
            order.run()
            code = 0
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
        except BaseException as error:  # what a program of Spark's failed of is for Spark's log; never our loop again
            sys.excepthook(type(error), error, error.__traceback__)
        finally:
            for stream in (sys.stdout, sys.stderr):
                with suppress(OSError, ValueError):
                    stream.flush()
            os._exit(code)

    def _end(self, descriptor: int) -> None:
        """End a child whose stub is gone; it is not reaped yet, so that the number is still its own."""
        with suppress(ProcessLookupError):
            os.kill(self._children[descriptor].pid, signal.SIGTERM)
        self._poll.unregister(descriptor)

    def _reap(self) -> None:
        """Tell the stubs whose children have ended."""
        for descriptor, child in list(self._children.items()):
            pid, status = os.waitpid(child.pid, os.WNOHANG)
            if not pid:
                continue
            code = os.waitstatus_to_exitcode(status)
            with suppress(OSError):  # the stub is gone
                child.stub.send(bytes([code if 0 <= code < 256 else 1]))
            with suppress(KeyError):  # it was seen to be
                self._poll.unregister(descriptor)
            child.stub.close()
            del self._children[descriptor]


def _is_of_this_user(stub: socket.socket) -> bool:
    """Whether the other side is a process of this user, where the system tells."""
    if not hasattr(socket, "SO_PEERCRED"):
        return True
    found = stub.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return bool(struct.unpack("3i", found)[1] == os.getuid())


def _received(stub: socket.socket) -> tuple[_Order, list[int]]:
    """Receive an order and three descriptors; raises OSError, ValueError or TypeError where it is none."""
    data, descriptors, _, _ = socket.recv_fds(stub, 65536, 3)
    try:
        while not data.endswith(b"\n"):
            more = stub.recv(65536)
            if not more or len(data) + len(more) > ORDER_BYTES_MAX:
                raise ValueError("an order that is cut off, or too long")
            data += more
        if len(descriptors) != 3:
            raise ValueError("an order without its standard streams")
        return _Order(**json.loads(data)), descriptors
    except (OSError, ValueError, TypeError, RecursionError):
        for each in descriptors:
            os.close(each)
        raise


def _reseed() -> None:
    """Give a forked process random numbers of its own from NumPy; Python's `random` does that by itself."""
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is not None:
        numpy_random.seed(random.SystemRandom().getrandbits(32))


def _load(modules: Sequence[str]) -> None:
    """Import what is forked, and have it stay shared with the children."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # its threads would not survive a fork
    from ottla.spark.private_api.workers import load_planners, load_worker

    load_worker()
    load_planners()
    for module in modules:
        importlib.import_module(module)
    gc.collect()
    gc.freeze()


def _serve(listener: socket.socket, folder: Path) -> None:
    """Serve until the owner ends, and remove the folder; until then Spark runs what is in it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # as Spark's JVM, and what that starts
    with suppress(OSError):  # of Linux; the command line of an owner that was forked says something else
        Path("/proc/self/comm").write_text(PROCESS_NAME)
    os.register_at_fork(after_in_child=_reseed)
    ours, wakeup = socket.socketpair()
    for each in (ours, wakeup):
        each.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wakeup.fileno())
    _Server(listener, ours).run()
    shutil.rmtree(folder, ignore_errors=True)


def main(arguments: Sequence[str]) -> None:
    """Import, then serve; given are the listener's descriptor, its folder, and the modules."""
    listener = socket.socket(fileno=int(arguments[0]))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # while it imports, too
    _load(arguments[2:])
    _serve(listener, Path(arguments[1]))


if __name__ == "__main__":
    main(sys.argv[1:])
