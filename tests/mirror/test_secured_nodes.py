"""Nodes of one MirrorMaker over HTTPS and with passwords: they reach each other, and whoever may not is refused."""

from __future__ import annotations

import base64
import json
import ssl
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla.base import ConfigError
from ottla.client import BlockingClient
from ottla.mirror import flows_of
from ottla.spark import MirrorMaker, ThreadJobs
from tests.connect.rest.test_logins import basic, worker_properties
from tests.mirror.test_mirroring import make, running, values, write
from tests.mirror.test_nodes import given
from tests.net.certificates import client_context
from tests.ports import free_port
from tests.security.authority import authority, signed
from tests.security.tls_files import key_properties, trust_properties
from tests.server import Server, running_server
from tests.waiting import until

CA = authority()
NODE = signed(CA, "node")
ANN = basic("ann:secret")
SOURCE = "/east/west/connectors/MirrorSourceConnector"


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, Server]]:
    folders = [tmp_path_factory.mktemp(each) for each in ("east", "west")]
    with running_server(folders[0]) as east, running_server(folders[1]) as west:
        yield east, west


def of_https(folder: Path, prefix: str = "listeners.https.") -> dict[str, str]:
    """Return keys of the REST interface alone, which asks whoever comes for a certificate, too."""
    own = key_properties(folder, NODE, "node") | trust_properties(folder, CA) | {"ssl.client.auth": "required"}
    return {f"{prefix}{key}": value for key, value in own.items()}


def ask(
    url: str, method: str = "GET", body: Any = None, *, context: ssl.SSLContext | None = None, **headers: str
) -> tuple[int, Any]:
    """Return status and body, None where that is empty or a text."""
    data = None if body is None else json.dumps(body).encode()
    named = {key.replace("_", "-"): value for key, value in headers.items()}
    request = urllib.request.Request(url, data, {"Content-Type": "application/json", **named}, method=method)
    try:
        with urllib.request.urlopen(request, timeout=100, context=context) as answer:
            text, status = answer.read(), answer.status
    except urllib.error.HTTPError as error:
        text, status = error.read(), error.code
    return status, json.loads(text) if text[:1] in (b"{", b"[") else None


def workers_of(place: str, **asking: Any) -> set[str]:
    """Return which nodes have a connector or a task of the flow from east to west."""
    status, body = ask(f"{place}/east/west/connectors?expand=status", **asking)
    found = [each["status"] for each in body.values()] if status == 200 else []
    return {each["connector"]["worker_id"] for each in found} | {
        task["worker_id"] for each in found for task in each["tasks"]
    }


def test_nodes_share_a_flow_by_https_with_certificates_of_both(servers: tuple[Server, Server], tmp_path: Path) -> None:
    ports = free_port(), free_port()
    secure = of_https(tmp_path)
    makers = [
        MirrorMaker(
            given(servers, port, topics="tls.*", listeners=f"https://127.0.0.1:{port}", **secure),
            ["west"],
            jobs=ThreadJobs,
        )
        for port in ports
    ]
    shown = client_context(CA, signed(CA, "client", hosts=()))
    with BlockingClient(servers[0].bootstrap) as east, BlockingClient(servers[1].bootstrap) as west:
        make(east, "tls-0", 1)
        write(east, "tls-0", "1")
        with running(makers[0]), running(makers[1]):
            here = [each.places[0][1].removesuffix("/east/west") for each in makers]
            both = {f"127.0.0.1:{port}" for port in ports}
            until(lambda: workers_of(here[0]) == both, lambda: workers_of(here[0]))
            for number in range(1, 6):
                make(east, f"tls-{number}", 1)
                write(east, f"tls-{number}", "1")
            until(
                lambda: all(values(west, f"east.tls-{each}") == Counter("1") for each in range(6)),
                lambda: sorted(west.metadata().topics),
            )
            for port in ports:
                with pytest.raises((urllib.error.URLError, OSError)):
                    ask(f"https://127.0.0.1:{port}{SOURCE}/tasks", "POST", [], context=client_context(CA))
                _refuses_strangers(f"https://127.0.0.1:{port}", shown)


def _refuses_strangers(place: str, context: ssl.SSLContext) -> None:
    """Check that what is not signed with the session's key changes nothing, whatever it is; Kafka's statuses."""
    mac = base64.b64encode(bytes(32)).decode()
    forged = {"X_Connect_Authorization": mac, "X_Connect_Request_Signature_Algorithm": "HmacSHA256"}
    for method, path, body in (("POST", "tasks", [{"task.assigned.partitions": "x-0"}]), ("PUT", "fence", None)):
        url = f"{place}{SOURCE}/{path}"
        assert ask(url, method, body, context=context)[0] == 400
        status, said = ask(url, method, body, context=context, **forged)
        assert (status, said["message"]) == (403, "Internal request contained invalid signature.")
        for odd in ({"X_Connect_Authorization": "%%%"}, {"X_Connect_Request_Signature_Algorithm": "none"}):
            assert ask(url, method, body, context=context, **{**forged, **odd})[0] == 400
    assert ask(f"{place}{SOURCE}/config", "PUT", {"topics": "all"}, context=context)[0] == 404


