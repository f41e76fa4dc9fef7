"""A console over a real broker: what it shows, what a search finds, what a plan does and how it is taken back."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from ottla.admin import ClientTraffic, client_traffic
from ottla.client import BlockingClient
from ottla.console.live import Credit
from ottla.console.records.scans import ROWS_PER_SECOND_MAX
from ottla.console.shown_settings import holds_secret, shown_settings
from tests.console.running import Answer, RunningConsole, running_console
from tests.server import Server, running_server
from tests.waiting import until

RECORDS = 3000
LIVE = "/api/c/cluster/live"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    overrides = ["group.initial.rebalance.delay.ms=0", "offsets.topic.num.partitions=1"]
    with running_server(tmp_path_factory.mktemp("broker"), overrides=overrides) as found:
        admin = AdminClient({"bootstrap.servers": found.bootstrap})
        for each in admin.create_topics([NewTopic("orders", 3)]).values():
            each.result()
        producer = Producer({"bootstrap.servers": found.bootstrap, "linger.ms": 20, "batch.num.messages": 200})
        for index in range(RECORDS):
            value = {"id": index, "status": "FAILED" if index % 100 == 7 else "OK", "amount": index / 4}
            producer.produce("orders", key=f"c-{index % 10}", value=json.dumps(value), headers={"n": str(index)})
        producer.flush()
        yield found


@pytest.fixture(scope="module")
def console(server: Server) -> Iterator[RunningConsole]:
    with running_console(server.bootstrap) as found:
        yield found


def committed(server: Server, group: str, offset: int) -> None:
    """Have a group commit an offset in each partition, and leave."""
    consumer = Consumer({"bootstrap.servers": server.bootstrap, "group.id": group, "enable.auto.commit": False})
    consumer.commit(offsets=[TopicPartition("orders", each, offset) for each in range(3)], asynchronous=False)
    consumer.close()


def rows(frames: list[Any]) -> list[Any]:
    return [row for frame in frames if frame["type"] == "rows" for row in frame["rows"]]


def test_lists_and_the_overview_tell_what_there_is(console: RunningConsole) -> None:
    topic = console.get("/topics/orders")
    assert (topic["partitions"], topic["replicas"], topic["records"]) == (3, 1, RECORDS)
    assert [each["name"] for each in console.get("/topics?q=ORD&sort=-records")["items"]] == ["orders"]
    assert console.get("/topics?q=nothing")["items"] == []
    found = console.get("/overview")
    assert found["copies_out_of_sync"] == 0 and [each["id"] for each in found["brokers"]] == [1]


def test_a_page_comes_with_what_it_would_ask_first(console: RunningConsole) -> None:
    session = console.ask("GET", "/api/session").body
    overview = "/api/c/cluster/overview"
    for path in ("/", "/c/cluster", "/c/cluster?span=4%20h", "/c/cluster/"):
        given = console.given(path)
        assert given["/api/session"] == session and given.keys() == {"/api/session", overview}, path
        assert given[overview].keys() == console.get("/overview").keys()
    for path in ("/c/cluster/topics", "/c/nothing", "/c/cluster/topics/orders/messages"):
        assert console.given(path) == {"/api/session": session}, path
    stranger = RunningConsole(console.process, console.lines, base=console.base)
    assert stranger.given() == {} == stranger.given("/")
    assert console.ask("GET", "/c/cluster").headers["Cache-Control"] == "no-store"


@pytest.mark.slow  # a console of its own; make test-console
def test_who_writes_a_topic_is_told_and_what_it_costs(server: Server) -> None:
    prices = ("--override", "ottla.console.cost.stored.gb.month=2.5", "--override", "ottla.console.cost.currency=EUR")
    with running_console(server.bootstrap, *prices) as console:
        found = console.get("/lineage?topic=orders")
        wrote = [each for each in found["edges"] if each["writes"]]
        assert found["counted"]
        assert [(each["actor"], each["topic"]) for each in wrote] == [({"kind": "client", "name": "rdkafka"}, "orders")]
        cost = console.get("/cost")
        (row,) = [each for each in cost["topics"] if each["topic"] == "orders"]
        assert cost["prices"]["currency"] == "EUR"
        assert row["stored"] > 0 and row["cost_stored"] == pytest.approx(row["stored"] / 1e9 * 2.5)
        assert console.ask("GET", "/lineage?topic=nothing").status == 404
        assert console.ask("GET", "/cost?topic=nothing").status == 404


def test_an_answer_that_the_page_has_is_not_sent_again(console: RunningConsole) -> None:
    first = console.ask("GET", "/api/c/cluster/brokers")
    again = console.ask("GET", "/api/c/cluster/brokers", **{"If-None-Match": first.headers["ETag"]})
    assert again.status in (200, 304) and (again.status == 200) == (again.headers["ETag"] != first.headers["ETag"])


@pytest.mark.parametrize("start", ["newest", "oldest"])
def test_a_search_finds_what_a_consumer_would(console: RunningConsole, start: str) -> None:
    frames = console.scan(topic="orders", where="value.status = 'FAILED' AND value.amount >= 100", **{"from": start})
    found = sorted(json.loads(row["value"]["text"])["id"] for row in rows(frames))
    assert found == [index for index in range(RECORDS) if index % 100 == 7 and index / 4 >= 100]
    assert frames[-1]["type"] == "done" and frames[-1]["limit"] is None
    looked = [each["looked"] for each in [f for f in frames if f["type"] == "progress"][-1]["rails"]]
    assert sum(end - begin for begin, end in looked) == RECORDS


@pytest.mark.parametrize("start", ["newest", "oldest"])
def test_a_search_that_goes_on_shows_each_record_once(console: RunningConsole, start: str) -> None:
    seen: list[tuple[int, int]] = []
    cursor = None
    for _ in range(100):
        frames = console.scan(topic="orders", hits=70, where="value.amount < 300", cursor=cursor, **{"from": start})
        seen += [(row["partition"], row["offset"]) for row in rows(frames)]
        cursor = frames[-1]["cursor"]
        if frames[-1]["limit"] is None:
            break
    assert len(seen) == len(set(seen)) == 1200


def test_newest_is_newest_by_time(console: RunningConsole) -> None:
    found = rows(console.scan(topic="orders", hits=50))
    times = [row["timestamp"] for row in found]
    assert times == sorted(times, reverse=True) and len(found) == 50


def test_one_record_is_shown_whole_with_its_decoder(console: RunningConsole) -> None:
    found = console.get("/topics/orders/records/0/5")
    assert (found["partition"], found["offset"]) == (0, 5)
    assert found["value"]["decoder"] == "json" and found["key"]["attempts"][0]["decoder"] == "json"
    assert console.ask("GET", "/api/c/cluster/topics/orders/records/0/999999").status == 404


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({}, "topic is needed"),
        ({"topic": "orders", "from": "middle"}, "from is one of"),
        ({"topic": "orders", "from": "offset"}, "needs at"),
        ({"topic": "orders", "where": "status = 1"}, "no column STATUS"),
        ({"topic": "orders", "where": "value.a ="}, "line 1:"),
        ({"topic": "orders", "hits": 0}, "hits is a whole number"),
        ({"topic": "orders", "partitions": [9]}, "has no partition 9"),
        ({"topic": "orders", "partitions": "1"}, "partitions is a list"),
        ({"topic": "orders", "value_decoder": "xml"}, "value_decoder is one of"),
        ({"topic": "nothing"}, "There is no topic nothing"),
    ],
)
def test_what_cannot_be_searched_says_why(console: RunningConsole, asked: dict[str, Any], words: str) -> None:
    answer = console.post("/scans", asked)
    said = answer.body["message"] if isinstance(answer.body, dict) else str(answer.body)
    assert words in said, answer


def test_offsets_are_reset_by_a_plan_and_taken_back(server: Server, console: RunningConsole) -> None:
    committed(server, "billing", 50)

    def offsets() -> set[int]:
        return {each["committed"] for each in console.get("/groups/billing")["partition_rows"]}

    until(lambda: offsets() == {50}, every=0.3)
    done = console.run("reset-offsets", group="billing", topic="orders", to="offset", value=3)
    assert done.body["outcome"] == "done", done
    until(lambda: offsets() == {3}, every=0.3)
    plan = console.post(f"/audit/{done.body['id']}/undo", {})
    back = console.post(f"/plans/{plan.body['id']}/run", {"hash": plan.body["hash"]})
    assert back.body["outcome"] == "done", back
    until(lambda: offsets() == {50}, every=0.3)


def test_a_group_forgets_a_topic_by_a_plan_and_has_it_back(server: Server, console: RunningConsole) -> None:
    committed(server, "leaver", 7)
    until(lambda: console.ask("GET", "/api/c/cluster/groups/leaver").status == 200, every=0.3)
    done = console.run("forget-topic", group="leaver", topic="orders")
    assert done.body["outcome"] == "done" and "--delete-offsets" in json.dumps(done.body), done
    again = console.post("/plans", {"action": "forget-topic", "arguments": {"group": "leaver", "topic": "orders"}})
    assert 400 <= again.status < 500, again
    undo = console.post(f"/audit/{done.body['id']}/undo", {})
    assert undo.status in (201, 404), undo  # a group without offsets and members is gone when its broker looks at it


def test_a_group_with_members_is_not_reset(server: Server, console: RunningConsole) -> None:
    consumer = Consumer({"bootstrap.servers": server.bootstrap, "group.id": "busy", "client.id": "worker-7"})
    consumer.subscribe(["orders"])
    try:
        until(lambda: consumer.poll(0.2) or consumer.assignment())
        asked = {"action": "reset-offsets", "arguments": {"group": "busy", "topic": "orders", "to": "earliest"}}
        answer = console.post("/plans", asked)
        assert answer.status == 400 and "worker-7" in answer.body["message"], answer
    finally:
        consumer.close()


def test_a_plan_says_what_the_command_line_would_do(server: Server, console: RunningConsole) -> None:
    asked = {"type": "topics", "name": "orders", "set": {"retention.ms": "1000000"}}
    plan = console.post("/plans", {"action": "alter-config", "arguments": asked})
    assert plan.body["diff"] == [{"path": "topic orders/retention.ms", "before": "604800000", "after": "1000000"}]
    words = plan.body["cli"].split()
    command = [sys.executable, "-m", "ottla.cli.main", *words[1:], "--bootstrap-server", server.bootstrap]
    assert subprocess.run(command, capture_output=True, timeout=60).returncode == 0
    moved = console.post(f"/plans/{plan.body['id']}/run", {"hash": plan.body["hash"]})
    assert moved.status == 409 and moved.body["plan"]["diff"][0]["before"] == "1000000", moved
    undone = console.run("alter-config", type="topics", name="orders", delete=["retention.ms"])
    assert undone.body["outcome"] == "done"


def test_a_secret_that_is_set_stands_in_no_plan_and_no_command(console: RunningConsole) -> None:
    key = "listener.name.plaintext.ssl.key.password"
    asked = {"type": "brokers", "name": "1", "set": {key: "hush-hush"}}
    plan = console.post("/plans", {"action": "alter-config", "arguments": asked})
    assert plan.status == 201 and plan.body["diff"][0]["after"] == "[hidden]", plan
    assert key in plan.body["cli"] and "hush-hush" not in json.dumps(plan.body), plan


def test_settings_are_shown_by_one_rule() -> None:
    given = {"db.password": "a", "delegation.token.expiry.time.ms": "1", "retention.ms": "2", "x.secret": "${env:X}"}
    shown = {**given, "db.password": "[hidden]"}
    assert shown_settings(given, {"delegation.token.expiry.time.ms": "LONG"}) == shown
    assert shown_settings({"own.thing": "a"}, {"own.thing": "PASSWORD"}) == {"own.thing": "[hidden]"}
    assert holds_secret(given) and not holds_secret({"retention.ms": "2"})


def test_a_topic_is_created_filled_emptied_and_deleted(console: RunningConsole) -> None:
    assert console.run("create-topic", topic="fresh", partitions=2).body["outcome"] == "done"
    written = console.post(
        "/topics/fresh/records", {"key": "k", "value": "v", "headers": [{"name": "h", "value": "1"}]}
    )
    assert written.status == 201
    (row,) = rows(console.scan(topic="fresh"))
    assert (row["key"]["text"], row["value"]["text"], row["headers"][0]["text"]) == ("k", "v", "1")
    assert row["partition"] == written.body["partition"]
    assert console.run("empty-topic", typed="fresh", topic="fresh").body["outcome"] == "done"
    assert rows(console.scan(topic="fresh")) == []
    plan = console.post("/plans", {"action": "delete-topic", "arguments": {"topic": "fresh"}}).body
    assert console.post(f"/plans/{plan['id']}/run", {"hash": plan["hash"], "typed": "frish"}).status == 400
    assert console.run("delete-topic", typed="fresh", topic="fresh").body["outcome"] == "done"
    assert console.ask("GET", "/api/c/cluster/topics/fresh").status == 404


def test_what_the_broker_refuses_is_said_in_its_words(console: RunningConsole) -> None:
    answer = console.post("/plans", {"action": "create-topic", "arguments": {"topic": "a b", "partitions": 1}})
    assert answer.status == 422 and "a b" in answer.body["message"], answer
    assert console.post("/plans", {"action": "explode", "arguments": {}}).status == 400


def test_every_address_needs_a_session_and_every_change_its_token(console: RunningConsole) -> None:
    document = console.ask("GET", "/api/openapi.json").body
    stranger = RunningConsole(console.process, console.lines, base=console.base)
    for path, operations in document["paths"].items():
        place = path.replace("{cluster}", "cluster").replace("{topic}", "orders")
        place = re.sub(r"\{\w+\}", "0", place)
        for method in operations:
            body = None if method == "get" else {}
            assert stranger.ask(method.upper(), place, body).status == 401, place
            if method != "get":
                assert console.ask(method.upper(), place, body, **{"X-Ottla-Token": "wrong"}).status == 403, place
                foreign = console.ask(method.upper(), place, body, Origin="http://evil.example")
                assert foreign.status == 403, place


def test_hostile_requests_are_refused_and_never_fail(console: RunningConsole) -> None:
    assert console.ask("GET", "/api/session", Host="evil.example").status == 421
    assert console.ask("GET", "/api/door", Host=socket.gethostname()).status == 200, "this machine's own name"
    for body in ([], "x", None, {"topic": {"a": 1}}, {"topic": "orders", "cursor": {"x": "y"}}):
        assert console.post("/scans", body).status == 400, body
    nested = "(" * 300 + "value.a = 1" + ")" * 300
    assert console.post("/scans", {"topic": "orders", "where": nested}).status in (200, 400)
    assert console.ask("GET", "/api/c/cluster/topics?sort=nothing").status == 400
    assert console.ask("GET", "/api/c/cluster/history?series=x&from=a").status == 400
    assert console.ask("GET", "/api/c/other/overview").status == 404
    assert console.ask("GET", "/assets/../../../etc/passwd").status == 404


def test_pages_carry_the_policy_that_keeps_scripts_out(console: RunningConsole) -> None:
    page = console.ask("GET", "/c/cluster/topics")
    assert "script-src 'self'" in page.headers["Content-Security-Policy"]
    assert page.headers["X-Content-Type-Options"] == "nosniff"
    scripts = [part.split('"')[0] for part in page.body.split('src="')[1:]]
    assert scripts and "style=" not in page.body
    script = console.ask("GET", scripts[0], **{"Accept-Encoding": "gzip"})
    assert "immutable" in script.headers["Cache-Control"]


@asynccontextmanager
async def opened(console: RunningConsole) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
    headers = {"Cookie": console.cookie, "Origin": console.base}
    async with aiohttp.ClientSession(headers=headers) as session:
        for left in reversed(range(100)):
            try:
                socket = await session.ws_connect(f"{console.base}{LIVE}")
                break
            except aiohttp.WSServerHandshakeError as error:  # calls have come too quickly
                if error.status != 429 or not left:
                    raise
                await asyncio.sleep(0.1)
        async with socket:
            yield socket


async def frames_of(console: RunningConsole, said: list[dict[str, Any]], count: int) -> list[Any]:
    async with opened(console) as socket:
        for each in said:
            await socket.send_json(each)
        return [await asyncio.wait_for(socket.receive_json(), 60) for _ in range(count)]


def test_a_tab_is_told_of_samples_and_sees_new_records(server: Server, console: RunningConsole) -> None:
    (first,) = asyncio.run(frames_of(console, [{"sub": 1, "kind": "sample"}], 1))
    assert (first["sub"], first["type"], first["error"]) == (1, "sample", None)

    async def live() -> list[Any]:
        async with opened(console) as socket:
            await socket.send_json({"sub": 2, "kind": "scan", "args": {"topic": "orders", "from": "live"}})
            assert (await asyncio.wait_for(socket.receive_json(), 60))["type"] == "progress"
            producer = Producer({"bootstrap.servers": server.bootstrap})
            producer.produce("orders", key="live", value="now")
            await asyncio.to_thread(producer.flush)
            while True:
                frame = await asyncio.wait_for(socket.receive_json(), 60)
                await socket.send_json({"credit": 2, "frames": 1})
                if frame["type"] == "rows":
                    return list(frame["rows"])

    (row,) = asyncio.run(live())
    assert row["key"]["text"] == "live"


def test_those_who_look_at_one_topic_share_one_reader(server: Server, console: RunningConsole) -> None:
    async def test() -> None:
        filters: list[dict[str, Any]] = [{}, {}, {"where": "value.n >= 50"}, {"partitions": [0]}, {"where": "nothing"}]
        async with opened(console) as socket:
            for number, more in enumerate(filters):
                args = {"topic": "shared", "from": "live", **more}
                await socket.send_json({"sub": number, "kind": "scan", "args": args})
            begun: set[int] = set()
            while len(begun) < len(filters):
                begun.add((await socket.receive_json(timeout=20))["sub"])
            before = await asyncio.to_thread(bytes_out)
            producer = Producer({"bootstrap.servers": server.bootstrap})
            for number in range(100):
                producer.produce("shared", json.dumps({"n": number}), partition=number % 2)
            await asyncio.to_thread(producer.flush)
            seen: dict[int, set[tuple[int, int]]] = {number: set() for number in range(len(filters))}
            while sum(map(len, seen.values())) < 300:
                frame = await socket.receive_json(timeout=20)
                seen[frame["sub"]] |= {(each["partition"], each["offset"]) for each in frame.get("rows", ())}
                await socket.send_json({"credit": frame["sub"], "frames": 1})
            assert [len(each) for each in seen.values()] == [100, 100, 50, 50, 0]
            read = await asyncio.to_thread(bytes_out) - before
            assert 0 < read <= await asyncio.to_thread(written), "the records were fetched once"

    def flows() -> list[ClientTraffic]:
        with BlockingClient(server.bootstrap) as client:
            return client_traffic(client, ("shared",))

    def bytes_out() -> int:
        return sum(each.bytes_out for each in flows() if each.client_id == "ottla-console")

    def written() -> int:
        return sum(each.bytes_in for each in flows())

    admin = AdminClient({"bootstrap.servers": server.bootstrap})
    admin.create_topics([NewTopic("shared", 2)])["shared"].result()
    asyncio.run(test())


def test_of_more_than_a_live_view_shows_the_newest_come_and_the_others_are_counted_once(
    server: Server, console: RunningConsole
) -> None:
    many = 6 * ROWS_PER_SECOND_MAX

    async def test() -> None:
        async with opened(console) as socket:
            await socket.send_json({"sub": 1, "kind": "scan", "args": {"topic": "burst", "from": "live"}})
            await socket.receive_json(timeout=20)
            producer = Producer({"bootstrap.servers": server.bootstrap})
            for number in range(many):
                producer.produce("burst", str(number))
            await asyncio.to_thread(producer.flush)
            shown = skipped = 0
            newest = -1
            while newest < many - 1:
                frame = await socket.receive_json(timeout=20)
                await socket.send_json({"credit": 1, "frames": 1})
                shown += len(frame.get("rows", ()))
                skipped += frame.get("skipped", 0)
                newest = max([newest, *(each["offset"] for each in frame.get("rows", ()))])
            for _ in range(4):  # what is told afterwards counts nothing again
                skipped += (await socket.receive_json(timeout=20)).get("skipped", 0)
                await socket.send_json({"credit": 1, "frames": 1})
            assert shown + skipped == many

    admin = AdminClient({"bootstrap.servers": server.bootstrap})
    admin.create_topics([NewTopic("burst", 1)])["burst"].result()
    asyncio.run(test())


def test_frames_wait_for_credit_and_credit_is_bounded() -> None:
    async def taken() -> tuple[bool, int]:
        credit = Credit()
        for _ in range(8):
            await credit.take()
        waiting = asyncio.create_task(credit.take())
        await asyncio.sleep(0)
        was_waiting = not waiting.done()
        credit.give(1)
        await waiting
        credit.give(1_000_000)
        return was_waiting, credit.frames

    assert asyncio.run(taken()) == (True, 64)


def test_nonsense_on_the_socket_is_answered_with_an_error(console: RunningConsole) -> None:
    said: list[Any] = [{"sub": 1, "kind": "nothing"}, {"sub": 2, "kind": "scan", "args": {"topic": "none"}}]
    found = asyncio.run(frames_of(console, said, 2))
    assert all(each["type"] == "error" for each in found), found


@pytest.mark.slow  # a console of its own; make test-console
def test_changes_are_known_after_a_restart_and_can_be_taken_back(server: Server) -> None:
    asked = {"type": "topics", "name": "orders", "set": {"retention.ms": "2000000"}}
    with running_console(server.bootstrap) as first:
        done = first.run("alter-config", **asked).body
    with running_console(server.bootstrap) as second:
        until(lambda: any(each["id"] == done["id"] for each in second.get("/audit")["items"]), every=0.2)
        found = next(each for each in second.get("/audit")["items"] if each["id"] == done["id"])
        assert found == done and found["undo"]
        plan = second.post(f"/audit/{done['id']}/undo", {})
        back = second.post(f"/plans/{plan.body['id']}/run", {"hash": plan.body["hash"]})
        assert back.body["outcome"] == "done" and back.body["id"] > done["id"], back


@pytest.mark.slow  # a console of its own; make test-console
def test_the_next_console_shows_the_figures_of_one_that_has_ended(server: Server) -> None:
    def points(console: RunningConsole) -> list[Any]:
        return list(console.get("/history?series=in")["points"])

    with running_console(server.bootstrap) as first:
        until(lambda: len(points(first)) > 1)
        minute_ms = points(first)[0][0] // 60_000 * 60_000
    with running_console(server.bootstrap) as second:
        until(lambda: any(each[0] == minute_ms for each in points(second)))


def refused(console: RunningConsole) -> list[Answer]:
    plan = {"action": "create-topic", "arguments": {"topic": "no", "partitions": 1}}
    return [console.post("/plans", plan), console.post("/topics/orders/records", {"value": "x"})]


@pytest.mark.slow  # a console of its own; make test-console
def test_a_read_only_console_refuses_every_change(server: Server) -> None:
    with running_console(server.bootstrap, "--read-only") as console:
        assert [answer.status for answer in refused(console)] == [403, 403]
        assert rows(console.scan(topic="orders", hits=1))


@pytest.mark.slow  # a broker of its own; make test-console
def test_a_console_starts_and_ends_with_its_broker(tmp_path: Path) -> None:
    with running_server(tmp_path, overrides=["ottla.console.listeners=127.0.0.1:0"]) as server:
        until(lambda: any("console http://127.0.0.1:" in line for line in list(server.lines)), lambda: server.lines)
    assert "Traceback" not in "".join(server.lines), server.lines


@pytest.mark.slow  # waits out the timeouts of a client; make test-console
def test_a_cluster_that_is_away_is_said_and_comes_back(tmp_path: Path) -> None:
    with running_server(tmp_path) as server:
        port = server.port
        with running_console(server.bootstrap) as console:
            console.get("/overview")
            server.kill()
            until(lambda: console.get("/overview")["error"], "the error", every=0.5)
            with running_server(tmp_path, port=port):
                until(lambda: console.get("/overview")["error"] is None, "the end of the error", every=0.5)
