"""Visitors of a broker beside its load: they shake hands, stand idle, flood it, or change its ACLs.

Each kind is a process of its own (`python -m bench.visitors JSON`) that costs the machine little. Those who stay say
`here` and go when their input ends; the last line that any of them prints says in JSON what was done, in how many seconds.
"""

from __future__ import annotations

import asyncio
import json
import resource
import selectors
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from typing import Any

from bench.protection import HELLO, ask, context, login_requests, protected
from ottla.client import BlockingClient, Client
from ottla.security import Operation, PatternType, PermissionType, Resource
from ottla.wire.messages.create_acls import AclCreation, CreateAclsRequest
from ottla.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest

__all__ = ["Visit", "create_acls", "staying", "visited"]

VISIT_SECONDS_MAX = 300
THREADS = 4
"""Handshakes that are under way at a time; OpenSSL needs no interpreter for them."""
OPEN_MAX = 500
"""Connections of a flood that wait for an answer at a time."""
WRONG = "nobody:wrong"
BURST_S = 0.01
"""How much of what is late is made up for."""
CHANGERS = 16
"""Clients that change ACLs beside each other: a change is answered when it is durable, one at a time on a connection."""
ACLS_MAX = 1000
"""Entries of one CreateAcls request."""


@dataclass(frozen=True)
class Visit:
    """What is done: `full` or `resumed` handshakes, `idle` connections, a flood of `hellos` or of wrong `logins`, or
    `changes` of ACLs; those of a rate go on until they are ended.
    """

    kind: str
    port: int
    trust: str = ""
    count: int = 1000
    rate: int = 100

    def command(self) -> list[str]:
        """Return how the process is started."""
        return [sys.executable, "-m", "bench.visitors", json.dumps(asdict(self))]


def visited(visit: Visit) -> dict[str, float]:
    """Make a visit that ends by itself, and return what was done."""
    done = subprocess.run(visit.command(), capture_output=True, text=True, timeout=VISIT_SECONDS_MAX, check=False)
    return _said(done.returncode, done.stdout, done.stderr)


