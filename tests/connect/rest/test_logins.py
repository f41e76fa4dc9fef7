"""Kafka's basic-auth extension on Ottla's REST interface: its files, whom it admits, and what is refused at start."""

from __future__ import annotations

import asyncio
import base64
import http.client
import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from aiohttp.test_utils import make_mocked_request

from ottla.base import ConfigError
from ottla.connect.herder import ElsewhereError
from ottla.connect.rest import rest_settings
from ottla.connect.rest.forwarding import forwarded
from ottla.connect.rest.settings import Address
from ottla.connect.rest_logins import EXTENSION, rest_logins
from ottla.http import HttpError, Reply
from tests.connect.rest.worker import running_worker

FACTS = Path(__file__).with_name("facts")
"""What Apache Kafka Connect 4.3 answered."""
MODULE = "org.apache.kafka.connect.rest.basic.auth.extension.PropertyFileLoginModule"


def worker_properties(folder: Path, passwords: str = "ann=secret\nbob: p:w\n", module: str = MODULE) -> dict[str, str]:
    (folder / "passwords").write_text(passwords)
    jaas = f'// for Connect\nKafkaConnect {{\n  {module} required\n  file="{folder / "passwords"}";\n}};\n'
    (folder / "jaas.conf").write_text(jaas)
    return {"rest.extension.classes": EXTENSION, "java.security.auth.login.config": str(folder / "jaas.conf")}


def basic(text: str) -> str:
    return "Basic " + base64.b64encode(text.encode()).decode()


def status_of(port: int, method: str, path: str, authorization: str | None = None) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    connection.request(method, path, headers={} if authorization is None else {"Authorization": authorization})
    answer = connection.getresponse()
    found = answer.status, answer.read()
    connection.close()
    return found


def test_who_has_no_password_gets_kafkas_answer(tmp_path: Path) -> None:
    settings = rest_settings(worker_properties(tmp_path))
    with running_worker(logins=settings.logins) as worker:
        for path in ("/", "/connectors", "/health", "/connectors/a/tasks", "/openapi.json"):
            assert status_of(worker.port, "GET", path) == (401, b"User cannot access the resource.")
        for wrong in ("ann:wrong", "ann", "nobody:secret", ":", "ann:"):
            assert status_of(worker.port, "GET", "/connectors", basic(wrong))[0] == 401
        for odd in ("Basic !!!", "Bearer x", "", "Basic"):
            assert status_of(worker.port, "GET", "/connectors", odd)[0] == 401
        for right in (basic("ann:secret"), basic("ann:secret").replace("Basic", "basic"), basic("bob:p:w")):
            assert status_of(worker.port, "GET", "/connectors", right) == (200, b"[]")
        assert status_of(worker.port, "GET", "/nothing")[0] == 404


def test_requests_between_workers_and_admin_on_its_own_port_ask_for_no_password(tmp_path: Path) -> None:
    settings = rest_settings(worker_properties(tmp_path))
    with running_worker(logins=settings.logins, admin_listeners=(Address("127.0.0.1", 0),)) as worker:
        status, body = status_of(worker.port, "PUT", "/connectors/a/fence")
        assert status == 500 and b"standalone mode does not support exactly-once" in body
        assert status_of(worker.ports[1], "GET", "/admin/loggers")[0] == 200
    with running_worker(logins=settings.logins) as worker:
        assert status_of(worker.port, "GET", "/admin/loggers")[0] == 401


def test_the_file_may_be_named_where_java_reads_it(tmp_path: Path) -> None:
    place = worker_properties(tmp_path)["java.security.auth.login.config"]
    options = f"-Xmx1g -Djava.security.auth.login.config={place}"
    found = rest_logins({"rest.extension.classes": EXTENSION}, {"KAFKA_OPTS": options})
    assert found is not None and found.admit(basic("ann:secret")) and "secret" not in repr(found)
    assert rest_logins({}, {}) is None


@pytest.mark.parametrize("change", ["none", "extension", "missing", "module", "empty"])
def test_what_would_leave_the_interface_open_is_refused_by_its_key(change: str, tmp_path: Path) -> None:
    given = worker_properties(
        tmp_path, "" if change == "empty" else "a=b", "com.sun.Krb5LoginModule" if change == "module" else MODULE
    )
    key = "rest.extension.classes" if change == "extension" else "java.security.auth.login.config"
    if change == "none":
        del given[key]
    elif change == "missing":
        given[key] = str(tmp_path / "nowhere")
    elif change == "extension":
        given[key] += ",my.own.Extension"
    with pytest.raises(ConfigError, match=key.replace(".", r"\.")):
        rest_logins(given, {})


