"""Load that costs the machine little: requests encoded once, sent over plain sockets, answers checked by their error codes.

Runs as a process of its own (`python -m bench.generator JSON`) and prints one JSON object: what it sent or received, the
seconds that took, its own processor time, and latencies where they were asked for.
"""

from __future__ import annotations

import json
import os
import resource
import selectors
import socket
import sys
import time
from dataclasses import asdict, dataclass
from struct import Struct
from typing import Any

from bench.protection import protected
from ottla.base import Millis
from ottla.wire import Record, build_batch, decode, encode_request, encode_response, iter_batches
from ottla.wire.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from ottla.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)

__all__ = ["Connection", "Load", "await_burst", "batch_of", "error_position", "main", "produce_request"]

PRODUCE_VERSION = 11
FETCH_VERSION = 12
SIZE = Struct(">i")
OFFSET = Struct(">q")
RECEIVE_BYTES = 4 << 20


@dataclass(frozen=True)
class Load:
    """What to send: `produce`, `fetch`, `latency` or `crowd`; one connection per partition, `depth` requests in flight on
    each, for so many `requests`, or with `seconds` for as long. `keys` gives the records keys, so many that differ. A
    crowd is `connections` that take turns, and `idle` more. `ports` are the partitions' leaders' where one broker does
    not lead them all. With `trust`, a file, connections speak TLS 1.3 and take what that authority has signed; with
    `user`, `name:password`, they log in by PLAIN.
    """

    kind: str
    port: int
    topic: str
    connections: int = 4
    depth: int = 8
    requests: int = 1000
    seconds: float = 0.0
    record_bytes: int = 100
    batch_bytes: int = 16384
    fetch_bytes: int = 1 << 20
    rate: int = 1000
    acks: int = -1
    keys: int = 0
    idle: int = 0
    ports: tuple[int, ...] = ()
    trust: str = ""
    user: str = ""

    def connect(self, partition: int = 0) -> Connection:
        """Return a connection to a partition's leader."""
        port = self.ports[partition] if self.ports else self.port
        return Connection(port, trust=self.trust, user=self.user)

    def text(self) -> str:
        """Return the load as the generator's argument."""
        return json.dumps(asdict(self))


def batch_of(record_bytes: int, batch_bytes: int, *, first_key: int = 0, keys: int = 0) -> bytes:
    """Return one batch of about `batch_bytes`, of records whose values have `record_bytes` (at least one record)."""
    now = Millis(int(time.time() * 1000))
    count = max(1, (batch_bytes - 61) // (record_bytes + (24 if keys else 12)))
    values = os.urandom(record_bytes * count)
    return bytes(
        build_batch(
            Record(
                timestamp=now,
                key=b"key-%08d" % ((first_key + i) % keys) if keys else None,
                value=values[i * record_bytes : (i + 1) * record_bytes],
            )
            for i in range(count)
        )
    )


def produce_request(load: Load, partition: int, batch: bytes) -> bytes:
    """Return one Produce request."""
    data = PartitionProduceData(index=partition, records=batch)
    topic = TopicProduceData(name=load.topic, partition_data=[data])
    request = ProduceRequest(acks=load.acks, timeout_ms=30_000, topic_data=[topic])
    return encode_request(request, PRODUCE_VERSION, 1, "bench")


def fetch_request(load: Load, partition: int, offset: int) -> bytes:
    """Return one Fetch request."""
    wanted = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=load.fetch_bytes)
    topic = FetchTopic(topic=load.topic, partitions=[wanted])
    request = FetchRequest(
        replica_id=-1, max_wait_ms=1000, min_bytes=1, max_bytes=load.fetch_bytes, topics=[topic], session_epoch=-1
    )
    return encode_request(request, FETCH_VERSION, 1, "bench")


def position_of(one: bytes, other: bytes) -> int:
    """Return where two encodings first differ."""
    return next(index for index, pair in enumerate(zip(one, other, strict=True)) if pair[0] != pair[1])


def error_position(load: Load) -> int:
    """Return where a Produce answer has its error code."""

    def answer(code: int) -> bytes:
        partition = PartitionProduceResponse(index=0, error_code=code, base_offset=0)
        topic = TopicProduceResponse(name=load.topic, partition_responses=[partition])
        return encode_response(ProduceResponse(responses=[topic]), 0, PRODUCE_VERSION, 1)

    return position_of(answer(0), answer(0x101))


