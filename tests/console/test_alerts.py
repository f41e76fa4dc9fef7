"""Alerts: conditions over figures, when they ring, who is told, and that nobody is told twice."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from ottla.base import ConfigError, Millis
from ottla.base import TopicPartition as Partition
from ottla.client import Client
from ottla.console.alerts.keeper import ALERT_CONFIGS, OWNER_GONE_MS, AlertKeeper
from ottla.console.alerts.notices import Notices, mail_settings, targets_of
from ottla.console.alerts.rules import OK, RINGING, WAITING, AlertError, State, next_state, rule_of
from ottla.console.figures.history import History
from ottla.console.figures.measures import FIGURES, FIGURES_SAID
from ottla.console.figures.offset_times import OffsetTimes
from ottla.console.figures.sampler import Sampler
from ottla.console.figures.samples import BrokerSample, GroupSample, PartitionSample, Sample
from ottla.console.figures.views import Seen
from ottla.console.own_topic import OwnTopic
from ottla.wire import Record
from tests.console.running import running_console
from tests.server import Server, running_server
from tests.waiting import until

AT_MS = 1_790_000_000_000
LAG_RULE: dict[str, Any] = {"name": "behind", "condition": "lag('billing') > 100", "targets": ["ops"]}


def seen(lag: int | None = 0, at_s: float = 0, **changed: Any) -> Seen:
    """Return a cluster in which a group is so far behind; None: that group is not there."""
    groups = {}
    if lag is not None:
        groups["billing"] = GroupSample("Stable", "classic", "", {Partition("orders", 0): 1000 - lag})
    sample = Sample(
        AT_MS + int(at_s * 1000),
        "id",
        1,
        {1: BrokerSample("h", 1, None, 5, 100, 40)},
        {"orders": {0: PartitionSample(1, (1, 2), (1,), 0, 1000)}},
        frozenset(),
        groups,
        sizes={"orders": 500},
    )
    return Seen(replace(sample, **changed), None, History(), OffsetTimes(), 5.0)


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        ("lag('billing') > 100", True),
        ("lag() >= 200 AND brokers() = 1", True),
        ("lag('nobody') > 0", None),
        ("lag('nobody') IS NULL", True),
        ("state('billing') = 'STABLE'", True),
        ("state('billing') IN ('EMPTY', 'DEAD')", False),
        ("disk_free() < 0.5", True),
        ("disk_free('1') BETWEEN 0.3 AND 0.5", True),
        ("disk_free('2') < 1", None),
        ("not_in_sync('orders') = 1 AND without_leader() = 0", True),
        ("bytes('orders') > 400 OR written('orders') > 1", True),
        ("written('orders') > 1", None),
        ("NOT (findings('bad') > 0)", True),
        ("ABS(lag('billing') - 300) = 100", True),
    ],
)
def test_a_condition_asks_for_figures_and_is_unknown_where_they_are(condition: str, holds: bool | None) -> None:
    assert rule_of({"name": "r", "condition": condition}).measured.evaluate(seen(200)) is holds


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "name has letters"),
        ({"name": "a/b", "condition": "lag() > 1"}, "name has letters"),
        ({"name": "r"}, "condition is needed"),
        ({"name": "r", "condition": "lag() >"}, "line 1"),
        ({"name": "r", "condition": "lag()"}, "true or false"),
        ({"name": "r", "condition": "1 = 1"}, "asks for no figure"),
        ({"name": "r", "condition": "lags() > 1"}, "no figure lags: there are brokers()"),
        ({"name": "r", "condition": "lag(1) > 1"}, "at most 1 texts in quotes"),
        ({"name": "r", "condition": "brokers('x') > 1"}, "takes nothing"),
        ({"name": "r", "condition": "value.x > 1"}, "There are no columns here"),
        ({"name": "r", "condition": "lag() > 1 FOR 200 HOURS"}, "a week at most"),
        ({"name": "r", "condition": "NOT " * 1000 + "(lag() > 1)"}, ""),
        ({"name": "r", "condition": "lag() > 1", "severity": "worse"}, "severity is one of"),
        ({"name": "r", "condition": "lag() > 1", "targets": "ops"}, "targets is a list"),
    ],
)
def test_what_cannot_be_a_rule_says_why(given: dict[str, Any], words: str) -> None:
    with pytest.raises(AlertError) as failed:
        rule_of(given)
    assert words in str(failed.value)


def test_every_figure_is_explained() -> None:
    assert {each.partition("(")[0] for each in FIGURES_SAID} == FIGURES.keys()


def states(condition: str, *steps: tuple[float, int | None]) -> list[str]:
    rule, state, found = rule_of({"name": "r", "condition": condition}), State(), []
    for at_s, lag in steps:
        state = next_state(rule, state, seen(lag, at_s))
        found.append(state.is_)
    return found


def test_a_condition_has_to_hold_for_its_time_without_a_break() -> None:
    rule = "lag('billing') > 100 FOR 1 MINUTE"
    assert states(rule, (0, 200), (59, 200), (60, 200), (65, 0)) == [WAITING, WAITING, RINGING, OK]
    assert states(rule, (0, 200), (50, 0), (55, 200), (100, 200), (115, 200)) == [
        WAITING,
        OK,
        WAITING,
        WAITING,
        RINGING,
    ]
    assert states("lag('billing') > 100", (0, 200)) == [RINGING]
    assert states(rule, (1000, 200), (0, 200), (59, 200), (61, 200)) == [WAITING, WAITING, WAITING, RINGING]


def test_what_is_not_known_for_a_moment_changes_nothing() -> None:
    rule = "lag('billing') > 100"
    assert states(rule, (0, 200), (5, None), (100, None), (105, 200)) == [RINGING] * 4
    assert states(rule, (0, 200), (5, None), (200, None)) == [RINGING, RINGING, OK]
    assert states(rule, (0, None), (500, None)) == [OK, OK]


@pytest.mark.parametrize("text", ["ops", "ops=ftp://x", "=https://x", "a=https://x,a=https://y", "ops=mailto:"])
def test_what_is_no_target_is_refused_and_its_address_not_shown(text: str) -> None:
    with pytest.raises(ConfigError) as failed:
        targets_of(text, "ottla.console.alerts.targets")
    assert "://" not in str(failed.value).replace("https://HOST", "")
    assert "x" not in repr(targets_of("ops=https://x", "s")).replace("ops", "")[20:].replace("webhook", "")


@pytest.mark.parametrize("url", ["mail", "http://h", "smtp://", "smtp://h:x", "smtp://h:0"])
def test_what_is_no_mail_server_is_refused(url: str) -> None:
    with pytest.raises(ConfigError):
        mail_settings(url, "a@b", "s")


class Hook:
    """A web server that keeps what it is told, and answers as it is set to."""

    def __init__(self) -> None:
        self.told: list[dict[str, Any]] = []
        self.status = 204
        hook = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                length = int(self.headers["Content-Length"])
                hook.told.append(json.loads(self.rfile.read(length)))
                self.send_response(hook.status)
                self.send_header("Location", "http://127.0.0.1:1/")
                self.end_headers()

            def log_message(self, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/hook?secret=1"

    def states(self) -> list[str]:
        return [each["state"] for each in self.told]

    @contextmanager
    def serving(self) -> Iterator[Hook]:
        thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            thread.join()
            self._server.server_close()


@pytest.fixture
def hook() -> Iterator[Hook]:
    with Hook().serving() as found:
        yield found


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    overrides = ["group.initial.rebalance.delay.ms=0", "offsets.topic.num.partitions=1"]
    with running_server(tmp_path_factory.mktemp("broker"), overrides=overrides) as found:
        yield found


class World:
    """Consoles of one cluster that look when they are told to, at what they are told."""

    def __init__(self, client: Client, topic: str, hook: Hook) -> None:
        self.client, self.topic, self.hook = client, topic, hook
        self.now_ms = AT_MS

    async def console(self, *rules: dict[str, Any], acts: bool = True) -> AlertKeeper:
        """Start a console; the first one makes the rules."""
        topic = OwnTopic(self.client, self.topic, ALERT_CONFIGS)
        targets = {each.name: each for each in targets_of(f"ops={self.hook.url},log=topic:told", "s")}
        found = AlertKeeper(
            *(Sampler(self.client), topic, Notices(self.client, targets, None)),
            cluster="c",
            link=lambda: "http://console/c/c",
            now_ms=lambda: self.now_ms,
            acts=acts,
        )
        for rule in rules:
            await self.write(f"rule {rule['name']}", rule)
        return found

    async def write(self, key: str, value: object) -> None:
        data = None if value is None else json.dumps(value).encode()
        topic = OwnTopic(self.client, self.topic, ALERT_CONFIGS)
        await topic.append(Record(timestamp=Millis(self.now_ms), key=key.encode(), value=data))

    async def look(self, console: AlertKeeper, lag: int | None, at_s: float) -> str:
        """Have a console look at a cluster; returns how it stands with the first rule when everybody is told."""
        self.now_ms = AT_MS + int(at_s * 1000)
        found = seen(lag, at_s)
        await console.look(found)
        await console.settled()
        return console.rows(found)[0].state.is_


@pytest.fixture
def world(server: Server, hook: Hook, request: pytest.FixtureRequest) -> Any:
    """Returns a function that runs a coroutine of a world."""

    def run(test: Any) -> None:
        async def begun() -> None:
            client = Client(server.bootstrap)
            try:
                await test(World(client, f"alerts-{request.node.name[:80]}", hook))
            finally:
                await client.close()

        asyncio.run(begun())

    return run


def test_an_alert_rings_once_and_ends_once(world: Any, hook: Hook) -> None:
    async def test(found: World) -> None:
        console = await found.console(LAG_RULE)
        assert [await found.look(console, lag, at * 5) for at, lag in enumerate((0, 200, 300, 200))] == [
            OK,
            *[RINGING] * 3,
        ]
        (told,) = hook.told
        assert told == {
            "version": 1,
            "state": "ringing",
            "alert": {"name": "behind", "condition": "lag('billing') > 100", "severity": "bad", "targets": ["ops"]},
            "cluster": {"name": "c", "id": ""},
            "at_ms": AT_MS + 5000,
            "since_ms": AT_MS + 5000,
            "values": {"lag('billing')": 200},
            "text": "Ringing: behind on c: lag('billing') > 100 (lag('billing') = 200)",
            "link": "http://console/c/c/alerts",
        }
        assert [await found.look(console, lag, 30 + at * 5) for at, lag in enumerate((0, 0, 200))] == [OK, OK, RINGING]
        assert hook.states() == ["ringing", "resolved", "ringing"]

    world(test)


def test_a_console_that_starts_anew_does_not_ring_again(world: Any, hook: Hook) -> None:
    async def test(found: World) -> None:
        first = await found.console(LAG_RULE)
        await found.look(first, 200, 0)
        second = await found.console()
        assert await found.look(second, 200, 5) == RINGING
        assert await found.look(second, None, 10) == RINGING, "what it does not know at first ends nothing"
        assert hook.states() == ["ringing"]
        await found.look(second, 0, 15)
        assert hook.states() == ["ringing"], "the first one may be alive, and tell"
        await found.look(second, 0, 15 + OWNER_GONE_MS / 1000)
        assert hook.states() == ["ringing", "resolved"]

    world(test)


def test_of_two_consoles_one_tells(world: Any, hook: Hook) -> None:
    async def test(found: World) -> None:
        both = [await found.console(LAG_RULE), await found.console()]
        for at, lag in enumerate((0, 200, 200, 0, 0, 200, 0)):
            for console in both if at % 2 else reversed(both):
                await found.look(console, lag, at * 5)
        assert hook.states() == ["ringing", "resolved"] * 2

    world(test)


def test_a_console_that_dies_before_it_has_told_is_stood_in_for(world: Any, hook: Hook) -> None:
    async def test(found: World) -> None:
        await found.console(LAG_RULE)
        state = {"state": RINGING, "since_ms": AT_MS, "rang_ms": AT_MS, "owner": "dead", "told": False}
        await found.write("state behind", state)
        other = await found.console()
        await found.look(other, 200, 60)
        assert hook.told == []
        for at_s in (OWNER_GONE_MS / 1000, OWNER_GONE_MS / 1000 + 5):
            assert await found.look(other, 200, at_s) == RINGING
        assert hook.states() == ["ringing"]

    world(test)


def test_a_silence_holds_over_a_restart_and_what_still_rings_behind_it_is_told(world: Any, hook: Hook) -> None:
    async def test(found: World) -> None:
        first = await found.console(LAG_RULE)
        await found.write("silence behind", {"until_ms": AT_MS + 60_000})
        assert await found.look(first, 200, 5) == RINGING
        second = await found.console()
        assert await found.look(second, 200, 10) == RINGING
        assert hook.told == []
        await found.look(first, 200, 61)
        await found.look(second, 200, 62)
        assert hook.states() == ["ringing"]

    world(test)


def test_what_is_deleted_leaves_nothing_for_the_next_rule_of_its_name(world: Any, hook: Hook) -> None:
    async def test(found: World) -> None:
        console = await found.console(LAG_RULE)
        console.start()
        try:
            await found.write("silence behind", {"until_ms": AT_MS + 3_600_000})
            assert await found.look(console, 200, 5) == RINGING and hook.told == []
            await asyncio.to_thread(console.put, "behind", None)
            await asyncio.to_thread(console.put, "behind", LAG_RULE)
            again = await found.console()
            for at_s, each in ((10, console), (15, again)):
                assert await found.look(each, 200, at_s) == RINGING
                assert each.silence("behind") == 0
            assert hook.states() == ["ringing"]
            await asyncio.to_thread(console.put, "behind", None)
            topic = OwnTopic(found.client, found.topic, ALERT_CONFIGS)
            last = {record.key: record.value async for record in topic.records()}
            assert set(last.values()) == {None}, "a topic that is compacted holds nothing of it any more"
        finally:
            await console.stop()

    world(test)


def test_a_silence_that_was_left_by_a_rule_that_is_gone_holds_for_no_other(world: Any, hook: Hook) -> None:
    async def test(found: World) -> None:
        console = await found.console(LAG_RULE)
        await found.write("silence behind", {"until_ms": AT_MS + 3_600_000})
        await found.write("rule behind", None)
        await found.write("rule behind", LAG_RULE)
        assert await found.look(console, 200, 5) == RINGING
        assert hook.states() == ["ringing"]

    world(test)


def test_a_target_that_fails_is_tried_again_and_said(world: Any, hook: Hook, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.console.alerts.notices.PAUSES_S", (0.0, 0.0, 0.0))

    async def test(found: World) -> None:
        hook.status = 302
        console = await found.console({**LAG_RULE, "targets": ["ops", "gone", "log"]})
        assert await found.look(console, 200, 0) == RINGING
        (row,) = console.rows(seen(200))
        assert len(hook.told) == 4 and row.errors == {
            "ops": "it answered HTTP 302",
            "gone": "there is no target gone in the console's settings",
            "log": "there is no topic told",
        }
        await found.look(console, 200, 5)
        assert len(hook.told) == 4, "it was given up"

    world(test)


def test_rules_that_nobody_understands_are_named_and_stop_no_others(world: Any, hook: Hook) -> None:
    async def test(found: World) -> None:
        console = await found.console({"name": "odd", "condition": "nonsense ("}, LAG_RULE)
        for key, value in (
            ("state behind", {"state": RINGING}),
            ("silence x", []),
            ("what", 1),
            ("rule deep", "[" * 9),
        ):
            await found.write(key, value)
        assert await found.look(console, 200, 5) == RINGING
        assert list(console.broken) == ["odd"]
        await found.write("rule odd", None)
        await found.look(console, 200, 10)
        assert not console.broken and hook.states() == ["ringing"]

    world(test)


def test_a_read_only_console_shows_what_rings_and_tells_nobody(world: Any, hook: Hook) -> None:
    async def test(found: World) -> None:
        await found.console(LAG_RULE)
        looking = await found.console(acts=False)
        for at_s in (0, 5, 300):
            await found.look(looking, 200, at_s)
        assert hook.told == []

    world(test)


@pytest.mark.slow  # a console of its own; make test-console
def test_a_rule_is_made_rings_is_silenced_and_deleted_in_the_console(server: Server, hook: Hook) -> None:
    producer = Producer({"bootstrap.servers": server.bootstrap})
    for _ in range(50):
        producer.produce("orders", b"x")
    producer.flush()
    consumer = Consumer({"bootstrap.servers": server.bootstrap, "group.id": "slow", "enable.auto.commit": False})
    consumer.commit(offsets=[TopicPartition("orders", 0, 1)], asynchronous=False)
    consumer.close()
    options = ("--override", f"ottla.console.alerts.targets=ops={hook.url}")
    with running_console(server.bootstrap, *options) as console:
        checked = console.post("/alerts/check", {"condition": "lag('slow') > 9"}).body
        assert checked["error"] == "" and checked["values"].keys() == {"lag('slow')"}
        assert "no figure" in console.post("/alerts/check", {"condition": "nothing() > 9"}).body["error"]
        rule = {"name": "slow group", "condition": "lag('slow') > 9", "targets": ["ops"]}
        unknown = {"action": "set-alert", "arguments": {**rule, "targets": ["x"]}}
        assert "There is no target x" in console.post("/plans", unknown).body["message"]
        done = console.run("set-alert", **rule).body
        assert done["outcome"] == "done" and "secret" not in str(done)
        until(lambda: hook.told)
        assert hook.told[0]["values"] == {"lag('slow')": 49} and hook.told[0]["cluster"]["id"]
        found = console.get("/alerts")
        assert [(each["name"], each["state"]) for each in found["items"]] == [("slow group", "ringing")]
        assert "secret" not in str(found)
        assert console.post("/alerts/slow%20group/test", {}).body == {"errors": {}}
        assert hook.states() == ["ringing", "test"]
        assert console.post("/alerts/none/test", {}).status == 404
        assert console.run("silence-alert", name="slow group", minutes=30).body["outcome"] == "done"
        assert console.get("/alerts")["items"][0]["silenced_until_ms"] > found["sampled_at"]
        deleted = console.run("delete-alert", name="slow group").body
        assert deleted["outcome"] == "done" and console.get("/alerts")["items"] == []
        plan = console.post(f"/audit/{deleted['id']}/undo", {}).body
        back = console.post(f"/plans/{plan['id']}/run", {"hash": plan["hash"]}).body
        assert back["outcome"] == "done", back
        (found_again,) = console.get("/alerts")["items"]
        assert found_again["name"] == "slow group" and found_again["silenced_until_ms"] is None
        until(lambda: len(hook.told) == 3)  # it is another rule now, which rings
    assert hook.states() == ["ringing", "test", "ringing"]
