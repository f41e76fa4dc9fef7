"""Frames that lie: about their length, their arrays, their API, or everything."""

from __future__ import annotations

import struct
import time
from collections import Counter
from random import Random

import pytest

from tests.hostile.conftest import Victim
from tests.hostile.mutation import mutate
from tests.hostile.wire_by_hand import (
    API_VERSIONS,
    CREATE_TOPICS,
    FETCH,
    LIST_OFFSETS,
    METADATA,
    PRODUCE,
    Client,
    batch,
    create_topic,
    fetch,
    frame,
    produce,
    request,
    text,
)

MAX_INT = 2**31 - 1
FUZZ_SECONDS = 4.0
HEADER = struct.pack(">hhi", API_VERSIONS, 0, 1) + text("c")

IMPOSSIBLE = {
    "length of 2 GiB": struct.pack(">i", MAX_INT),
    "negative length": struct.pack(">i", -1),
    "length beyond the limit": struct.pack(">i", 16_777_217),
    "empty frame": struct.pack(">i", 0),
    "frame shorter than a header": frame(b"\0\x12"),
    "HTTP": b"GET / HTTP/1.1\r\nHost: example\r\n\r\n",
    "TLS hello": bytes.fromhex("1603010200010001fc0303") + bytes(200),
    "client id longer than the frame": frame(struct.pack(">hhih", METADATA, 1, 1, 30_000) + b"x"),
    "client id that is not UTF-8": frame(struct.pack(">hhih", METADATA, 1, 1, 4) + b"\xff\xfe\xfd\xfc"),
    "unknown API": request(9_999, 0, 1),
    "negative API": request(-5, 0, 1),
    "version not offered": request(METADATA, 999, 1),
    "negative version": request(FETCH, -1, 1),
    "array of 2 G topics": request(METADATA, 1, 1, struct.pack(">i", MAX_INT)),
    "array of 2 G topics with one there": request(METADATA, 1, 1, struct.pack(">i", MAX_INT) + text("t")),
    "array of 2 G partitions": request(
        LIST_OFFSETS, 2, 1, struct.pack(">ibi", -1, 0, 1) + text("t") + struct.pack(">i", MAX_INT)
    ),
    "compact array of 2^35": frame(struct.pack(">hhi", METADATA, 12, 1) + text("c") + b"\0" + b"\xff\xff\xff\xff\x7f"),
    "varint without end": frame(struct.pack(">hhi", METADATA, 12, 1) + text("c") + b"\xff" * 64),
    "tagged field longer than the frame": frame(
        struct.pack(">hhi", METADATA, 12, 1) + text("c") + b"\1\5\xff\xff\xff\xff\x07"
    ),
    "tagged fields without number": frame(struct.pack(">hhi", METADATA, 12, 1) + text("c") + b"\xff\xff\xff\xff\x07"),
    "string of negative length where none may be": request(
        CREATE_TOPICS, 2, 1, struct.pack(">i", 1) + struct.pack(">h", -9)
    ),
    "records of 2 GiB": request(
        PRODUCE, 3, 1, text(None) + struct.pack(">hii", 1, 1, 1) + text("t") + struct.pack(">iii", 1, 0, MAX_INT)
    ),
    "request cut in the middle": frame(fetch(1, "topic", 0)[4:-7]),
}


@pytest.mark.parametrize("name", IMPOSSIBLE)
def test_an_impossible_frame_costs_its_connection_and_one_line(victim: Victim, name: str) -> None:
    with Client(victim.port) as bad, Client(victim.port) as good:
        bad.send(IMPOSSIBLE[name])
        assert bad.is_closed(), "the connection stayed open"
        assert good.works()
        lines = victim.lines_about(bad.port)
        assert len(lines) == 1, lines


def test_bytes_after_an_impossible_frame_are_not_taken_for_requests(victim: Victim) -> None:
    with Client(victim.port) as bad:
        bad.send(IMPOSSIBLE["unknown API"] + create_topic(1, "smuggled"))
        assert bad.is_closed()
    with Client(victim.port) as good:
        error, _ = good.fetch("smuggled", 0)
        assert error == 3


