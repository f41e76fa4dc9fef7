"""The guard of a service over sockets: names, pages, logins and types of bodies, before a handler runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest
from aiohttp.test_utils import make_mocked_request

from ottla.http import (
    FORM,
    JSON,
    Guard,
    HttpError,
    HttpServer,
    Reply,
    Request,
    Route,
    Who,
    everybody,
    how_open,
    json_reply,
    known_hosts,
)
from tests.http.test_server import run

asked: list[str] = []


async def answered(request: Request) -> Reply:
    asked.append(request.path)
    return json_reply({})


def admit(request: Request) -> Reply | None:
    return None if request.headers.get("Authorization") == "yes" else json_reply({"who": "nobody"}, status=401)


@asynccontextmanager
async def serving(guard: Guard, *, takes: tuple[str, ...] = (JSON,)) -> AsyncIterator[str]:
    asked.clear()
    routes = [Route("POST", f"/{who.name.lower()}", answered, who, takes) for who in Who]
    server = HttpServer(routes, guard, error_reply=lambda error: json_reply(f"E{error.status}", status=error.status))
    port = await server.listen("127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        await server.close()


async def status(url: str, data: bytes | None = None, **headers: str) -> int:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    skipped = [] if data is None or "Content_Type" in headers else ["Content-Type"]
    async with (
        aiohttp.ClientSession() as session,
        session.post(url, data=data, headers=named, skip_auto_headers=skipped) as answer,
    ):
        if answer.status not in (200, 401):
            assert await answer.json() == f"E{answer.status}", "the service's own form"
        return answer.status


def test_routes_are_asked_by_whom_they_say_and_no_handler_runs_for_others() -> None:
    async def test() -> None:
        async with serving(Guard(admit, None)) as url:
            for who in Who:
                wanted = 401 if who.needs_admission else 200
                assert await status(f"{url}/{who.name.lower()}") == wanted
                assert await status(f"{url}/{who.name.lower()}", Authorization="yes") == 200
        assert len(asked) == 2 * len(Who) - 2

    run(test)


@pytest.mark.parametrize(
    "host", ["127.0.0.1:9180", "localhost", "LOCALHOST:1", "[::1]:9180", "10.1.2.3", "A.Example:80"]
)
def test_addresses_and_known_names_are_answered(host: str) -> None:
    async def test() -> None:
        async with serving(Guard(everybody, known_hosts([], ["a.example"], is_protected=False))) as url:
            assert await status(f"{url}/anyone", Host=host) == 200

    run(test)


@pytest.mark.parametrize(
    ("host", "found"),
    [
        ("ottla-0.ottla-brokers.default.svc.cluster.local:9404", 200),
        ("a.svc.cluster.local", 200),
        ("svc.cluster.local", 421),
        ("evilsvc.cluster.local", 421),
        ("a.svc.cluster.local.evil.example", 421),
        ("*.evil.example", 421),
    ],
)
def test_a_domain_stands_for_every_name_below_it(host: str, found: int) -> None:
    async def test() -> None:
        async with serving(Guard(everybody, known_hosts([], ["*.SVC.cluster.local"], is_protected=False))) as url:
            assert await status(f"{url}/anyone", Host=host) == found

    run(test)


@pytest.mark.parametrize("host", ["evil.example:9180", "127.0.0.1.evil.example", "localhost.evil.example", "1.2.3.4.5"])
def test_another_name_that_leads_here_is_refused_before_everything(host: str) -> None:
    async def test() -> None:
        async with serving(Guard(admit, known_hosts(["here"], is_protected=False))) as url:
            for who in Who:
                assert await status(f"{url}/{who.name.lower()}", Host=host) == 421
            assert await status(f"{url}/there/is/none", Host=host) == 421
        assert not asked

    run(test)


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "file://", "http://localhost", "http://127.0.0.1:1"])
def test_a_page_of_another_origin_is_refused_unless_it_is_allowed(origin: str) -> None:
    async def test() -> None:
        async with serving(Guard(everybody, None)) as url:
            assert await status(f"{url}/anyone", Origin=origin) == 403
            assert await status(f"{url}/anyone", Origin=url) == 200
        async with serving(Guard(everybody, None, origins=[origin])) as url:
            assert await status(f"{url}/anyone", Origin=origin) == 200
            assert await status(f"{url}/anyone", Origin="http://other.example") == 403
        async with serving(Guard(everybody, None, origins=["*"])) as url:
            assert await status(f"{url}/anyone", Origin=origin) == 200

    run(test)


@pytest.mark.parametrize(
    ("key", "words"),
    [("access.control.allow.origin", "access.control.allow.origin allows"), ("", "a proxy has to pass")],
)
def test_who_refuses_a_page_names_the_setting_that_allows_it_where_there_is_one(key: str, words: str) -> None:
    request = make_mocked_request("GET", "/", headers={"Host": "here", "Origin": "https://ui.example"})
    with pytest.raises(HttpError, match=words):
        Guard(everybody, None, origins_key=key).check(request)


@pytest.mark.parametrize("kind", ["text/plain", "multipart/form-data", "application/xml", "a", "APPLICATION/XML"])
def test_a_body_of_another_type_is_refused(kind: str) -> None:
    async def test() -> None:
        async with serving(Guard(everybody, None)) as url:
            assert await status(f"{url}/anyone", b"{}", Content_Type=kind) == 415
            assert await status(f"{url}/anyone", b"{}", Content_Type="Application/JSON; charset=utf-8") == 200
            assert await status(f"{url}/anyone", b"{}") == 200, "a program that names no type"

    run(test)


def test_a_form_is_taken_from_curl_where_it_is_named_and_from_no_browser() -> None:
    async def test() -> None:
        async with serving(Guard(everybody, None), takes=(JSON, FORM)) as url:
            assert await status(f"{url}/anyone", b"{}", Content_Type=FORM) == 200
            for mark in ({"Origin": url}, {"Sec_Fetch_Site": "same-origin"}, {"Sec_Fetch_Site": "none"}):
                assert await status(f"{url}/anyone", b"{}", Content_Type=FORM, **mark) == 415
                assert await status(f"{url}/anyone", b"{}", **mark) == 415, "nor one without a type"
                assert await status(f"{url}/anyone", b"{}", Content_Type=JSON, **mark) == 200

    run(test)


def test_a_route_has_bounds_of_its_own() -> None:
    async def slow(request: Request) -> Reply:
        await request.read()
        await asyncio.Event().wait()
        raise AssertionError

    async def test() -> None:
        routes = [Route("POST", "/", slow, Who.ANYONE, body_bytes_max=100, seconds_max=0.01)]
        server = HttpServer(routes, Guard(everybody, None))
        url = f"http://127.0.0.1:{await server.listen('127.0.0.1', 0)}"
        try:
            async with aiohttp.ClientSession() as session:
                async with session.post(url, json="x" * 200) as answer:
                    assert answer.status == 413
                async with session.post(url, json="x") as answer:
                    assert answer.status == 504
        finally:
            await server.close()

    run(test)


def test_a_route_may_have_more_time_than_others() -> None:
    async def longer(request: Request) -> Reply:
        await asyncio.wait({asyncio.create_task(asyncio.Event().wait())}, timeout=0.05)
        return json_reply({})

    async def test() -> None:
        routes = [Route("POST", f"/{s:g}", longer, Who.ANYONE, seconds_max=s or None) for s in (0, 30)]
        server = HttpServer(routes, Guard(everybody, None), request_seconds_max=0.01)
        url = f"http://127.0.0.1:{await server.listen('127.0.0.1', 0)}"
        try:
            async with aiohttp.ClientSession() as session:
                for path, found in (("0", 504), ("30", 200)):
                    async with session.post(f"{url}/{path}") as answer:
                        assert answer.status == found
        finally:
            await server.close()

    run(test)


def test_any_name_is_safe_behind_a_login_or_tls_unless_names_are_listed() -> None:
    assert known_hosts([], is_protected=True) is None and known_hosts([], ["*"], is_protected=False) is None
    assert "a.example" in (known_hosts([], ["A.example"], is_protected=True) or ())
    assert "b.example" in (known_hosts(["B.example"], is_protected=False) or ())


@pytest.mark.parametrize(
    ("host", "has_logins", "has_tls", "words"),
    [
        ("localhost", False, False, ""),
        ("127.0.0.1", False, False, ""),
        ("", True, True, ""),
        ("", False, False, "other machines reach it without a login and without TLS"),
        ("0.0.0.0", True, False, "other machines reach it without TLS"),
        ("10.0.0.1", False, True, "other machines reach it without a login"),
    ],
)
def test_what_is_open_is_said(host: str, has_logins: bool, has_tls: bool, words: str) -> None:
    assert how_open(host, has_logins=has_logins, has_tls=has_tls) == words


def test_a_refusal_may_be_an_error_of_admit() -> None:
    def refuse(request: Request) -> Reply | None:
        raise HttpError(429, "later")

    async def test() -> None:
        async with serving(Guard(refuse, None)) as url:
            assert await status(f"{url}/logged_in") == 429
        assert not asked

    run(test)
