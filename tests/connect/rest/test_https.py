"""The REST interface by HTTPS: whose keys it shows, whom it lets in, and how workers ask each other."""

from __future__ import annotations

import asyncio
import json
import socket
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from ottla.admin import RestError
from ottla.admin import Worker as AskedWorker
from ottla.base import ConfigError
from ottla.connect.rest import Address, RestSettings, forwarding, rest_settings
from ottla.http import HttpError, asking_context, serving_context
from tests.connect.rest.worker import running_worker
from tests.net.certificates import client_context
from tests.security.authority import Identity, authority, signed
from tests.security.tls_files import key_properties, trust_properties

CA = authority()
CLIENT = signed(CA, "client", hosts=())


def settings(folder: Path, **more: str) -> RestSettings:
    """Return those of a worker whose keys are for HTTPS alone."""
    own = key_properties(folder, signed(CA, "worker"), "worker") | trust_properties(folder, CA)
    worker = {f"listeners.https.{key}": value for key, value in own.items()}
    worker |= {f"listeners.https.ssl.{key.replace('_', '.')}": value for key, value in more.items()}
    return rest_settings({"listeners": "https://127.0.0.1:0", "ssl.keystore.location": "/of/brokers", **worker})


def version(port: int, identity: Identity | None = None) -> str:
    with urllib.request.urlopen(f"https://127.0.0.1:{port}/", context=client_context(CA, identity)) as answer:
        return str(json.load(answer)["version"])


def test_the_interface_answers_by_https_with_keys_of_its_own(tmp_path: Path) -> None:
    chosen = settings(tmp_path)
    with running_worker(listeners=chosen.listeners, tls=chosen.tls) as worker:
        assert version(worker.port)
        with pytest.raises(OSError):
            urllib.request.urlopen(f"http://127.0.0.1:{worker.port}/")


def test_who_shows_no_certificate_is_not_let_in_where_one_is_asked_for(tmp_path: Path) -> None:
    chosen = settings(tmp_path, client_auth="required")
    with running_worker(listeners=chosen.listeners, tls=chosen.tls) as worker:
        assert version(worker.port, CLIENT)
        with pytest.raises((urllib.error.URLError, OSError)):
            version(worker.port)


def shown(port: int) -> bytes:
    context = client_context(CA)
    with (
        socket.create_connection(("127.0.0.1", port)) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as session,
    ):
        found = session.getpeercert(binary_form=True)
    assert found is not None
    return found


def test_a_store_that_is_replaced_counts_for_the_next_connection(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    before, renewed, other = signed(CA, "worker"), signed(CA, "worker"), signed(CA, "other")
    properties = {**key_properties(tmp_path, before, "store"), **trust_properties(tmp_path, CA)}
    now = [0.0]
    serving, asking = serving_context(properties, lambda: now[0]), asking_context(properties, lambda: now[0])
    old = asking()

    def replaced(identity: Identity | None) -> None:
        if identity is None:
            (tmp_path / "store.pem").unlink()
        else:
            (tmp_path / "new").write_text(identity.key_pem() + identity.chain_pem())
            (tmp_path / "new").replace(tmp_path / "store.pem")
        now[0] += 1

    with running_worker(listeners=(Address("127.0.0.1", 0, True),), tls=serving) as worker:
        assert shown(worker.port) == before.leaf
        for refused in (other, None):
            replaced(refused)
            assert shown(worker.port) == shown(worker.port) == before.leaf
            assert asking() is old
        assert caplog.text.count("HTTPS keeps the stores that it has") == 4, "each says it once for each file"
        replaced(renewed)
        assert shown(worker.port) == renewed.leaf
        assert asking() is not old


def test_workers_ask_each_other_with_their_own_keys_and_look_at_names(tmp_path: Path) -> None:
    chosen = settings(tmp_path, client_auth="required")

    async def asked(host: str, port: int) -> int:
        return (await forwarding(chosen.asking)("GET", f"https://{host}:{port}/", b"", {})).status

    with running_worker(listeners=chosen.listeners, tls=chosen.tls) as worker:
        assert asyncio.run(asked("127.0.0.1", worker.port)) == 200
        with pytest.raises(HttpError, match="IO Error"):
            asyncio.run(asked("127.0.0.2", worker.port))


def test_the_workers_own_keys_serve_where_https_has_none(tmp_path: Path) -> None:
    own = key_properties(tmp_path, signed(CA, "worker"), "worker")
    chosen = rest_settings({"listeners": "http://127.0.0.1:0,https://127.0.0.1:0", **own})
    assert chosen.tls is not None and [each.scheme for each in chosen.listeners] == ["http", "https"]
    assert rest_settings({"listeners": "http://127.0.0.1:0", **own}).tls is None
    with pytest.raises(ConfigError, match=r"ssl\.keystore\.location"):
        rest_settings({"listeners": "https://127.0.0.1:0"})


def test_the_commands_ask_by_https_with_the_stores_that_a_file_names(tmp_path: Path) -> None:
    chosen = settings(tmp_path, client_auth="required")
    properties = trust_properties(tmp_path, CA) | key_properties(tmp_path, CLIENT, "client")
    with running_worker(listeners=chosen.listeners, tls=chosen.tls) as worker:
        url = f"https://127.0.0.1:{worker.port}"
        assert AskedWorker(url, properties).ask("GET", "/connectors") == []
        with pytest.raises(RestError, match="no Connect worker answers"):
            AskedWorker(url).ask("GET", "/connectors")
