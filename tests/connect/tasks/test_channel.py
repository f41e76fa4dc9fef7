"""The control channel is encrypted, trusts one worker, and carries what is written while another thread reads."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest

from ottla.connect.storage import TargetState, TaskId
from ottla.connect.tasks import TaskSpec, WorkerClients, frames
from ottla.connect.tasks.channel import Channel
from ottla.security.ephemeral import EphemeralKey, trusting_only

Serve = Callable[[socket.socket], None]
LONG = b"x" * 300_000


@contextmanager
def peer(serve: Serve) -> Iterator[int]:
    """Accept one connection, serve it in a thread, and yield the port."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def work() -> None:
            accepted, _ = listening.accept()
            accepted.settimeout(20)
            with accepted:
                serve(accepted)

        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        yield int(listening.getsockname()[1])
        thread.join(20)
        assert not thread.is_alive()


def encrypted(key: EphemeralKey, serve: Serve) -> Serve:
    def work(accepted: socket.socket) -> None:
        try:
            session = key.context.wrap_socket(accepted, server_side=True)
        except OSError:
            return  # the other side does not trust this one
        with session:
            serve(session)

    return work


def echo(accepted: socket.socket) -> None:
    while data := accepted.recv(65536):
        accepted.sendall(data)


def taken(channel: Channel, count: int) -> bytes:
    found = bytearray()
    while len(found) < count and (data := channel.receive(count - len(found))):
        found += data
    return bytes(found)


@pytest.mark.parametrize("is_encrypted", [False, True])
def test_what_is_written_arrives_while_another_thread_waits_for_bytes(is_encrypted: bool) -> None:
    key = EphemeralKey()
    with peer(encrypted(key, echo) if is_encrypted else echo) as port:
        channel = Channel("127.0.0.1", port, trusting_only(key.certificate) if is_encrypted else None)
        found: list[bytes] = []
        reader = threading.Thread(target=lambda: found.append(taken(channel, 8 * len(LONG))), daemon=True)
        reader.start()
        writers = [threading.Thread(target=channel.send, args=(LONG,), daemon=True) for _ in range(8)]
        for each in writers:
            each.start()
        for each in (*writers, reader):
            each.join(20)
        assert found == [8 * LONG]
        channel.close()


def test_nothing_that_is_said_can_be_read_on_the_way() -> None:
    key, seen, secret = EphemeralKey(), bytearray(), b"a password"

    def between(accepted: socket.socket) -> None:
        with peer(encrypted(key, echo)) as port, socket.create_connection(("127.0.0.1", port), 20) as onward:
            back = threading.Thread(target=passed, args=(onward, accepted), daemon=True)
            back.start()
            passed(accepted, onward)
            back.join(20)

    def passed(source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):  # either end may be faster
            while data := source.recv(65536):
                seen.extend(data)
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)

    with peer(between) as port:
        channel = Channel("127.0.0.1", port, trusting_only(key.certificate))
        channel.send(secret)
        assert taken(channel, len(secret)) == secret
        channel.close()
    assert seen and secret not in seen


def test_another_worker_is_not_trusted() -> None:
    with (
        peer(encrypted(EphemeralKey(), echo)) as port,
        pytest.raises(ConnectionError, match="not the one that started this task"),
    ):
        Channel("127.0.0.1", port, trusting_only(EphemeralKey().certificate))


def test_a_worker_that_says_nothing_of_tls_is_not_spoken_to() -> None:
    def plain(accepted: socket.socket) -> None:
        accepted.sendall(b"hello, who are you?")

    with peer(plain) as port, pytest.raises(ConnectionError):
        Channel("127.0.0.1", port, trusting_only(EphemeralKey().certificate))


@pytest.mark.parametrize("way", ["in order", "cut off"])
def test_the_end_of_an_encrypted_connection_is_heard(way: str) -> None:
    key = EphemeralKey()

    def end(accepted: socket.socket) -> None:
        assert isinstance(accepted, ssl.SSLSocket)
        if way == "in order":
            with suppress(OSError):  # the other side ends without a word
                accepted.unwrap()
        else:
            accepted.shutdown(socket.SHUT_RDWR)

    with peer(encrypted(key, end)) as port:
        channel = Channel("127.0.0.1", port, trusting_only(key.certificate))
        assert channel.receive(10) == b""
        channel.close()


def test_a_task_is_told_all_of_its_configuration_over_the_channel() -> None:
    spec = TaskSpec(
        TaskId("lines-of-1", 2),
        {"name": "lines-of-1", "none": None},
        {"password": "päss"},
        {"bootstrap.servers": "h:1"},
        WorkerClients("h:1", {"acks": "all"}, {"a": "b"}, {"c": "d"}),
        TargetState.PAUSED,
        7,
        ("/plugins",),
        "offsets",
        "an-id",
    )
    told = frames.decode(frames.encode(spec.to_message())[frames.HEADER.size :])
    assert TaskSpec.of_message(told) == spec