class Connection:
    """A blocking socket that cuts what it receives into frames."""

    def __init__(self, port: int, timeout: float = 60, *, trust: str = "", user: str = "") -> None:
        plain = socket.create_connection(("127.0.0.1", port), timeout=timeout)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket = protected(plain, trust=trust, user=user)
        self._memory = memoryview(bytearray(RECEIVE_BYTES))
        self._start = self._end = 0

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def fileno(self) -> int:
        """Return the socket's descriptor, for a selector."""
        return self._socket.fileno()

    def send(self, data: bytes | bytearray) -> None:
        """Send everything."""
        self._socket.sendall(data)

    def frame(self) -> memoryview:
        """Return the next frame with its length, valid until the next call."""
        self._need(4)
        return self.exactly(4 + SIZE.unpack_from(self._memory, self._start)[0])

    def exactly(self, size: int) -> memoryview:
        """Return so many bytes, valid until the next call."""
        self._need(size)
        found = self._memory[self._start : self._start + size]
        self._start += size
        return found

    def _need(self, size: int) -> None:
        if self._start + size > len(self._memory):
            rest = bytes(self._memory[self._start : self._end])
            if size > len(self._memory):
                self._memory = memoryview(bytearray(2 * size))
            self._memory[: len(rest)] = rest
            self._start, self._end = 0, len(rest)
        while self._end - self._start < size:
            if self._start == self._end:
                self._start = self._end = 0
            count = self._socket.recv_into(self._memory[self._end :])
            if not count:
                raise ConnectionError("the broker closed the connection")
            self._end += count


