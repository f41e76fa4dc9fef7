"""Users log in to the console by an issuer's page (OpenID Connect, code and PKCE), and by certificates."""

from __future__ import annotations

import http.client
import socket
import ssl
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import pytest

from ottla.admin import create_acls
from ottla.base import ConfigError
from ottla.client import BlockingClient, client_network
from ottla.console import ClusterSettings, console_settings
from ottla.security import Operation, Resource
from tests.console.issuer_server import CLIENT_ID, SECRET, IssuerServer, running_issuer
from tests.console.running import Answer, RunningConsole
from tests.console.secured import console_with_logins, entry, properties, secured_server
from tests.console.visits import needs_chromium, running_browser
from tests.security.authority import Identity, authority, signed
from tests.security.tls_files import key_properties, trust_properties
from tests.server import Server
from tests.waiting import until

ALLOWED = "-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls="
BROKERS_MECHANISMS = "PLAIN,SCRAM-SHA-512,OAUTHBEARER"


@pytest.fixture(scope="module")
def ca() -> Identity:
    return authority()


@contextmanager
def everything(
    folder: Path, ca: Identity, *, tokens: bool, secret: str | None = SECRET, lasts_s: int = 300, renews: bool = False
) -> Iterator[tuple[IssuerServer, Server, RunningConsole]]:
    """An issuer, a broker that trusts it, and a console on which one logs in by it."""
    with ExitStack() as stack:
        host = signed(ca, "issuer")
        issuer = stack.enter_context(running_issuer(folder, host, secret=secret, lasts_s=lasts_s, renews=renews))
        keys = issuer.write_keys(folder / "jwks.json")
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("KAFKA_OPTS", f"{ALLOWED}{keys}")
            server = stack.enter_context(
                secured_server(
                    folder,
                    f"sasl.oauthbearer.jwks.endpoint.url={keys}",
                    f"sasl.oauthbearer.expected.issuer={issuer.url}",
                    "sasl.oauthbearer.expected.audience=kafka",
                    tokens=tokens,
                    mechanisms=BROKERS_MECHANISMS,
                )
            )
        trust = {f"ottla.console.oidc.{key}": value for key, value in trust_properties(folder, ca).items()}
        given = {"ottla.console.oidc.issuer": issuer.url, "ottla.console.oidc.client.id": CLIENT_ID, **trust}
        if secret is not None:
            given["ottla.console.oidc.client.secret"] = secret
        options = [part for key, value in given.items() for part in ("--override", f"{key}={value}")]
        console = stack.enter_context(
            console_with_logins(server, folder, *options, mechanisms="OAUTHBEARER,SCRAM-SHA-512")
        )
        yield issuer, server, console


@pytest.fixture(scope="module")
def with_tokens(
    tmp_path_factory: pytest.TempPathFactory, ca: Identity
) -> Iterator[tuple[IssuerServer, Server, RunningConsole]]:
    with everything(tmp_path_factory.mktemp("tokens"), ca, tokens=True) as found:
        yield found


class Browser:
    """What a browser does about redirects and cookies, a step at a time."""

    def __init__(self, console: RunningConsole, ca: Identity) -> None:
        self.base = urlsplit(console.base).netloc
        self.cookies: dict[str, str] = {}
        self.tls = ssl.create_default_context(cadata=ca.chain_pem())

    def get(self, url: str) -> tuple[int, str, str]:
        """Return the status, where it leads, and the body."""
        parts = urlsplit(url)
        place = parts.netloc or self.base
        secure = parts.scheme == "https"
        connection = (
            http.client.HTTPSConnection(place, context=self.tls, timeout=30)
            if secure
            else http.client.HTTPConnection(place, timeout=30)
        )
        own = {} if secure else {"Cookie": "; ".join(f"{name}={value}" for name, value in self.cookies.items())}
        connection.request("GET", f"{parts.path}?{parts.query}", headers=own)
        answer = connection.getresponse()
        for each in answer.headers.get_all("Set-Cookie") or ():
            name, _, value = each.partition(";")[0].partition("=")
            self.cookies[name] = value
            assert "HttpOnly" in each
        body = answer.read().decode()
        connection.close()
        return answer.status, answer.headers.get("Location") or "", body

    def leave(self, **query: str) -> str:
        """Go to the issuer's page, and return where that is."""
        status, where, _ = self.get(f"/api/login/issuer?{urlencode(query)}")
        assert status == 303
        return where

    def sign_in(self, where: str, user: str) -> str:
        """Say at the issuer's page who one is, and return where it sends one back to."""
        parts = urlsplit(where)
        assert self.get(where)[0] == 200
        asked = {**dict(parse_qsl(parts.query)), "user": user}
        status, back, _ = self.get(f"https://{parts.netloc}/in?{urlencode(asked)}")
        assert status == 302
        return back

    def session(self, console: RunningConsole) -> RunningConsole:
        """Return the console as it answers this browser."""
        cookie = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        found = RunningConsole(console.process, console.lines, base=console.base, cookie=cookie)
        answer = found.ask("GET", "/api/session")
        assert answer.status == 200, answer
        found.token = answer.body["token"]
        return found

    def failure(self, back: str) -> str:
        """Return what the door says of a login that has failed."""
        status, where, _ = self.get(back)
        assert status == 303 and where.startswith("/?failed="), (status, where)
        return str(Answer(200, None, self.get(f"/api/door?{urlsplit(where).query}")[2]).body)


