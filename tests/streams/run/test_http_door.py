"""An application's HTTP: where it is, with which keys, and to whom it answers."""

from __future__ import annotations

import base64
import json
import urllib.error
import urllib.request
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.base import ConfigError, ErrorCode, KafkaError, Offset, OttlaError, TopicPartition
from ottla.cli.commands.streams import main as cli
from ottla.spark.continuous.promotion import Promotion
from ottla.spark.streams.states import State
from ottla.spark.streams.web import ApplicationServer, door_of
from ottla.streams import StreamsSettings
from tests.net.certificates import client_context
from tests.security.authority import authority, signed
from tests.security.tls_files import key_properties, trust_properties

CA = authority()
CLIENT = signed(CA, "client", hosts=())
APPLICATION: Any = SimpleNamespace(status=lambda: {"state": "RUNNING"}, state=State.RUNNING)


def settings(listener: str, **more: str) -> StreamsSettings:
    named = {"application.id": "a", "bootstrap.servers": "localhost:9092", "http.listener": listener}
    return StreamsSettings.of({**named, **more})


def keys(folder: Path) -> dict[str, str]:
    own = key_properties(folder, signed(CA, "app"), "app") | trust_properties(folder, CA)
    return {f"http.listener.{key}": value for key, value in own.items()}


def asked(
    url: str, login: str = "", body: Any = None, headers: dict[str, str] | None = None, **given: Any
) -> tuple[int, Any]:
    basic = {"Authorization": f"Basic {base64.b64encode(login.encode()).decode()}"} if login else {}
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, headers={**basic, **(headers or {})})
    try:
        with urllib.request.urlopen(request, timeout=20, **given) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


@pytest.mark.parametrize(
    ("listener", "where"),
    [
        ("8080", ("127.0.0.1", 8080)),
        ("0.0.0.0:8080", ("0.0.0.0", 8080)),
        ("http://0.0.0.0:8080/", ("0.0.0.0", 8080)),
        ("[::1]:8080", ("::1", 8080)),
    ],
)
def test_an_address_is_a_port_a_host_and_a_scheme(listener: str, where: tuple[str, int]) -> None:
    door = door_of(settings(listener))
    assert ((door.host, door.port), door.tls, door.logins) == (where, None, None)


def test_https_shows_its_own_keys_and_asks_for_certificates(tmp_path: Path) -> None:
    door = door_of(settings("https://127.0.0.1:0", **keys(tmp_path), **{"http.listener.ssl.client.auth": "required"}))
    server = ApplicationServer(APPLICATION, door.host, door.port, tls=door.tls, logins=door.logins)
    try:
        assert server.url == f"https://127.0.0.1:{server.port}"
        assert asked(f"{server.url}/status", context=client_context(CA, CLIENT)) == (200, {"state": "RUNNING"})
        with pytest.raises(OSError):
            asked(f"{server.url}/status", context=client_context(CA))
    finally:
        server.close()


def test_the_applications_own_keys_serve_where_there_are_no_others(tmp_path: Path) -> None:
    own = {key.removeprefix("http.listener."): value for key, value in keys(tmp_path).items()}
    assert door_of(settings("https://0", **own)).tls is not None


def test_who_has_no_password_sees_no_more_than_health(tmp_path: Path) -> None:
    logins = tmp_path / "logins"
    logins.write_text("ann=secret\n")
    door = door_of(settings("0", **{"http.listener.logins.file": str(logins)}))
    server = ApplicationServer(APPLICATION, door.host, door.port, tls=door.tls, logins=door.logins)
    try:
        assert asked(f"{server.url}/status", "ann:secret")[0] == 200
        assert [asked(f"{server.url}/status", each)[0] for each in ("", "ann:wrong", "bob:secret", "ann")] == [401] * 4
        assert asked(f"{server.url}/health")[0] == 200
    finally:
        server.close()


def promoted(to: str, *, dry_run: bool = False) -> Promotion:
    if to == "windows":
        raise KafkaError(ErrorCode.INVALID_REQUEST, "application a is not promoted: it goes by stream time")
    return Promotion("a", "micro-batch", to, {} if dry_run else {TopicPartition("in", 1): Offset(7)})


CHANGEABLE: Any = SimpleNamespace(status=APPLICATION.status, state=State.RUNNING, promote=promoted)


def test_the_mode_is_changed_by_who_asks_on_this_machine_in_json() -> None:
    server = ApplicationServer(CHANGEABLE, "127.0.0.1", 0)
    url, json_body = f"{server.url}/promote", {"Content-Type": "application/json"}
    try:
        found = asked(url, body={"to": "continuous"}, headers=json_body)
        assert found == (
            200,
            {"before": "micro-batch", "after": "continuous", "offsets": {"in-1": 7}, "dry_run": False},
        )
        assert asked(url, body={"to": "continuous", "dry_run": True}, headers=json_body)[1]["offsets"] == {}
        code, refused = asked(url, body={"to": "windows"}, headers=json_body)
        assert code == 409 and "stream time" in refused["message"]
        for body in ({}, [], {"to": 1}, {"to": "continuous", "dry_run": "no"}):
            assert asked(url, body=body, headers=json_body)[0] == 400
        assert asked(url, body={"to": "continuous"}, headers={"Content-Type": "text/plain"})[0] == 415
        assert asked(url, body={"to": "continuous"}, headers={**json_body, "Origin": "http://evil.test"})[0] == 403
        assert asked(url, body={"to": "continuous"}, headers={**json_body, "Host": "evil.test"})[0] == 421
    finally:
        server.close()


def test_the_command_asks_one_that_runs_and_says_its_words(capsys: pytest.CaptureFixture[str]) -> None:
    server = ApplicationServer(CHANGEABLE, "127.0.0.1", 0)
    try:
        assert cli(["promote", "app.py", "--to", "continuous", "--url", server.url]) == 0
        assert "in-1 from offset 7" in capsys.readouterr().out
    finally:
        server.close()
    with pytest.raises(OttlaError, match="does not answer"):
        cli(["promote", "app.py", "--to", "continuous", "--url", server.url])


def test_from_other_machines_the_mode_is_changed_behind_https_and_a_login_alone() -> None:
    server = ApplicationServer(CHANGEABLE, "0.0.0.0", 0)
    try:
        url = f"http://127.0.0.1:{server.port}/promote"
        code, refused = asked(url, body={"to": "continuous"}, headers={"Content-Type": "application/json"})
        assert code == 403 and "http.listener.logins.file" in refused["message"]
    finally:
        server.close()


@pytest.mark.parametrize(
    ("listener", "more", "words"),
    [
        ("here", {}, "PORT is expected"),
        ("ftp://h:1", {}, "PORT is expected"),
        ("99999", {}, "PORT is expected"),
        ("https://0", {}, "HTTPS cannot be served"),
        ("0", {"http.listener.ssl.client.auth": "required"}, "ssl.client.auth cannot be kept"),
        ("0", {"http.listener.logins.file": "/nowhere"}, "a file that can be read"),
        ("0", {"http.listener.logins.file": "/dev/null"}, "which is not empty"),
        ("0", {"http.listener.ssl.keystore.loc": "x"}, "Unknown setting http.listener.ssl.keystore.loc"),
    ],
)
def test_what_cannot_be_is_refused_by_name(listener: str, more: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigError) as raised:
        door_of(settings(listener, **more))
    assert words in str(raised.value)
