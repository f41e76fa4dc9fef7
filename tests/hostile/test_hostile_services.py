"""Our HTTP clients against servers that lie: a clear error within the client's bound, and no login at another host."""

from __future__ import annotations

import ast
import asyncio
import resource
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.request import Request

import pytest

from ottla.admin import RestError, Worker
from ottla.cli.sql_shell.client import ServerError, SqlClient
from ottla.client import bounded, web_answer
from ottla.connect.rest.forwarding import forwarding
from ottla.http import Asker, AskError, HttpError, Reply, asking
from ottla.sql_server.outside import Outside, OutsideError
from tests.hostile.services import MODES, hostile_server
from tests.waiting import until

SOURCE = Path(__file__).parents[2] / "src" / "ottla"
OPENERS = {
    "ClientSession": {"http/asking.py"},
    "TCPConnector": set(),
    "urlopen": set(),
    "OpenerDirector": {"client/web.py"},
    "build_opener": {"security/sasl/key_reader.py"},
    "HTTPConnection": {"client/web.py"},
    "HTTPSConnection": {"client/web.py"},
    "httpx": set(),
    "requests": set(),
}
"""What opens HTTP, and the files that may: everything else goes through them, and so through these tests."""
SECONDS_MAX = 0.5
MEMORY_BYTES_MAX = 300 << 20
LOGIN = "me:s3cret"


def _worker(url: str) -> object:
    return Worker(url.replace("//", f"//{LOGIN}@"), answer_s=SECONDS_MAX).ask("GET", "/connectors")


def _sql_client(url: str) -> object:
    return SqlClient(url, "me", "s3cret", answer_s=SECONDS_MAX).info()


def _outside(url: str) -> object:
    async def ask() -> object:
        outside = Outside(url.replace("//", f"//{LOGIN}@"), "", seconds_max=SECONDS_MAX)
        try:
            return await outside.connect("GET", "/connectors")
        finally:
            await outside.close()

    return asyncio.run(ask())


def _asker(url: str) -> object:
    async def ask() -> object:
        asker = Asker(SECONDS_MAX, bytes_max=1 << 20)
        try:
            answer = await asker.ask("POST", url, data=b"{}", headers={"Authorization": "Basic s3cret"})
            if answer.status >= 300:
                raise AskError(f"it answers {answer.status}")
            return answer.json()
        finally:
            await asker.close()

    return asyncio.run(ask())


def _forward(url: str) -> object:
    async def ask() -> Reply:
        return await forwarding(seconds_max=SECONDS_MAX)("PUT", url, b"{}", {"Authorization": "Basic s3cret"})

    return asyncio.run(ask())


CLIENTS: tuple[Callable[[str], object], ...] = (_worker, _sql_client, _outside, _asker)
ERRORS = (RestError, ServerError, OutsideError, AskError)


@pytest.mark.parametrize("ask", CLIENTS)
@pytest.mark.parametrize("mode", MODES)
def test_a_server_that_lies_is_an_error_in_words_and_gets_nobody_elses_login(
    mode: str, ask: Callable[[str], object]
) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with hostile_server("text") as thief, hostile_server(mode, thief.url) as server:
        with pytest.raises(ERRORS) as refused:
            ask(server.url)
        assert server.asked and not thief.asked
    assert 0 < len(str(refused.value)) < 12_000 and "s3cret" not in str(refused.value)
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert (after - before) * 1024 < MEMORY_BYTES_MAX


def test_who_accepts_and_shakes_no_hands_was_sent_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "CONNECT_SECONDS_MAX", 0.1)

    async def ask(url: str) -> None:
        asker = Asker(60.0)
        try:
            await asker.ask("DELETE", url)
        finally:
            await asker.close()

    with hostile_server("silent") as server, pytest.raises(AskError) as refused:
        asyncio.run(ask(server.url.replace("http:", "https:")))
    assert refused.value.is_unreached and "no connection within 0.1 s" in str(refused.value)


def test_what_goes_wrong_is_said_without_the_path_that_may_be_a_secret() -> None:
    with hostile_server("garbage") as server, pytest.raises(AskError) as refused:
        _asker(f"{server.url}/hook/h\N{LATIN SMALL LETTER O WITH DIAERESIS}k?key=s3cret")
    assert server.asked and "not HTTP" in str(refused.value)
    assert "hook" not in str(refused.value) and "s3cret" not in str(refused.value)


@pytest.mark.parametrize("mode", ["silent", "drip-head", "drip-body", "endless", "endless-head", "cut", "garbage"])
def test_a_worker_that_lies_to_another_is_an_error_of_that_request(mode: str) -> None:
    with hostile_server(mode) as server, pytest.raises(HttpError) as refused:
        _forward(server.url)
    assert refused.value.status == 500


def test_what_a_worker_answers_is_passed_on_and_its_redirects_are_not_followed() -> None:
    with hostile_server("text") as thief, hostile_server("redirect", thief.url) as server:
        reply = _forward(server.url)
        assert isinstance(reply, Reply) and reply.status == 302 and not thief.asked


def test_http_is_opened_in_the_places_that_are_bounded_and_in_no_other() -> None:
    found: dict[str, set[str]] = {name: set() for name in OPENERS}
    for path in SOURCE.rglob("*.py"):
        text = path.read_text()
        if not any(name in text for name in OPENERS):
            continue
        for node in ast.walk(ast.parse(text)):
            names = {
                ast.Name: lambda each: [each.id],
                ast.Attribute: lambda each: [each.attr],
                ast.alias: lambda each: [each.name.partition(".")[0], each.name.rpartition(".")[2]],
            }.get(type(node), lambda each: [])(node)
            is_module = isinstance(node, ast.alias)
            for name in names:
                if name in found and (is_module or name not in ("requests", "httpx")):
                    found[name].add(path.relative_to(SOURCE).as_posix())
    assert found == OPENERS


def test_a_connection_that_comes_after_the_time_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each address of a name may take as long as a whole answer: the cut is over before there is anything to cut."""
    lookup = socket.getaddrinfo

    def late(*args: Any, **kwargs: Any) -> Any:
        until(lambda: not any(isinstance(each, threading.Timer) for each in threading.enumerate()), "the cut")
        return lookup(*args, **kwargs)

    with hostile_server("drip-body") as server:
        monkeypatch.setattr(socket, "getaddrinfo", late)
        with pytest.raises(TimeoutError), web_answer(Request(server.url), answer_s=0.2, total_s=0.2) as answer:
            bounded(answer)
        assert not server.asked
