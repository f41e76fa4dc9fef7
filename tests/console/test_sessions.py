"""Who somebody is never changes within a session: each login begins one, and what a session has ends with it."""

from __future__ import annotations

import asyncio
import http.client
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from ottla.admin import describe_delegation_tokens
from tests.console.running import RunningConsole
from tests.console.secured import admin, console_with_logins, librdkafka, password, secured_server
from tests.server import Server
from tests.waiting import until

OTHER = "second"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with secured_server(tmp_path_factory.mktemp("broker"), tokens=True) as found:
        made = AdminClient(librdkafka(found, "root"))
        for each in made.create_topics([NewTopic("apples", 1)]).values():
            each.result()
        producer = Producer(librdkafka(found, "root"))
        producer.produce("apples", value=b"x")
        producer.flush()
        yield found


@pytest.fixture(scope="module")
def console(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningConsole]:
    with console_with_logins(server, tmp_path_factory.mktemp("console")) as found:
        yield found


def tokens(server: Server) -> dict[str, str]:
    """Whose delegation tokens there are, by their ids."""
    with admin(server) as client:
        return {each.token_id: each.owner for each in describe_delegation_tokens(client)}


def log_in_over(session: RunningConsole, user: str) -> RunningConsole:
    """Log in with the cookie of a session that is open: as a page does whose user changes."""
    again = RunningConsole(session.process, session.lines, base=session.base, cookie=session.cookie)
    assert again.enter({"user": user, "password": password(user), "mechanism": "PLAIN"}).status == 200
    return again


def test_a_login_over_another_begins_a_session_of_its_own(console: RunningConsole) -> None:
    ann = console.as_user("ann", password("ann"))
    bob = log_in_over(ann, "bob")
    assert bob.cookie != ann.cookie and bob.token != ann.token
    assert ann.ask("GET", "/api/session").status == 401
    old_token = RunningConsole(bob.process, bob.lines, base=bob.base, cookie=bob.cookie, token=ann.token)
    refused = old_token.post("/scans", {"topic": "apples"})
    assert refused.status == 403 and "token" in refused.body["message"]
    assert bob.ask("GET", "/api/session").body["users"]["cluster"]["user"] == "bob"


def test_the_same_user_who_logs_in_again_has_another_session_too(console: RunningConsole) -> None:
    ann = console.as_user("ann", password("ann"))
    again = log_in_over(ann, "ann")
    assert again.cookie != ann.cookie and ann.ask("GET", "/api/session").status == 401


def test_a_login_that_fails_leaves_the_session_as_it_is(console: RunningConsole) -> None:
    ann = console.as_user("ann", password("ann"))
    wrong = RunningConsole(ann.process, ann.lines, base=ann.base, cookie=ann.cookie)
    assert wrong.ask("POST", "/api/login", {"user": "bob", "password": "x", "mechanism": "PLAIN"}).status == 401
    assert ann.ask("GET", "/api/session").body["users"]["cluster"]["user"] == "ann"
    log_in_over(ann, "ann")  # the wrong try is forgotten


def test_a_token_ends_with_the_logout_and_where_another_login_takes_its_place(
    console: RunningConsole, server: Server
) -> None:
    before = tokens(server).keys()
    ann = console.as_user("ann", password("ann"))
    [anns] = tokens(server).keys() - before
    bob = log_in_over(ann, "bob")
    until(lambda: anns not in tokens(server), lambda: tokens(server))
    [bobs] = tokens(server).keys() - before
    assert bob.ask("POST", "/api/logout", {}).status == 200
    until(lambda: bobs not in tokens(server), lambda: tokens(server))


def test_tokens_end_with_the_console(server: Server, tmp_path: Path) -> None:
    before = tokens(server).keys()
    with console_with_logins(server, tmp_path) as console:
        console.as_user("ann", password("ann"))
        [made] = tokens(server).keys() - before
    assert made not in tokens(server)


def test_a_login_on_its_way_while_the_console_stops_leaves_no_token(server: Server, tmp_path: Path) -> None:
    before = tokens(server).keys()
    with console_with_logins(server, tmp_path) as console:

        def enter(_: int) -> None:
            with suppress(OSError, http.client.HTTPException):
                fresh = RunningConsole(console.process, console.lines, base=console.base)
                fresh.enter({"user": "ann", "password": password("ann"), "mechanism": "PLAIN"})

        with ThreadPoolExecutor(12) as threads:
            entering = [threads.submit(enter, each) for each in range(12)]
            until(lambda: tokens(server).keys() - before, "the first token")
            console.process.terminate()
            for each in entering:
                each.result()
            console.process.wait(60)
    assert tokens(server).keys() == before


def test_sockets_of_the_session_before_are_closed(console: RunningConsole) -> None:
    ann = console.as_user("ann", password("ann"))

    async def followed() -> aiohttp.WSMsgType:
        url = f"{ann.base.replace('http', 'ws', 1)}/api/c/cluster/live"
        async with aiohttp.ClientSession() as client, client.ws_connect(url, headers={"Cookie": ann.cookie}) as socket:
            await socket.send_json({"sub": 1, "kind": "scan", "args": {"topic": "apples", "from": "live"}})
            await socket.receive(30)
            await asyncio.to_thread(log_in_over, ann, "bob")
            while (message := await socket.receive(30)).type is aiohttp.WSMsgType.TEXT:
                pass
            return message.type

    assert asyncio.run(followed()) in (aiohttp.WSMsgType.CLOSE, aiohttp.WSMsgType.CLOSED, aiohttp.WSMsgType.CLOSING)


def test_what_is_streamed_breaks_off_with_its_session(console: RunningConsole, server: Server) -> None:
    ann = console.as_user("ann", password("ann"))
    place = urlsplit(ann.base)
    connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=60)
    headers = {"Cookie": ann.cookie, "X-Ottla-Token": ann.token, "Content-Type": "application/json"}
    connection.request("POST", "/api/c/cluster/scans", json.dumps({"topic": "apples", "from": "live"}), headers)
    answer = connection.getresponse()
    assert answer.status == 200 and answer.readline()
    assert ann.ask("POST", "/api/logout", {}).status == 200
    producer = Producer(librdkafka(server, "root"))
    producer.produce("apples", value=b"after the logout")
    producer.flush()
    rest = b""
    with pytest.raises((http.client.IncompleteRead, ConnectionError)):
        rest = answer.read()
    assert b"after the logout" not in rest
    connection.close()
