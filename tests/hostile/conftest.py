"""One broker for all hostile tests, and the check after each that it is as well as before."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.hostile.wire_by_hand import Client, batch
from tests.server import Server, running_server

WITNESS = "witness"
RSS_GROWTH_BYTES_MAX = 160 * 1024 * 1024
"""By how much all hostile tests may make the broker and its workers grow: some full read buffers and one bomb's bound."""
LOG_SECONDS_MAX = 100.0


class Victim:
    """The broker under attack, and a well-behaved connection that must notice nothing."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.port = server.port
        self.process = psutil.Process(server.process.pid)
        self.witness = Client(self.port)
        assert self.witness.create_topic(WITNESS) == 0
        self.witnessed: list[bytes] = []
        self.testify()
        self.rss_at_first = self.rss()

    def rss(self) -> int:
        """Resident bytes of the broker and its workers."""
        total = int(self.process.memory_info().rss)
        for child in self.process.children(recursive=True):
            total += int(child.memory_info().rss)
        return total

    def testify(self) -> None:
        """One more record through the witness connection; every earlier one still has its offset and value."""
        value = b"testimony-%06d" % len(self.witnessed)
        answer = self.witness.produce(WITNESS, batch([value]))
        assert (answer.error, answer.base_offset) == (0, len(self.witnessed))
        self.witnessed.append(value)
        error, records = self.witness.fetch(WITNESS, 0, max_bytes=1 << 22)
        assert error == 0
        at = -1
        for value in self.witnessed:
            at = records.find(value, at + 1)
            assert at >= 0, f"{value!r} is gone or out of order"

    def check(self) -> None:
        """Alive, witness served, nobody else's trouble, memory within bounds."""
        assert self.server.process.poll() is None, "the broker died:\n" + "".join(self.server.lines[-50:])
        self.testify()
        grown = self.rss() - self.rss_at_first
        assert grown < RSS_GROWTH_BYTES_MAX, f"grown by {grown >> 20} MiB"
        assert not any("Traceback" in line for line in self.server.lines), "".join(self.server.lines[-80:])

    def lines_about(self, client_port: int, *, at_least: int = 1) -> list[str]:
        """The log lines that name a client's address, once there are as many as expected or time is up."""
        deadline = time.monotonic() + LOG_SECONDS_MAX
        while True:
            found = [line for line in list(self.server.lines) if f":{client_port}" in line]
            if len(found) >= at_least or time.monotonic() > deadline:
                return found
            time.sleep(0.02)


@pytest.fixture(scope="module")
def one_victim(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Victim]:
    """Start the broker that a file's tests share: between files a witness would be idle for longer than a broker allows."""
    folder: Path = tmp_path_factory.mktemp("hostile")
    overrides = ["socket.request.max.bytes=16777216", "message.max.bytes=4194304", "log.segment.bytes=67108864"]
    with running_server(folder, overrides=overrides) as server:
        yield Victim(server)


@pytest.fixture
def victim(one_victim: Victim) -> Iterator[Victim]:
    """The broker under attack; when the test has ended it must be as well as before."""
    yield one_victim
    one_victim.check()
