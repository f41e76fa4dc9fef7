"""What a record, a damaged file or a deletion may not do to the program as a user runs it."""

from __future__ import annotations

import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

from ottla.base import ErrorCode, KafkaError, TopicPartition
from ottla.client import BlockingClient, Limits
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tests.broker.node_client import NOW_MS, batch
from tests.broker.test_failures import list_offsets, with_header_key
from tests.crash.test_crash import create_topic
from tests.server import Server, running_server

SECONDS_MAX = 100.0
ROUNDS = 15
PARTITION = TopicPartition("t", 0)


def printed(server: Server, count: int) -> bytes:
    """Return what `console-consumer` prints of a topic, with headers."""
    command = ["console-consumer", "--bootstrap-server", server.bootstrap, "--topic", "t", "--from-beginning"]
    options = ["--max-messages", str(count), "--timeout-ms", "20000", "--property", "print.headers=true"]
    done = subprocess.run(
        [sys.executable, "-m", "ottla.cli.main", *command, *options],
        capture_output=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


def test_a_header_key_that_is_no_text_is_looked_up_printed_and_survived(tmp_path: Path) -> None:
    for _ in range(2):  # after a restart too
        with running_server(tmp_path) as server:
            if not (tmp_path / "data" / "t-0").exists():
                create_topic(server.bootstrap, "t", 1)
                with BlockingClient(server.bootstrap) as client:
                    for records in (with_header_key(b"\xff\xfe"), batch(b"after", timestamp=NOW_MS + 1)):
                        [answer] = client.produce({PARTITION: records})
                        assert answer.error is ErrorCode.NONE
            with BlockingClient(server.bootstrap) as client:
                for timestamp in (NOW_MS, -3):
                    found = client.request(list_offsets(timestamp)).topics[0].partitions[0]
                    assert found.error_code == 0 and found.offset in (0, 1)
            assert printed(server, 2) == "\ufffd\ufffd:h\tv\nNO_HEADERS\tafter\n".encode()
            assert server.process.poll() is None


def test_topics_are_deleted_while_they_are_written_and_flushed(tmp_path: Path) -> None:
    with running_server(tmp_path) as server:
        over = threading.Event()

        def write() -> None:
            with BlockingClient(server.bootstrap, limits=Limits(call_s=2.0)) as client:
                while not over.is_set():
                    with suppress(KafkaError):  # the topic is away just now
                        client.produce({PARTITION: batch(b"x" * 1000)})

        writers = [threading.Thread(target=write) for _ in range(3)]
        for writer in writers:
            writer.start()
        try:
            with BlockingClient(server.bootstrap) as client:
                for _ in range(ROUNDS):
                    create_topic(server.bootstrap, "t", 1, **{"flush.messages": "1"})
                    client.request(list_offsets(NOW_MS))
                    done = client.request(DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=10_000))
                    assert done.responses[0].error_code == 0
                    assert server.process.poll() is None
        finally:
            over.set()
            for writer in writers:
                writer.join(SECONDS_MAX)
        create_topic(server.bootstrap, "t", 1)
        with BlockingClient(server.bootstrap) as client:
            [answer] = client.produce({PARTITION: batch(b"goes on")})
            assert answer.error is ErrorCode.NONE