def test_who_comes_back_from_the_issuer_is_that_user_at_the_brokers(
    with_tokens: tuple[IssuerServer, Server, RunningConsole], ca: Identity
) -> None:
    _, _, console = with_tokens
    browser = Browser(console, ca)
    back = browser.sign_in(browser.leave(cluster="cluster", to="/c/cluster/topics?q=a"), "root")
    assert browser.get(back)[:2] == (303, "/c/cluster/topics?q=a")
    session = browser.session(console)
    assert session.ask("GET", "/api/session").body["users"] == {"cluster": {"user": "root", "kept": "token"}}
    assert session.run("create-topic", topic="plums", partitions=1).status == 200
    other = Browser(console, ca)
    other.get(other.sign_in(other.leave(), "ann"))
    ann = other.session(console)
    plan = ann.post("/plans", {"action": "create-topic", "arguments": {"topic": "pears", "partitions": 1}})
    assert plan.status == 403, plan


def test_an_answer_is_good_once_and_in_the_browser_that_asked_alone(
    with_tokens: tuple[IssuerServer, Server, RunningConsole], ca: Identity
) -> None:
    _, _, console = with_tokens
    victim, attacker = Browser(console, ca), Browser(console, ca)
    back = attacker.sign_in(attacker.leave(), "ann")
    assert "another browser" in victim.failure(back)
    assert "not begun here" in attacker.failure(back)  # it is used up
    assert "not begun here" in victim.failure("/api/login/issuer/back?state=guessed&code=guessed")
    own = attacker.sign_in(attacker.leave(), "ann")
    assert "another issuer" in attacker.failure(own.replace("iss=https", "iss=http"))


def test_what_the_issuer_refuses_is_said_at_the_door_as_text(
    with_tokens: tuple[IssuerServer, Server, RunningConsole], ca: Identity
) -> None:
    _, _, console = with_tokens
    browser = Browser(console, ca)
    assert "no <b>such</b> user" in browser.failure(browser.sign_in(browser.leave(), "nobody"))
    assert '"failed"' not in browser.get("/api/door?failed=other")[2]
    assert "One can log in to cluster" in browser.failure("/api/login/issuer?cluster=other")


@pytest.mark.parametrize("change", [{"nonce": "other"}, {"aud": "another-client"}, {"iss": "https://other"}])
def test_an_id_token_for_something_else_lets_nobody_in(
    with_tokens: tuple[IssuerServer, Server, RunningConsole], ca: Identity, change: dict[str, Any]
) -> None:
    issuer, _, console = with_tokens
    browser = Browser(console, ca)
    back = browser.sign_in(browser.leave(), "ann")
    issuer.changes = change
    try:
        assert "ID token" in browser.failure(back)
    finally:
        issuer.changes = {}


def test_one_leaves_for_pages_of_the_console_alone(
    with_tokens: tuple[IssuerServer, Server, RunningConsole], ca: Identity
) -> None:
    _, _, console = with_tokens
    for to in ("https://evil.example/", "//evil.example/", "/c", "javascript:alert(1)"):
        browser = Browser(console, ca)
        assert browser.get(browser.sign_in(browser.leave(to=to), "ann"))[:2] == (303, "/")


@pytest.mark.slow  # brokers and a console of its own; make test-console
def test_who_names_no_host_is_refused_and_not_sent_away(
    with_tokens: tuple[IssuerServer, Server, RunningConsole],
) -> None:
    _, _, console = with_tokens
    place = urlsplit(console.base)
    with socket.create_connection((place.hostname, place.port), timeout=30) as client:
        client.sendall(b"GET /api/login/issuer HTTP/1.0\r\n\r\n")
        answer = client.makefile("rb").read().decode()
    assert answer.split()[1] == "400" and "names no host" in answer, answer


def test_without_delegation_tokens_an_access_token_logs_in_until_it_ends(tmp_path: Path, ca: Identity) -> None:
    with everything(tmp_path, ca, tokens=False, secret=None, lasts_s=6) as (_, _, console):
        browser = Browser(console, ca)
        browser.get(browser.sign_in(browser.leave(), "ann"))
        session = browser.session(console)
        assert session.ask("GET", "/api/session").body["users"] == {"cluster": {"user": "ann", "kept": "access token"}}
        assert session.ask("GET", "/api/c/cluster/topics").status == 200
        until(lambda: session.ask("GET", "/api/c/cluster/topics").body.get("error_code") == 40102, every=0.5)
        assert session.ask("GET", "/api/session").body["users"] == {}