def test_https_without_keys_is_refused_by_name() -> None:
    for key in ("listeners", "admin.listeners"):
        with pytest.raises(ConfigError, match=key.replace(".", r"\.")):
            rest_settings({key: "https://localhost:8443"})


def test_a_date_among_the_headers_counts_from_now() -> None:
    settings = rest_settings({"response.http.headers.config": "set X-A: b, setDate Expires: 60000"})
    assert (settings.headers, settings.header_dates) == ((("X-A", "b"),), (("Expires", 60000),))
    with running_worker(headers=settings.headers, header_dates=settings.header_dates) as worker:
        connection = http.client.HTTPConnection("127.0.0.1", worker.port, timeout=20)
        connection.request("GET", "/")
        assert (connection.getresponse().headers["Expires"] or "").endswith(" GMT")
        connection.close()
    for wrong in ("drop X: y", "setDate X: soon", "add X Y: z"):
        with pytest.raises(ConfigError, match=r"response\.http\.headers\.config"):
            rest_settings({"response.http.headers.config": wrong})


SETTINGS = {
    "plain": {"access.control.allow.origin": "http://a.example", "access.control.allow.methods": "GET,POST,PUT"},
    "star": {"access.control.allow.origin": "*"},
    "auth": {"access.control.allow.origin": "http://a.example"},
}


@pytest.mark.parametrize("kind", SETTINGS)
def test_questions_of_browsers_get_kafkas_answers_with_and_without_passwords(kind: str, tmp_path: Path) -> None:
    logins = worker_properties(tmp_path, "joe=secret\n") if kind == "auth" else {}
    settings = rest_settings({**SETTINGS[kind], **logins})
    shown = {"allowed_origins": settings.allowed_origins, "allowed_methods": settings.allowed_methods}
    with running_worker(**shown, logins=settings.logins) as worker:
        connection = http.client.HTTPConnection("127.0.0.1", worker.port, timeout=20)
        for asked in json.loads((FACTS / "cross_origin.json").read_text()):
            if asked["worker"] != kind:
                continue
            login = {"Authorization": basic("joe:secret")} if asked["login"] else {}
            connection.request(asked["method"], asked["path"], headers={**asked["headers"], **login})
            answer = connection.getresponse()
            answer.read()
            found = {name.lower(): value for name, value in answer.getheaders()}
            ours = {name: found[name] for name in found if name == "vary" or name.startswith("access-control")}
            if asked["method"] == "OPTIONS" and "allow" in found:
                ours["allow"] = found["allow"]
            origin = asked["headers"].get("Origin")
            if origin is not None and not {"*", origin} & set(settings.allowed_origins):
                assert answer.status == 403, asked  # Kafka answers, and leaves it to the browser to hide that
                assert "access-control-allow-origin" not in ours
                continue
            assert (answer.status, in_no_order(ours)) == (asked["status"], in_no_order(asked["shown"])), asked


def in_no_order(headers: dict[str, str]) -> dict[str, list[str]]:
    return {name: sorted(value.split(",")) for name, value in headers.items()}


def test_a_login_is_sent_on_to_a_worker_that_the_operator_lists_and_to_no_other_leader(tmp_path: Path) -> None:
    given = worker_properties(tmp_path)
    listed = rest_settings({**given, "ottla.inter.worker.hosts": "one, two:8084"}).logins_to
    for url, sent in (
        ("http://one:1/", True),
        ("http://two:8084", True),
        ("http://two:1", False),
        ("https://one", False),
    ):
        assert listed.takes(url) is sent, url
    assert not listed.takes("http://one@evil:8083/") and not listed.takes("http://evil/one")
    sent_on: list[str] = []

    async def forward(method: str, address: str, body: bytes, headers: Mapping[str, str]) -> Reply:
        sent_on.append(address)
        return Reply(b"", "application/json", 200)

    request = make_mocked_request("PUT", "/connectors/a/config", headers={"Authorization": basic("ann:secret")})
    error = ElsewhereError("another leads", "http://evil:8083/")
    with pytest.raises(HttpError, match=r"ottla\.inter\.worker\.hosts"):
        asyncio.run(forwarded(request, error, forward, rest_settings(given).logins_to))
    assert not sent_on
