"""Transactions as librdkafka's producer drives them, and what readers of both isolation levels see."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import TopicPartition as At

from tests.server import Server, start_server
from tests.transactions.copying import committed, copy, create, producer, reader, records


def values(server: Server, topic: str, *, isolation: str = "read_committed", partitions: int = 1) -> list[bytes]:
    return [value for _, _, value in records(server.bootstrap, topic, isolation=isolation, partitions=partitions)]


def test_committed_records_are_read_and_aborted_ones_are_not(server: Server) -> None:
    create(server.bootstrap, "both", partitions=2)
    writer = producer(server.bootstrap, "both")
    for round_, commit in enumerate([True, False, True, False]):
        writer.begin_transaction()
        for partition in (0, 1):
            writer.produce("both", f"{round_}-{commit}".encode(), partition=partition)
        if commit:
            writer.commit_transaction(20)
        else:
            writer.flush(20)
            writer.abort_transaction(20)
    assert values(server, "both", partitions=2).count(b"0-True") == 2
    assert set(values(server, "both", partitions=2)) == {b"0-True", b"2-True"}
    assert len(values(server, "both", partitions=2, isolation="read_uncommitted")) == 8


def test_an_open_transaction_hides_what_follows_it_from_committed_readers(server: Server) -> None:
    create(server.bootstrap, "open")
    writer = producer(server.bootstrap, "open")
    writer.begin_transaction()
    writer.produce("open", b"pending")
    writer.flush(20)
    plain = producer(server.bootstrap, "open-other")
    plain.begin_transaction()
    plain.produce("open", b"behind it")
    plain.commit_transaction(20)
    assert values(server, "open") == []
    assert values(server, "open", isolation="read_uncommitted") == [b"pending", b"behind it"]
    writer.commit_transaction(20)
    assert values(server, "open") == [b"pending", b"behind it"]


def test_a_second_instance_fences_the_first_whose_open_transaction_is_aborted(server: Server) -> None:
    create(server.bootstrap, "fenced")
    first = producer(server.bootstrap, "fenced")
    first.begin_transaction()
    first.produce("fenced", b"of the first")
    first.flush(20)
    second = producer(server.bootstrap, "fenced")
    second.begin_transaction()
    second.produce("fenced", b"of the second")
    second.commit_transaction(20)
    with pytest.raises(KafkaException) as caught:
        first.commit_transaction(20)
    assert caught.value.args[0].code() == KafkaError._FENCED
    assert values(server, "fenced") == [b"of the second"]


def test_offsets_sent_to_a_transaction_count_with_its_records(server: Server) -> None:
    create(server.bootstrap, "from", "to")
    writer = producer(server.bootstrap, "source")
    writer.begin_transaction()
    for index in range(10):
        writer.produce("from", b"%d" % index)
    writer.commit_transaction(20)
    consumer = reader(server.bootstrap, group="copier")
    consumer.subscribe(["from"])
    mover = producer(server.bootstrap, "mover")
    aborts = iter([False, True])
    moved = 0
    while moved < 10:
        moved += copy(consumer, mover, "to", batch=4, commit=next(aborts, True))
    assert values(server, "to") == [b"%d" % index for index in range(10)]
    assert committed(server.bootstrap, "copier", "from") >= 10
    consumer.close()


def test_transactions_go_on_after_a_clean_restart_and_after_a_kill(tmp_path: Path) -> None:
    server = start_server(tmp_path)
    try:
        create(server.bootstrap, "kept")
        writer = producer(server.bootstrap, "kept")
        for end in ("stop", "kill"):
            writer.begin_transaction()
            writer.produce("kept", f"before {end}".encode())
            writer.flush(20)
            port = server.port
            server.stop() if end == "stop" else server.kill()
            server = start_server(tmp_path, port=port)
            writer.produce("kept", f"after {end}".encode())
            writer.commit_transaction(30)
        assert values(server, "kept") == [b"before stop", b"after stop", b"before kill", b"after kill"]
        consumer = reader(server.bootstrap)
        assert consumer.get_watermark_offsets(At("kept", 0), 20) == (0, 6)
        consumer.close()
    finally:
        server.stop()
