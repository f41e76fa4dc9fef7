"""What is asked of a registry, from a process of its own: `python -m bench.registry_load JSON` prints what came of it.

Requests are whole before they are sent, connections stay open, and every answer's status and content is looked at. With a
rate they are sent when they are due, whatever the answers before do, and latency counts from then.
"""

from __future__ import annotations

import json
import selectors
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable
from dataclasses import asdict, dataclass

__all__ = ["Asking", "answers", "schema_text", "subject_name"]

SECONDS_MAX = 600
HEAD = "Host: localhost\r\nAccept: application/vnd.schemaregistry.v1+json"
TYPE = "Content-Type: application/vnd.schemaregistry.v1+json"


@dataclass(frozen=True)
class Asking:
    """A load: look-ups by `id`, by `subject` or of a `schema`, or schemas to `register`, new from `first` on.

    `rate` is requests a second, 0 as fast as they are answered.
    """

    kind: str
    port: int
    count: int
    known: int
    """How many subjects there are, each with the schema of its number."""
    connections: int = 8
    rate: int = 0
    first: int = 0


def subject_name(number: int) -> str:
    """Return a subject."""
    return f"orders-{number}-value"


def schema_text(number: int) -> str:
    """Return an Avro record of ten fields."""
    fields = [{"name": f"field_{each}", "type": ["null", "string"], "default": None} for each in range(9)]
    found = {
        "type": "record",
        "name": f"Order{number}",
        "namespace": "org.shop",
        "fields": [{"name": "id", "type": "long"}, *fields],
    }
    return json.dumps(found, separators=(",", ":"))


def answers(asking: Asking) -> dict[str, float]:
    """Carry a load out; returns `rate`, and `p50` and `p99` in milliseconds. Raises RuntimeError for a wrong answer."""
    command = [sys.executable, "-m", "bench.registry_load", json.dumps(asdict(asking))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_MAX, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[-1] if done.stderr.strip() else "the load ended")
    found: dict[str, float] = json.loads(done.stdout)
    return found


def request(asking: Asking, at: int) -> tuple[bytes, bytes]:
    """Return a request, and what its answer has to hold."""
    number = at * 7919 % asking.known  # a prime: neighbours in time are none in number
    if asking.kind == "id":
        return _get(f"/schemas/ids/{number + 1}"), f'\\"Order{number}\\"'.encode()
    if asking.kind == "subject":
        return _get(f"/subjects/{subject_name(number)}/versions/latest"), f'"id":{number + 1},'.encode()
    if asking.kind == "schema":
        return _post(f"/subjects/{subject_name(number)}", schema_text(number)), f'"id":{number + 1},'.encode()
    new = asking.first + at
    return _post(f"/subjects/{subject_name(new)}/versions", schema_text(new)), b'{"id":'


def _get(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\n{HEAD}\r\n\r\n".encode()


def _post(path: str, schema: str) -> bytes:
    body = json.dumps({"schema": schema}).encode()
    return f"POST {path} HTTP/1.1\r\n{HEAD}\r\n{TYPE}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


class _Connection:
    """One connection, with at most one request under way."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=60)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._expected, self._due, self._data = b"", 0.0, b""

    def send(self, data: bytes, expected: bytes, due: float) -> None:
        self._expected, self._due = expected, due
        self.socket.sendall(data)

    def receive(self) -> float | None:
        """Return when the request that is answered was due, None where the answer is not whole yet."""
        more = self.socket.recv(65536)
        if not more:
            raise RuntimeError("the registry has closed a connection")
        self._data += more
        end = self._data.find(b"\r\n\r\n")
        if end < 0:
            return None
        head = self._data[:end].lower()
        at = head.index(b"content-length:") + 15
        if len(self._data) < end + 4 + int(head[at:].split(b"\r\n", 1)[0]):
            return None
        if not head.startswith(b"http/1.1 200") or self._expected not in self._data:
            raise RuntimeError(f"a wrong answer: {self._data[:300]!r}")
        self._data = b""
        return self._due


def _carried_out(asking: Asking, clock: Callable[[], float] = time.perf_counter) -> dict[str, float]:
    requests = deque(request(asking, each) for each in range(asking.count))
    selector = selectors.DefaultSelector()
    idle: list[_Connection] = []
    for _ in range(asking.connections):
        connection = _Connection(asking.port)
        selector.register(connection.socket, selectors.EVENT_READ, connection)
        idle.append(connection)
    latencies: list[float] = []
    begun, sent = clock(), 0
    while len(latencies) < asking.count:
        now = clock()
        while idle and requests:
            due = begun + sent / asking.rate if asking.rate else now
            if due > now:
                break
            idle.pop().send(*requests.popleft(), due)
            sent += 1
        wait = 0.0 if asking.rate and requests and idle else 30.0  # a sleep is too coarse for the next one's time
        for key, _ in selector.select(wait):
            due_s = key.data.receive()
            if due_s is not None:
                latencies.append(clock() - due_s)
                idle.append(key.data)
    seconds = clock() - begun
    latencies.sort()
    at = {"p50": latencies[len(latencies) // 2], "p99": latencies[len(latencies) * 99 // 100]}
    return {"rate": asking.count / seconds, **{name: found * 1000 for name, found in at.items()}}


if __name__ == "__main__":
    print(json.dumps(_carried_out(Asking(**json.loads(sys.argv[1])))))