@contextmanager
def staying(visit: Visit) -> Iterator[dict[str, float]]:
    """Have visitors there for the length of a block; what they did is in the yielded mapping when it has ended."""
    found: dict[str, float] = {}
    process = subprocess.Popen(
        visit.command(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        if process.stdout.readline():
            yield found
        out, error = process.communicate(timeout=VISIT_SECONDS_MAX)
        found.update(_said(process.returncode, out, error))
    finally:
        process.kill()
        process.wait()


def _said(code: int, out: str, error: str) -> dict[str, float]:
    if code:
        raise RuntimeError(f"the visitors failed: {error.strip().splitlines()[-1]}")
    found: dict[str, float] = json.loads(out.splitlines()[-1])
    return found


# -- what the process does

Done = tuple[int, float]
"""How much was done, and since when."""


def shake_hands(visit: Visit) -> Done:
    """Shake hands anew each time, or resume what the connection before has left; an answered request proves each."""
    context(visit.trust)  # one for all threads: sessions are its own
    started = time.perf_counter()
    with ThreadPoolExecutor(THREADS) as threads:
        each = max(1, visit.count // THREADS)
        return sum(threads.map(lambda number: _shake_hands(visit, each), range(THREADS))), started


def _shake_hands(visit: Visit, count: int) -> int:
    resumes = visit.kind == "resumed"
    session = _session(visit, None) if resumes else None
    for _ in range(count):
        found = _session(visit, session)
        session = found if resumes else None
    return count


def _session(visit: Visit, session: ssl.SSLSession | None) -> ssl.SSLSession | None:
    with socket.create_connection(("127.0.0.1", visit.port), timeout=30) as plain:
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with protected(plain, trust=visit.trust, session=session) as secured:
            assert isinstance(secured, ssl.SSLSocket)
            ask(secured, HELLO)
            if secured.session_reused is not (session is not None):
                raise RuntimeError("the broker has not resumed a session")
            return secured.session


def stand_idle(visit: Visit) -> Done:
    """Open connections, each answered once, and keep them."""
    connections = []
    started = time.perf_counter()
    for _ in range(visit.count):
        plain = socket.create_connection(("127.0.0.1", visit.port), timeout=60)
        connections.append(protected(plain, trust=visit.trust))
        ask(connections[-1], HELLO)
    _here()
    sys.stdin.read()
    for each in connections:
        each.close()
    return len(connections), started


def begin_handshakes(visit: Visit) -> Done:
    """Send the beginning of a handshake that was made once, so that only the broker works; leave when it has answered."""
    outgoing = ssl.MemoryBIO()
    session = context(visit.trust).wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="localhost")
    with suppress(ssl.SSLWantReadError):
        session.do_handshake()
    hello = outgoing.read()
    return _flood(visit, hello, is_done=bool)


def log_in_wrongly(visit: Visit) -> Done:
    """Log in as nobody, and wait until the broker hangs up."""
    return _flood(visit, b"".join(login_requests(WRONG)), is_done=lambda received: not received)


def _flood(visit: Visit, begin: bytes, is_done: Callable[[bytes], bool]) -> Done:
    """Open connections at a rate, each for one exchange, until the input ends.

    What is late is not made up for in a burst: that would fill the broker's queue of new connections, and measure it.
    """
    done = begun = 0
    with selectors.DefaultSelector() as selector:
        selector.register(sys.stdin, selectors.EVENT_READ)
        _here()
        started = due = time.perf_counter()
        while True:
            now = time.perf_counter()
            if now >= due and begun - done < OPEN_MAX:
                selector.register(_connecting(visit.port), selectors.EVENT_WRITE)
                begun += 1
                due = max(due + 1 / visit.rate, now - BURST_S)
                continue
            for key, _ in selector.select(max(0.0, due - now)):
                if key.fileobj is sys.stdin:
                    return done, started
                connection: socket.socket = key.fileobj  # type: ignore[assignment]
                try:
                    if key.events == selectors.EVENT_WRITE:
                        connection.sendall(begin)
                        selector.modify(connection, selectors.EVENT_READ)
                        continue
                    received = connection.recv(65536)
                except ConnectionError:
                    received = b""
                if is_done(received) or not received:
                    selector.unregister(connection)
                    connection.close()
                    done += 1


def _connecting(port: int) -> socket.socket:
    """Return a connection that is about to be open."""
    connection = socket.socket()
    connection.setblocking(False)
    connection.connect_ex(("127.0.0.1", port))
    return connection


def change_acls(visit: Visit) -> Done:
    """Make entries and take them away again, at a rate, until the input ends."""
    return asyncio.run(_change_acls(visit))


async def _change_acls(visit: Visit) -> Done:
    is_over = asyncio.Event()
    asyncio.get_running_loop().add_reader(sys.stdin.fileno(), is_over.set)
    clients = [Client(f"127.0.0.1:{visit.port}") for _ in range(CHANGERS)]
    for each in clients:
        await each.metadata([])
    _here()
    started = time.perf_counter()
    changes = (_change_one(each, visit, number, is_over) for number, each in enumerate(clients))
    try:
        return sum(await asyncio.gather(*changes)), started
    finally:
        for each in clients:
            await each.close()


async def _change_one(client: Client, visit: Visit, number: int, is_over: asyncio.Event) -> int:
    """Make one entry and take it away, again and again, at its share of the rate."""
    entry = acl(f"stormy-{number}", "User:storm")
    same = DeleteAclsFilter(
        resource_type_filter=entry.resource_type,
        resource_name_filter=entry.resource_name,
        pattern_type_filter=entry.resource_pattern_type,
        principal_filter=entry.principal,
        host_filter=entry.host,
        operation=entry.operation,
        permission_type=entry.permission_type,
    )
    done, started = 0, time.perf_counter()
    while not is_over.is_set():
        request = DeleteAclsRequest(filters=[same]) if done % 2 else CreateAclsRequest(creations=[entry])
        await client.request(request, controller=True)
        done += 1
        due = started + (done + number / CHANGERS) * CHANGERS / visit.rate
        with suppress(TimeoutError):
            await asyncio.wait_for(is_over.wait(), max(0.0, due - time.perf_counter()))
    return done


def acl(
    name: str,
    principal: str,
    *,
    resource: Resource = Resource.TOPIC,
    pattern: PatternType = PatternType.LITERAL,
    operation: Operation = Operation.WRITE,
    permission: PermissionType = PermissionType.ALLOW,
) -> AclCreation:
    """Return an entry, from everywhere."""
    return AclCreation(
        resource_type=resource,
        resource_name=name,
        resource_pattern_type=pattern,
        principal=principal,
        host="*",
        operation=operation,
        permission_type=permission,
    )


def create_acls(bootstrap: str, entries: list[AclCreation]) -> None:
    """Have a broker take entries in; raises RuntimeError for one that it refuses."""
    with BlockingClient(bootstrap) as client:
        for first in range(0, len(entries), ACLS_MAX):
            part = entries[first : first + ACLS_MAX]
            for result in client.request(CreateAclsRequest(creations=part), controller=True).results:
                if result.error_code:
                    raise RuntimeError(f"an ACL was answered with error {result.error_code}: {result.error_message}")


def _here() -> None:
    print("here", flush=True)


KINDS: dict[str, Callable[[Visit], Done]] = {
    "full": shake_hands,
    "resumed": shake_hands,
    "idle": stand_idle,
    "hellos": begin_handshakes,
    "logins": log_in_wrongly,
    "changes": change_acls,
}


def main(argv: list[str]) -> int:
    """Make one visit and print what was done."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 4096)), hard))
    visit = Visit(**json.loads(argv[0]))
    done, started = KINDS[visit.kind](visit)
    result: dict[str, Any] = {"done": done, "seconds": time.perf_counter() - started}
    print(json.dumps(result), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