def test_users_with_a_password_are_answered_by_whichever_node_they_ask(
    servers: tuple[Server, Server], tmp_path: Path
) -> None:
    ports = free_port(), free_port()
    own = of_https(tmp_path) | worker_properties(tmp_path)
    makers = [
        MirrorMaker(
            given(servers, port, topics="none", listeners=f"https://127.0.0.1:{port}", **own),
            ["west"],
            jobs=ThreadJobs,
        )
        for port in ports
    ]
    shown = client_context(CA, NODE)
    with running(makers[0]), running(makers[1]):
        places = [f"https://127.0.0.1:{port}" for port in ports]
        until(lambda: len(workers_of(places[0], context=shown, Authorization=ANN)) == 2, "both nodes have tasks")
        loopbacks = [each.places[0][1].removesuffix("/east/west") for each in makers]
        for number, place in enumerate([*places, *loopbacks]):
            secure = {"context": shown} if place.startswith("https") else {}
            for wrong in ({}, {"Authorization": basic("ann:wrong")}):
                assert ask(f"{place}{SOURCE}", **secure, **wrong)[0] == 401
                assert ask(f"{place}{SOURCE}/config", "PATCH", {"x": "y"}, **secure, **wrong)[0] == 401
            change = {"refresh.topics.interval.seconds": str(number + 2)}

            def changed(place: str = place, change: dict[str, str] = change, secure: Any = secure) -> bool:
                status, said = ask(f"{place}{SOURCE}/config", "PATCH", change, Authorization=ANN, **secure)
                assert status in (200, 409), said  # a rebalance may be under way
                return status == 200

            until(changed, "the change")
        for place in places:
            _refuses_strangers_with_passwords(place, shown)


def _refuses_strangers_with_passwords(place: str, context: ssl.SSLContext) -> None:
    """Check that a user's password is no signature."""
    status, _ = ask(f"{place}{SOURCE}/tasks", "POST", [], context=context, Authorization=ANN)
    assert status == 400


def test_without_passwords_a_node_that_does_not_lead_says_who_does(servers: tuple[Server, Server]) -> None:
    ports = free_port(), free_port()
    makers = [MirrorMaker(given(servers, port, topics="none"), ["west"], jobs=ThreadJobs) for port in ports]
    with running(makers[0]), running(makers[1]):
        here = [each.places[0][1].removesuffix("/east/west") for each in makers]
        until(lambda: len(workers_of(here[0])) == 2, lambda: workers_of(here[0]))

        def statuses() -> list[tuple[int, Any]]:
            return [ask(f"{each}{SOURCE}/config", "PATCH", {"tasks.max": "2"}) for each in here]

        found = until(lambda: (each := statuses()) and {status for status, _ in each} == {200, 409} and each, statuses)
        leads = [status for status, _ in found].index(200)
        assert f"http://127.0.0.1:{ports[leads]}/east/west and takes" in found[1 - leads][1]["message"].replace(",", "")


def test_the_jaas_file_of_the_interface_is_named_in_the_properties_or_refused(tmp_path: Path) -> None:
    own = worker_properties(tmp_path)
    properties = {
        "clusters": "A,B",
        "A.bootstrap.servers": "a:1",
        "B.bootstrap.servers": "b:1",
        "dedicated.mode.enable.internal.rest": "true",
        "listeners": "http://127.0.0.1:0",
        **own,
    }
    for each in flows_of(properties):
        assert each.worker["java.security.auth.login.config"] == own["java.security.auth.login.config"]
    with pytest.raises(ConfigError, match=r"java\.security\.auth\.login\.config"):
        MirrorMaker({key: value for key, value in properties.items() if "login" not in key}, jobs=ThreadJobs)


def test_passwords_count_at_the_loopback_address_where_nodes_do_not_ask_each_other(
    servers: tuple[Server, Server], tmp_path: Path
) -> None:
    asked = given(servers, 0, topics="none", **worker_properties(tmp_path))
    asked["dedicated.mode.enable.internal.rest"] = "false"
    with running(MirrorMaker(asked, ["west"], jobs=ThreadJobs)) as maker:
        [(_, here)] = maker.places
        assert ask(f"{here}/connectors")[0] == 401
        assert ask(f"{here}/connectors/x/config", "PUT", {}, Authorization=basic("ann:wrong"))[0] == 401
        assert ask(f"{here}/connectors", Authorization=ANN)[0] == 200
    with pytest.raises(ConfigError, match=r"rest\.extension\.classes"):
        MirrorMaker({**asked, "rest.extension.classes": "com.acme.Guard"}, ["west"], jobs=ThreadJobs)
