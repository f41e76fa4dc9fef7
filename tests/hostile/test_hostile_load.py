"""Clients that are slow, deaf or endless cost what a bound says, and others do not feel it."""

from __future__ import annotations

import struct
import threading
import time
from random import Random

from tests.hostile.conftest import Victim
from tests.hostile.wire_by_hand import API_VERSIONS, Client, batch, fetch, produce, request

SLOW_CLIENTS = 150
DEAF_REQUESTS = 3_000
FLOOD_REQUESTS = 10_000


def test_clients_that_send_a_byte_at_a_time_hold_up_nobody(victim: Victim) -> None:
    clients = [Client(victim.port) for _ in range(SLOW_CLIENTS)]
    data = request(API_VERSIONS, 0, 3)
    slowest = 0.0
    try:
        for at in range(len(data)):
            for client in clients:
                client.send(data[at : at + 1])
            began = time.monotonic()
            assert victim.witness.works()
            slowest = max(slowest, time.monotonic() - began)
        for client in clients:
            answer = client.answer()
            assert answer is not None and answer[:4] == struct.pack(">i", 3)
    finally:
        for client in clients:
            client.socket.close()
    assert slowest < 1.0


def test_a_client_that_never_reads_is_not_buffered_for_without_end(victim: Victim) -> None:
    topic = "deaf"
    with Client(victim.port) as client:
        assert client.create_topic(topic) == 0
        for _ in range(8):
            assert client.produce(topic, batch([b"z" * 1_000_000])).error == 0
    before = victim.rss()
    with Client(victim.port) as deaf:
        deaf.socket.settimeout(0.5)
        asked = 0
        try:
            for _ in range(DEAF_REQUESTS):
                deaf.send(fetch(1, topic, 0, max_bytes=8 << 20))
                asked += 1
        except TimeoutError:
            pass
        victim.testify()
        grown = victim.rss() - before
        assert grown < 64 << 20, f"{asked} unread answers of 8 MB: grown by {grown >> 20} MiB"
        deaf.socket.settimeout(20)
        assert deaf.answer() is not None


def test_a_pipelined_flood_is_answered_in_order(victim: Victim) -> None:
    with Client(victim.port) as client:
        data = b"".join(request(API_VERSIONS, 0, number) for number in range(FLOOD_REQUESTS))
        sender = threading.Thread(target=client.send, args=(data,))
        sender.start()
        for number in range(FLOOD_REQUESTS):
            answer = client.answer()
            assert answer is not None and answer[:4] == struct.pack(">i", number)
        sender.join()


def test_connections_that_come_and_go_leave_nothing_behind(victim: Victim) -> None:
    before = victim.process.num_fds()
    for number in range(200):
        with Client(victim.port) as client:
            if number % 2:
                client.send(request(API_VERSIONS, 0, 1)[: number % 17])
    deadline = time.monotonic() + 5
    while victim.process.num_fds() > before + 5 and time.monotonic() < deadline:
        time.sleep(0.02)
    assert victim.process.num_fds() <= before + 5


def test_garbage_on_other_connections_does_not_touch_a_producers_records(victim: Victim) -> None:
    topic = "beside-garbage"
    rng = Random(4)
    stop = threading.Event()

    def attack() -> None:
        while not stop.is_set():
            with Client(victim.port) as bad:
                try:
                    bad.send(rng.choice((produce(1, topic, rng.randbytes(300)), rng.randbytes(100), b"\xff" * 50)))
                    bad.is_closed(0.01)
                except OSError:
                    continue

    values = [b"value-%05d" % number for number in range(400)]
    with Client(victim.port) as client:
        assert client.create_topic(topic) == 0
        attacker = threading.Thread(target=attack)
        attacker.start()
        try:
            for number, value in enumerate(values):
                answer = client.produce(topic, batch([value]))
                assert (answer.error, answer.base_offset) == (0, number)
        finally:
            stop.set()
            attacker.join()
        error, records = client.fetch(topic, 0, max_bytes=1 << 22)
    assert error == 0
    at = 0
    for number, value in enumerate(values):
        base, length = struct.unpack_from(">qi", records, at)
        assert base == number and records[at : at + 12 + length].endswith(value + b"\0")
        at += 12 + length
    assert at == len(records)
