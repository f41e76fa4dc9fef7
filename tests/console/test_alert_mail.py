"""Mail of alerts, at a real mail server: what arrives, and that a password goes nowhere in clear."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from email import message_from_bytes, policy
from email.message import EmailMessage
from pathlib import Path
from typing import Any, cast

import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult, LoginPassword

from ottla.client import Client
from ottla.console.alerts.notices import Notices, mail_settings, targets_of
from tests.ports import free_port
from tests.security.authority import Identity, authority, signed

SAID = {
    "text": "Ringing: zurück on cluster: lag('billing') = 200",
    "link": "http://127.0.0.1:9180/c/cluster/alerts",
    "state": "ringing",
    "at_ms": 1_790_000_005_000,
    "alert": {"name": "zurück"},
}


class Mailbox:
    """What has come, and who has logged in."""

    def __init__(self) -> None:
        self.mails: list[EmailMessage] = []
        self.to: list[str] = []
        self.logins: list[tuple[bytes, bytes]] = []

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:
        self.to += envelope.rcpt_tos
        self.mails.append(cast(EmailMessage, message_from_bytes(envelope.content, policy=policy.default)))
        return "250 kept"

    def authenticate(self, server: Any, session: Any, envelope: Any, mechanism: str, data: Any) -> AuthResult:
        assert isinstance(data, LoginPassword)
        self.logins.append((data.login, data.password))
        return AuthResult(success=data.password == b"s3cret", handled=False)


@contextmanager
def mail_server(box: Mailbox, tls: ssl.SSLContext | None = None, **more: Any) -> Iterator[int]:
    port = free_port()
    controller = Controller(
        box, hostname="127.0.0.1", port=port, tls_context=tls, authenticator=box.authenticate, **more
    )
    controller.start()
    try:
        yield port
    finally:
        controller.stop()


@pytest.fixture(scope="module")
def ca() -> Identity:
    return authority()


@pytest.fixture
def tls(tmp_path: Path, ca: Identity) -> ssl.SSLContext:
    host = signed(ca, "mail")
    (tmp_path / "mail.pem").write_text(host.key_pem() + host.chain_pem())
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "mail.pem")
    return context


def told(url: str, said: dict[str, Any] = SAID) -> str:
    """Tell one mailbox, and return what went wrong."""

    async def tell() -> str:
        client = Client("127.0.0.1:1")
        try:
            targets = {each.name: each for each in targets_of("team=mailto:team@example.org", "s")}
            notices = Notices(client, targets, mail_settings(url, "ottla@example.org", "s"))
            return (await notices.tell(("team",), said, tries=1)).get("team", "")
        finally:
            await client.close()

    return asyncio.run(tell())


def test_a_mail_says_what_rings_where_to_look_and_all_of_it_in_json() -> None:
    box = Mailbox()
    with mail_server(box) as port:
        assert told(f"smtp://127.0.0.1:{port}") == ""
    (mail,) = box.mails
    assert (mail["Subject"], mail["From"], box.to) == (SAID["text"], "ottla@example.org", ["team@example.org"])
    text, link, whole = mail.get_content().replace("\r\n", "\n").split("\n\n", 2)
    assert (text, link, json.loads(whole)) == (SAID["text"], SAID["link"], SAID)


def test_a_password_is_not_sent_to_a_server_without_tls() -> None:
    box = Mailbox()
    with mail_server(box, auth_require_tls=False) as port:
        error = told(f"smtp://ann:s3cret@127.0.0.1:{port}")
    assert "has no TLS" in error and "s3cret" not in error and box.logins == box.mails == []


def test_a_server_with_starttls_gets_the_password_and_the_mail(
    tls: ssl.SSLContext, ca: Identity, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ca.pem").write_text(ca.chain_pem())
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    box = Mailbox()
    with mail_server(box, tls, require_starttls=True) as port:
        assert told(f"smtp://ann:s3cret@127.0.0.1:{port}") == ""
        assert "refused it" in (wrong := told(f"smtp://ann:wrong@127.0.0.1:{port}")) and "wrong@" not in wrong
    assert box.logins[0] == (b"ann", b"s3cret") and len(box.mails) == 1


def test_a_server_whose_certificate_nobody_vouches_for_gets_neither(tls: ssl.SSLContext) -> None:
    box = Mailbox()
    with mail_server(box, tls, require_starttls=True) as port:
        error = told(f"smtp://ann:s3cret@127.0.0.1:{port}")
    assert "certificate" in error and box.logins == box.mails == []


def test_a_mail_server_that_is_away_is_said_and_half_a_character_is_no_hindrance() -> None:
    assert "refused it" in told(f"smtp://127.0.0.1:{free_port()}")
    box = Mailbox()
    with mail_server(box) as port:
        assert told(f"smtp://127.0.0.1:{port}", {**SAID, "text": "half \ud800 a character"}) == ""
    assert box.mails[0]["Subject"] == "half ? a character"
