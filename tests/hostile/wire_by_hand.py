"""A tiny encoder of a few requests and of record batches, written apart from the one under test."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Sequence
from dataclasses import dataclass

import crc32c

__all__ = [
    "API_VERSIONS",
    "CREATE_TOPICS",
    "FETCH",
    "LIST_OFFSETS",
    "METADATA",
    "PRODUCE",
    "Client",
    "batch",
    "create_topic",
    "fetch",
    "frame",
    "produce",
    "request",
    "text",
    "varint",
]

PRODUCE, FETCH, LIST_OFFSETS, METADATA, API_VERSIONS, CREATE_TOPICS = 0, 1, 2, 3, 18, 19
ANSWER_SECONDS_MAX = 100.0


def text(value: str | None) -> bytes:
    """Encode a nullable STRING."""
    return b"\xff\xff" if value is None else struct.pack(">h", len(value.encode())) + value.encode()


def varint(value: int) -> bytes:
    """Encode a zigzag VARINT."""
    rest = (value << 1) ^ (value >> 63)
    out = bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def frame(body: bytes) -> bytes:
    """Put the length in front."""
    return struct.pack(">i", len(body)) + body


def request(api_key: int, version: int, correlation_id: int, body: bytes = b"") -> bytes:
    """A frame with request header v1 (versions before the flexible ones)."""
    return frame(struct.pack(">hhi", api_key, version, correlation_id) + text("by-hand") + body)


def record(index: int, value: bytes) -> bytes:
    """Encode one record of a batch, without key and headers."""
    body = b"\0" + varint(0) + varint(index) + varint(-1) + varint(len(value)) + value + varint(0)
    return varint(len(body)) + body


def batch(
    values: Sequence[bytes] = (b"x",),
    *,
    codec: int = 0,
    records: bytes | None = None,
    count: int | None = None,
    magic: int = 2,
    crc: int | None = None,
    length: int | None = None,
    timestamp_ms: int | None = None,
) -> bytes:
    """Build a record batch; every keyword overrides what would be right."""
    if records is None:
        records = b"".join(record(index, value) for index, value in enumerate(values))
    count = len(values) if count is None else count
    when = int(time.time() * 1000) if timestamp_ms is None else timestamp_ms
    after_crc = struct.pack(">hiqqqhii", codec, count - 1, when, when, -1, -1, -1, count) + records
    crc = crc32c.crc32c(after_crc) if crc is None else crc
    length = len(after_crc) + 9 if length is None else length
    return struct.pack(">qiibI", 0, length, -1, magic, crc) + after_crc


def produce(correlation_id: int, topic: str, records: bytes, *, partition: int = 0, acks: int = 1) -> bytes:
    """A Produce request, version 3."""
    body = text(None) + struct.pack(">hi", acks, 10_000) + struct.pack(">i", 1) + text(topic)
    return request(PRODUCE, 3, correlation_id, body + struct.pack(">iii", 1, partition, len(records)) + records)


def fetch(correlation_id: int, topic: str, offset: int, *, max_bytes: int = 1 << 20, wait_ms: int = 0) -> bytes:
    """A Fetch request, version 4."""
    body = struct.pack(">iiiib", -1, wait_ms, 1, max_bytes, 0) + struct.pack(">i", 1) + text(topic)
    return request(FETCH, 4, correlation_id, body + struct.pack(">iiqi", 1, 0, offset, max_bytes))


def create_topic(correlation_id: int, topic: str, configs: Sequence[tuple[str, str]] = ()) -> bytes:
    """A CreateTopics request, version 2: one partition, one replica."""
    pairs = b"".join(text(name) + text(value) for name, value in configs)
    body = struct.pack(">i", 1) + text(topic) + struct.pack(">ihi", 1, 1, 0)
    return request(
        CREATE_TOPICS,
        2,
        correlation_id,
        body + struct.pack(">i", len(configs)) + pairs + struct.pack(">i?", 10_000, False),
    )


@dataclass
class ProduceAnswer:
    """What a Produce of one partition was answered with."""

    error: int
    base_offset: int


class Client:
    """A blocking connection that speaks just enough."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=ANSWER_SECONDS_MAX)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.port: int = self.socket.getsockname()[1]
        self._correlation_id = 0

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, data: bytes) -> None:
        """Send raw bytes."""
        self.socket.sendall(data)

    def answer(self) -> bytes | None:
        """Return the next frame, or None where the broker has closed the connection."""
        size = self._exactly(4)
        return None if size is None else self._exactly(struct.unpack(">i", size)[0])

    def _exactly(self, size: int) -> bytes | None:
        data = bytearray()
        while len(data) < size:
            try:
                piece = self.socket.recv(min(size - len(data), 1 << 20))
            except ConnectionError:
                return None
            if not piece:
                return None
            data += piece
        return bytes(data)

    def is_closed(self, seconds: float = ANSWER_SECONDS_MAX) -> bool:
        """Wait until the broker closes; answers before that are dropped. False when it is still open at the end."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            self.socket.settimeout(left)
            try:
                if self.answer() is None:
                    return True
            except TimeoutError:
                break
        return False

    def ask(self, data: bytes) -> bytes:
        """Send a frame and return its answer after the correlation id."""
        self.send(data)
        answer = self.answer()
        assert answer is not None, "the broker closed the connection"
        return answer[4:]

    def works(self) -> bool:
        """True when ApiVersions is answered."""
        return self.ask(request(API_VERSIONS, 0, 7))[:2] == b"\0\0"

    def produce(self, topic: str, records: bytes, *, acks: int = 1) -> ProduceAnswer:
        """Produce to partition 0."""
        answer = self.ask(produce(1, topic, records, acks=acks))
        start = 4 + 2 + len(topic.encode()) + 4
        _, error, base = struct.unpack_from(">ihq", answer, start)
        return ProduceAnswer(error, base)

    def fetch(self, topic: str, offset: int, *, max_bytes: int = 1 << 20) -> tuple[int, bytes]:
        """Fetch partition 0: (error, records)."""
        answer = self.ask(fetch(2, topic, offset, max_bytes=max_bytes))
        start = 4 + 4 + 2 + len(topic.encode()) + 4
        _, error, _, _, aborted = struct.unpack_from(">ihqqi", answer, start)
        start += 26 + 16 * max(0, aborted)
        size = struct.unpack_from(">i", answer, start)[0]
        return error, answer[start + 4 : start + 4 + max(0, size)]

    def create_topic(self, topic: str, *configs: tuple[str, str]) -> int:
        """Create a topic and return the error code."""
        answer = self.ask(create_topic(3, topic, configs))
        start = 4 + 4 + 2 + len(topic.encode())
        return int(struct.unpack_from(">h", answer, start)[0])
