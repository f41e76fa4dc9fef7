"""What records take of the console's memory has a bound, and what is cut says so."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from ottla.admin import dead_letters
from ottla.admin.topic_records import newest_records
from ottla.base import Millis, Offset, TopicPartition
from ottla.client import BlockingClient
from ottla.console.api.table import SENT_AT_ONCE, Api
from ottla.console.audit import Audit
from ottla.console.clusters import Cluster, ClusterSettings
from ottla.console.places import Place
from ottla.console.plans import Plans
from ottla.console.records.decoding import SHOWN_BYTES_MAX
from ottla.console.records.exports import exported
from ottla.console.records.masks import Masks, mask_rules
from ottla.console.records.reads import Read
from ottla.console.records.rows import Decoders, document_of, held_bytes, row_of, shortened
from ottla.console.records.scan_plan import Limits, Progress, reason_to_end
from ottla.http import HttpError, StreamedReply
from ottla.wire import Record
from tests.console.running import running_console
from tests.server import Server, running_server

MIB = 1 << 20
NOW: Any = int


def record(value: bytes, *headers: tuple[str, bytes | None], key: bytes | None = b"k") -> Record:
    return Record(offset=Offset(7), timestamp=Millis(1), key=key, value=value, headers=headers)


@pytest.mark.parametrize("size", [0, 1, SHOWN_BYTES_MAX, SHOWN_BYTES_MAX + 1, SHOWN_BYTES_MAX + 2, 3 * MIB])
@pytest.mark.parametrize("wanted", [None, "hex", "text"])
def test_a_record_that_is_held_shortened_is_shown_as_it_would_be_whole(size: int, wanted: str | None) -> None:
    for value in (b"x" * size, b'{"a": "' + b"y" * size + b'"}', bytes(size)):
        found = record(value, ("h", b"z"), key=value)
        short = shortened(found)
        assert row_of(0, short, Decoders(wanted, wanted)) == row_of(0, found, Decoders(wanted, wanted))
        assert held_bytes(short) < 3 * SHOWN_BYTES_MAX
        assert shortened(short) == short


@pytest.mark.parametrize(("count", "size"), [(3, 30_000), (1000, 100), (60, 9_000), (51, MIB // 8)])
def test_headers_that_are_held_shortened_say_how_many_and_how_large_they_are(count: int, size: int) -> None:
    found = record(b"v", *((f"h{n}", b"w" * size) for n in range(count)))
    short = shortened(found)
    row: Any = row_of(0, short, Decoders())
    assert row == row_of(0, found, Decoders()) and shortened(short) == short
    assert {each["bytes"] for each in row["headers"]} == {size} and row["headers_left_out"] == max(0, count - 50)
    assert sum(len(each["text"]) for each in row["headers"]) <= 64 * 1024


def test_what_a_schema_has_read_keeps_its_size_and_its_schema_where_it_is_shortened() -> None:
    found = Read(Offset(1), Millis(1), b"k", b"x" * MIB, (), None, "avro by schema 1", 1, 500)
    assert row_of(0, shortened(found), Decoders()) == row_of(0, found, Decoders())


def test_a_row_is_small_however_large_its_record_is() -> None:
    large = record(b"v" * MIB, *((f"h{n}", b"w" * MIB) for n in range(100)), key=b"k" * MIB)
    for each in (large, shortened(large)):
        row = row_of(0, each, Decoders())
        assert len(json.dumps(row)) < 5 * SHOWN_BYTES_MAX
        value: Any = row["value"]
        assert (value["cut"], value["cut_after_bytes"], value["bytes"]) == (True, SHOWN_BYTES_MAX, MIB)
        headers: Any = row["headers"]
        assert all(one["cut"] for one in headers)
    whole: Any = row_of(0, record(b"v" * 6 * MIB), Decoders(), whole=True)["value"]
    assert (whole["cut"], len(whole["text"]), whole["bytes"]) == (True, 4 * MIB, 6 * MIB)


def test_a_file_says_of_each_value_that_it_is_cut() -> None:
    async def frames() -> AsyncGenerator[Any, None]:
        yield {"type": "rows", "rows": [row_of(0, record(b"v" * MIB), Decoders())]}

    async def made(kind: str) -> bytes:
        return b"".join([piece async for piece in exported(frames(), kind)])

    for kind in ("jsonl", "csv"):
        assert f"[cut after {SHOWN_BYTES_MAX} of {MIB} bytes]".encode() in asyncio.run(made(kind))


def test_hits_that_wait_have_a_bound_in_bytes() -> None:
    said = reason_to_end(Progress(held=Limits().held), Limits(), 0.0)
    assert said is not None and "MiB of hits" in said


def test_no_filter_and_no_mask_parses_what_is_too_large() -> None:
    value = json.dumps({"a": "x" * 9 * MIB}).encode()
    assert isinstance(document_of("t", 0, record(value))["value"], str)
    masks = Masks(mask_rules('[{"topics": "*", "path": "value.b"}]', "s"), b"x")
    assert masks.masked(record(value)).value == "•••".encode()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    more = ["message.max.bytes=20000000", "replica.fetch.max.bytes=20000000"]
    with running_server(tmp_path_factory.mktemp("broker"), overrides=more) as found:
        asking = AdminClient({"bootstrap.servers": found.bootstrap})
        for each in asking.create_topics([NewTopic("orders.dlq", 1)]).values():
            each.result()
        producer = Producer({"bootstrap.servers": found.bootstrap, "message.max.bytes": 20_000_000})
        for number in range(30):
            producer.produce("orders.dlq", b"%02d" % number + b"x" * 4 * MIB)
            producer.flush()
        yield found


def test_letters_end_where_so_many_bytes_are_held_and_nothing_is_missing_between(server: Server) -> None:
    with BlockingClient(server.bootstrap) as client:
        found = dead_letters(client, "orders.dlq", bytes_max=30 * MIB)
        offsets = [int(each.record.offset) for each in found.letters]
        assert offsets == list(range(30 - len(offsets), 30)) and 1 <= len(offsets) <= 7
        assert found.cut_after == 30 * MIB
        again = dead_letters(client, "orders.dlq", found.ends, bytes_max=30 * MIB)
        assert [each.key for each in again.letters] == [each.key for each in found.letters]
        (newest,), is_whole = newest_records(client, TopicPartition("orders.dlq", 0), 0, 30, bytes_max=1)
        assert int(newest.offset) == 29 and not is_whole
        every, is_whole = newest_records(client, TopicPartition("orders.dlq", 0), 0, 30, bytes_max=1 << 30)
        assert len(every) == 30 and is_whole


def test_the_page_of_letters_says_that_it_is_cut_and_a_whole_value_has_an_address(server: Server) -> None:
    with running_console(server.bootstrap) as console:
        found = console.get("/dlq/orders.dlq")
        assert found["letters"] < 30 and found["cut_after_bytes"] == 64 * MIB
        [group] = found["groups"]
        assert group["example"]["value"]["cut"] and len(json.dumps(found)) < 2 * MIB
        shown = console.get("/topics/orders.dlq/records/0/29")["value"]
        assert (shown["cut"], shown["cut_after_bytes"], shown["bytes"]) == (True, 4 * MIB, 4 * MIB + 2)
        whole = console.ask("GET", "/api/c/cluster/topics/orders.dlq/records/0/29/value")
        assert whole.status == 200 and len(whole.body) == 4 * MIB + 2
        for path, status in (("0/29/key", 404), ("0/29/other", 404), ("0/99/value", 404), ("0/x/value", 404)):
            answer = console.ask("GET", f"/api/c/cluster/topics/orders.dlq/records/{path}")
            assert answer.status == status, answer


def test_few_whole_records_are_held_until_they_are_sent(server: Server) -> None:
    [part] = [
        each
        for each in Api(Plans(Audit(), now_s=NOW, now_ms=NOW), now_ms=NOW).endpoints()
        if each.path.endswith("{part}")
    ]
    request: Any = SimpleNamespace(
        match_info={"topic": "orders.dlq", "partition": "0", "offset": "29", "part": "value"}
    )
    missing: Any = SimpleNamespace(match_info={**request.match_info, "offset": "99"})

    async def run() -> None:
        nothing: Any = None
        cluster = Cluster(ClusterSettings("c", server.bootstrap, {}))
        place = Place(cluster, nothing, nothing)
        try:
            for _ in range(3):
                asked = [part.handle(place, request) for _ in range(3 * SENT_AT_ONCE)]
                found = await asyncio.gather(*asked, return_exceptions=True)
                held = [each for each in found if isinstance(each, StreamedReply)]
                refused = [each.status for each in found if isinstance(each, HttpError)]
                assert (len(held), refused) == (SENT_AT_ONCE, [503] * 2 * SENT_AT_ONCE)
                sent = b"".join([piece async for piece in held[0].chunks])
                assert len(sent) == 4 * MIB + 2
                for each in held[1:]:  # whose client is gone
                    await each.chunks.aclose()
                with pytest.raises(HttpError, match="no offset 99"):
                    await part.handle(place, missing)
        finally:
            await cluster.close()

    asyncio.run(run())


def test_masked_bytes_are_not_sent(server: Server) -> None:
    mask = 'ottla.console.masks=[{"topics": "orders*", "path": "value.a"}]'
    with running_console(server.bootstrap, "--override", mask) as console:
        answer = console.ask("GET", "/api/c/cluster/topics/orders.dlq/records/0/29/value")
        assert answer.status == 403 and "masked" in answer.body["message"]