@pytest.mark.slow  # brokers and a console of its own; make test-console
def test_a_token_that_can_be_renewed_is_and_the_session_goes_on(tmp_path: Path, ca: Identity) -> None:
    with everything(tmp_path, ca, tokens=False, lasts_s=4, renews=True) as (issuer, _, console):
        browser = Browser(console, ca)
        browser.get(browser.sign_in(browser.leave(), "ann"))
        session = browser.session(console)

        def renewed_twice() -> bool:
            assert session.ask("GET", "/api/c/cluster/topics").status == 200
            # a topic of which nothing is known yet is asked about at the broker, on a connection that logs in again
            assert session.post("/plans", {"action": "delete-topic", "arguments": {"topic": "pears"}}).status in (
                403,
                404,
            )
            return issuer.renewed >= 2

        until(renewed_twice, every=0.5)


@pytest.mark.slow  # brokers and a console of its own; make test-console
def test_who_shows_a_certificate_is_that_user_at_the_brokers(tmp_path: Path, ca: Identity) -> None:
    with secured_server(tmp_path, tokens=True) as server:
        stores = key_properties(tmp_path, signed(ca, "console"), "console") | trust_properties(tmp_path, ca)
        stores |= {"ssl.client.auth": "requested", "ssl.principal.mapping.rules": "RULE:^CN=([^,]+),.*$/$1/L"}
        options = [part for key, value in stores.items() for part in ("--override", f"ottla.console.{key}={value}")]
        running = console_with_logins(
            server, tmp_path, *options, mechanisms="CERTIFICATE,PLAIN", listen="https://127.0.0.1:0"
        )
        with running as console:
            nobody, ann = (ssl.create_default_context(cadata=ca.chain_pem()) for _ in range(2))
            key_properties(tmp_path, signed(ca, "Ann"), "ann")
            ann.load_cert_chain(tmp_path / "ann.pem")
            console.tls = nobody
            assert "no certificate" in console.enter({"mechanism": "CERTIFICATE"}).body["message"]
            session = RunningConsole(console.process, console.lines, base=console.base, tls=ann)
            refused = session.enter({"mechanism": "CERTIFICATE"})
            assert refused.status == 403 and "CREATE_TOKENS" in refused.body["message"], refused
            with BlockingClient(server.bootstrap, network=client_network(properties("root"))) as client:
                create_acls(client, [entry("console", Operation.CREATE_TOKENS, Resource.USER, "User:ann")])
            assert session.enter({"mechanism": "CERTIFICATE"}).status == 200
            assert session.ask("GET", "/api/session").body["users"] == {"cluster": {"user": "ann", "kept": "token"}}
            plan = session.post("/plans", {"action": "create-topic", "arguments": {"topic": "plums", "partitions": 1}})
            assert plan.status == 403, plan


@needs_chromium
def test_one_logs_in_by_the_issuers_page_in_a_browser(
    with_tokens: tuple[IssuerServer, Server, RunningConsole],
) -> None:
    _, _, console = with_tokens
    with running_browser() as browser:
        page = browser.new_context(ignore_https_errors=True).new_page()
        complaints: list[str] = []
        page.on(
            "console",
            lambda said: (
                complaints.append(said.text)
                if said.type == "error" and said.location["url"].startswith(console.base)
                else None
            ),
        )
        page.goto(f"{console.base}/c/cluster/topics")
        page.get_by_role("link", name="Log in at 127.0.0.1").click()
        page.get_by_label("User").fill("nobody")
        page.get_by_role("button", name="Sign in").click()
        page.get_by_text("The issuer has not let you in: no <b>such</b> user").wait_for()
        page.get_by_role("link", name="Log in at 127.0.0.1").click()
        page.get_by_label("User").fill("root")
        page.get_by_role("button", name="Sign in").click()
        page.get_by_role("heading", level=1).wait_for()
        page.get_by_text("root").first.wait_for()
        assert page.url.startswith(console.base)
        assert [each for each in complaints if "401" not in each] == []


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"ottla.console.login.mechanisms": "OAUTHBEARER"}, "https://… of the issuer"),
        (
            {"ottla.console.login.mechanisms": "OAUTHBEARER", "ottla.console.oidc.issuer": "https://issuer"},
            "knows this console",
        ),
        ({"ottla.console.login.mechanisms": "CERTIFICATE"}, "nobody can show a certificate"),
    ],
)
def test_a_way_in_that_cannot_work_is_refused_at_the_start(given: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigError) as refused:
        console_settings(given, (ClusterSettings("c", "127.0.0.1:9092", properties("console")),))
    assert words in str(refused.value)