def produce(load: Load) -> dict[str, Any]:
    """Send `requests` Produce requests in bursts, round the connections."""
    batch = batch_of(load.record_bytes, load.batch_bytes, keys=load.keys)
    bursts = [_burst(load, partition, batch) for partition in range(load.connections)]
    connections = [load.connect(partition) for partition in range(load.connections)]
    error_at = error_position(load)
    sent, started, cpu = 0, time.perf_counter(), time.process_time()
    for connection, burst in zip(connections, bursts, strict=True):
        connection.send(burst)
    for _ in range(max(1, load.requests // (load.depth * load.connections)) - 1):
        if load.seconds and time.perf_counter() - started >= load.seconds:
            break
        for connection, burst in zip(connections, bursts, strict=True):
            await_burst(connection, load.depth, error_at)
            connection.send(burst)
            sent += load.depth
    for connection in connections:
        await_burst(connection, load.depth, error_at)
        sent += load.depth
    return _result(sent, sent * len(batch), started, cpu)


def _burst(load: Load, partition: int, batch: bytes) -> bytes:
    """Return `depth` requests: one batch again and again, or with keys a part of them all in every batch."""
    if not load.keys:
        return produce_request(load, partition, batch) * load.depth
    count = int.from_bytes(batch[57:61], "big")
    batches = (
        batch_of(load.record_bytes, load.batch_bytes, first_key=n * count, keys=load.keys) for n in range(load.depth)
    )
    return b"".join(produce_request(load, partition, each) for each in batches)


def await_burst(connection: Connection, count: int, error_at: int) -> None:
    """Take so many answers to one request, which are all of one size; raises RuntimeError for an error code.

    All but the first are looked at together, so that the generator takes as little of the machine as it can.
    """
    first = bytes(connection.frame())
    _check(first[error_at : error_at + 2])
    if count > 1:
        size = len(first)
        rest = connection.exactly(size * (count - 1))
        for at in (*range(4), error_at, error_at + 1):
            column = bytes(rest[at::size])
            if column != first[at : at + 1] * (count - 1):
                raise RuntimeError(f"Produce was answered unlike the first time: {column!r} at byte {at}")


def _check(error: bytes) -> None:
    if error.strip(b"\0"):
        raise RuntimeError(f"Produce was answered with error {error!r}")


def fetch(load: Load) -> dict[str, Any]:
    """Read each partition from its start with `requests` Fetch requests in all, one in flight per connection."""
    connections = [load.connect(partition) for partition in range(load.connections)]
    requests = [bytearray(fetch_request(load, partition, 0)) for partition in range(load.connections)]
    offset_at = position_of(fetch_request(load, 0, 0), fetch_request(load, 0, 1)) - 7
    done, received, started, cpu = 0, 0, time.perf_counter(), time.process_time()
    rounds = max(1, load.requests // load.connections)
    for connection, request in zip(connections, requests, strict=True):
        connection.send(request)
    for left in reversed(range(rounds)):
        is_last = not left or 0 < load.seconds <= time.perf_counter() - started
        for connection, request in zip(connections, requests, strict=True):
            frame = connection.frame()
            received += len(frame)
            done += 1
            OFFSET.pack_into(request, offset_at, _next_offset(frame))
            if not is_last:
                connection.send(request)
        if is_last:
            break
    return _result(done, received, started, cpu)


def _next_offset(frame: memoryview) -> int:
    """Return the offset behind the last whole batch of a Fetch answer; 0, to begin anew, at the partition's end."""
    offset = 0
    for header, _ in iter_batches(_records(frame)):
        offset = header.next_offset
    return offset


def _records(frame: memoryview) -> memoryview:
    """Return the records of a Fetch answer; raises RuntimeError for an error code."""
    response, _ = decode(FetchResponse, frame, FETCH_VERSION, 9)
    topic: FetchableTopicResponse = response.responses[0]
    partition: PartitionData = topic.partitions[0]
    if partition.error_code:
        raise RuntimeError(f"Fetch was answered with error {partition.error_code}")
    return memoryview(partition.records or b"")


def latency(load: Load) -> dict[str, Any]:
    """Send single requests at a fixed rate; each latency counts from when it was due, so that a stall is not left out."""
    batch = batch_of(load.record_bytes, load.batch_bytes)
    request = produce_request(load, 0, batch)
    connection = load.connect()
    error_at = error_position(load)
    found, cpu = [], time.process_time()
    started = time.perf_counter()
    for number in range(load.requests):
        due = started + number / load.rate
        while (wait := due - time.perf_counter()) > 0:
            time.sleep(wait if wait > 0.0002 else 0)
        connection.send(request)
        await_burst(connection, 1, error_at)
        found.append(time.perf_counter() - due)
    return {**_result(load.requests, load.requests * len(batch), started, cpu), **_percentiles(found)}


def crowd(load: Load) -> dict[str, Any]:
    """Send single requests at a fixed rate, each on the next of many connections, beside others that are idle.

    A latency counts from when its request was due; as many requests may be under way as there are busy connections.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, load.connections + load.idle + 100)), hard))
    idle = [socket.create_connection(("127.0.0.1", load.port), timeout=60) for _ in range(load.idle)]
    request = produce_request(load, 0, batch_of(load.record_bytes, load.batch_bytes))
    busy = [load.connect() for _ in range(load.connections)]
    for connection in busy:
        connection.send(request)
        await_burst(connection, 1, error_position(load))
    found: list[float] = []
    cpu = time.process_time()
    with selectors.DefaultSelector() as selector:
        for connection in busy:
            selector.register(connection, selectors.EVENT_READ)
        started = time.perf_counter()
        due: dict[Connection, float] = {}
        sent = 0
        while len(found) < load.requests:
            at = started + sent / load.rate
            if sent < load.requests and time.perf_counter() >= at and (turn := busy[sent % len(busy)]) not in due:
                due[turn] = at
                turn.send(request)
                sent += 1
                continue
            wait = max(0.0, at - time.perf_counter()) if sent < load.requests else 1.0
            for key, _ in selector.select(wait if wait > 0.0002 else 0):
                answered: Connection = key.fileobj  # type: ignore[assignment]
                await_burst(answered, 1, error_position(load))
                found.append(time.perf_counter() - due.pop(answered))
    for each in idle:
        each.close()
    return {**_result(load.requests, 0, started, cpu), **_percentiles(found)}


def _percentiles(seconds: list[float]) -> dict[str, float]:
    """Return p50 and p99 in milliseconds."""
    seconds.sort()
    return {f"p{share}": seconds[int(len(seconds) * share / 100)] * 1000 for share in (50, 99)}


def _result(requests: int, size: int, started: float, cpu: float) -> dict[str, Any]:
    seconds = time.perf_counter() - started
    return {"requests": requests, "bytes": size, "seconds": seconds, "generator_cpu": time.process_time() - cpu}


def main(argv: list[str]) -> int:
    """Run one load and print its result."""
    load = Load(**json.loads(argv[0]))
    run = {"produce": produce, "fetch": fetch, "latency": latency, "crowd": crowd}[load.kind]
    print(json.dumps(run(load)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