def test_requests_before_an_impossible_frame_are_answered_in_order(victim: Victim) -> None:
    with Client(victim.port) as client:
        client.send(request(API_VERSIONS, 0, 11) + request(METADATA, 1, 12, struct.pack(">i", 0)) + frame(b"\xff"))
        first, second = client.answer(), client.answer()
        assert first is not None and first[:4] == struct.pack(">i", 11)
        assert second is not None and second[:4] == struct.pack(">i", 12)
        assert client.is_closed()


def test_an_unknown_version_of_api_versions_is_answered_in_version_0(victim: Victim) -> None:
    with Client(victim.port) as client:
        answer = client.ask(request(API_VERSIONS, 99, 5))
        assert struct.unpack_from(">h", answer)[0] == 35
        assert client.works()


def test_a_frame_that_never_ends_holds_no_more_than_was_sent(victim: Victim) -> None:
    before = victim.rss()
    clients = [Client(victim.port) for _ in range(60)]
    try:
        for client in clients:
            client.send(struct.pack(">i", 16_000_000) + HEADER)
        with Client(victim.port) as good:
            assert good.works()
        assert victim.rss() - before < 32 << 20
    finally:
        for client in clients:
            client.socket.close()


def seeds_of_every_api(port: int) -> list[bytes]:
    """Well-formed frames: by hand for the hot ones, and the default request of each API and version the broker offers."""
    from ottla.wire import APIS, encode_request

    frames = [
        produce(1, "fuzz", batch([b"v" * 50] * 3)),
        produce(1, "fuzz", batch([b"v" * 50] * 3), acks=-1),
        fetch(1, "fuzz", 0),
        request(METADATA, 1, 1, struct.pack(">i", 1) + text("fuzz")),
        request(LIST_OFFSETS, 2, 1, struct.pack(">ibi", -1, 0, 1) + text("fuzz") + struct.pack(">iiq", 1, 0, -1)),
        create_topic(1, "fuzz-more", [("retention.ms", "1000")]),
    ]
    with Client(port) as client:
        answer = client.ask(request(API_VERSIONS, 0, 7))
    for index in range(struct.unpack_from(">i", answer, 2)[0]):
        key, low, high = struct.unpack_from(">hhh", answer, 6 + 6 * index)
        low = max(low, APIS[key].min_version)  # Produce is advertised from 0 and refused below 3, as in Kafka
        frames += [encode_request(APIS[key].request(), version, 1, "fuzz") for version in sorted({low, high})]
    return frames


def test_mutated_requests_of_every_api_leave_the_broker_well(victim: Victim) -> None:
    rng = Random(20_260)
    victim.witness.create_topic("fuzz")
    frames = seeds_of_every_api(victim.port)
    deadline = time.monotonic() + FUZZ_SECONDS
    sent, used, lines_before = 0, Counter[int](), len(victim.server.lines)
    while time.monotonic() < deadline:
        client = Client(victim.port)
        used[client.port] += 1
        client.socket.settimeout(0.05)
        try:
            for _ in range(20):
                client.send(mutate(rng, rng.choice(frames)))
                sent += 1
            client.is_closed(0.02)
        except OSError:
            pass
        finally:
            client.socket.close()
        if sent % 400 == 0:
            victim.check()
    assert sent > 500
    lines = victim.server.lines[lines_before:]
    said = Counter(port for line in lines for port in used if f":{port} " in line)
    twice = {port: times for port, times in said.items() if times > used[port]}
    assert not twice, [line for line in lines for port in twice if f":{port} " in line][:6]


def test_random_bytes_leave_the_broker_well(victim: Victim) -> None:
    rng = Random(7)
    for _ in range(150):
        with Client(victim.port) as client:
            try:
                client.send(rng.randbytes(1 + rng.randrange(2000)))
            except OSError:
                continue
