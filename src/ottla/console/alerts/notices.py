"""Who is told when an alert rings: web addresses, mailboxes and topics, each by a name that the console's settings give it.

Rules name targets, and never addresses: whoever may make a rule cannot have the console call where it has not been told to.
A webhook is POSTed a JSON object (`notice`), and answers 2xx; redirects are not followed.
"""

from __future__ import annotations

import asyncio
import json
import smtplib
import ssl
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from email.message import EmailMessage
from typing import Final
from urllib.parse import unquote, urlsplit

from ottla.base import ConfigError, KafkaError, Millis, OttlaError, TopicPartition, why_unreached
from ottla.client import Client, partition_of
from ottla.console.alerts.rules import Event
from ottla.http import Asker, AskError
from ottla.wire import Record, build_batch

__all__ = ["Mail", "NoticeError", "Notices", "Target", "mail_settings", "notice", "targets_of"]

SECONDS_MAX: Final = 10.0
WEBHOOK_BYTES_MAX: Final = 1 << 20
"""Of what a webhook answers."""
PAUSES_S: Final = (1.0, 5.0, 25.0)
"""Between tries."""
VERSION: Final = 1


class NoticeError(OttlaError):
    """A target that could not be told."""


@dataclass(frozen=True, slots=True)
class Target:
    """A place by its name: `webhook`, `mail` or `topic`; addresses hold secrets, and are shown to nobody."""

    name: str
    kind: str
    address: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Mail:
    """How mail is sent."""

    host: str
    port: int
    sender: str
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    is_tls: bool = False


def targets_of(text: str, setting: str) -> tuple[Target, ...]:
    """Return the targets of `NAME=https://…,NAME=mailto:a@b,NAME=topic:T`; raises ConfigError."""
    found: dict[str, Target] = {}
    for each in (one.strip() for one in text.split(",")):
        if not each:
            continue
        name, _, address = each.partition("=")
        scheme, colon, rest = address.partition(":")
        kind = {"http": "webhook", "https": "webhook", "mailto": "mail", "topic": "topic"}.get(scheme.lower())
        if not name or not colon or not rest or kind is None or name in found:
            allowed = "NAME=https://HOST/…, NAME=mailto:WHO@HOST or NAME=topic:TOPIC, each name once"
            raise ConfigError(setting, "[hidden]", allowed)
        found[name] = Target(name, kind, address if kind == "webhook" else rest)
    return tuple(found.values())


def mail_settings(url: str, sender: str, setting: str) -> Mail:
    """Return how mail is sent by `smtp://USER:PASSWORD@HOST:PORT`, or `smtps://`; raises ConfigError."""
    parts = urlsplit(url)
    try:
        port = parts.port
    except ValueError:
        port = 0
    if parts.scheme not in ("smtp", "smtps") or not parts.hostname or port == 0:
        raise ConfigError(setting, "[hidden]", "smtp://HOST:PORT or smtps://HOST:PORT, with USER:PASSWORD@ at need")
    is_tls = parts.scheme == "smtps"
    user, password = (None if each is None else unquote(each) for each in (parts.username, parts.password))
    return Mail(parts.hostname, port or (465 if is_tls else 25), sender, user, password, is_tls)


def notice(event: Event, cluster: str, cluster_id: str, link: str, *, is_test: bool = False) -> dict[str, object]:
    """Return what targets are told, in JSON's terms."""
    rule, state = event.rule, event.state
    figures = ", ".join(f"{text} = {_short(value)}" for text, value in event.values.items())
    begins = "Test of" if is_test else "Ringing:" if event.rings else "No longer ringing:"
    return {
        "version": VERSION,
        "state": "test" if is_test else "ringing" if event.rings else "resolved",
        "alert": rule.kept(),
        "cluster": {"name": cluster, "id": cluster_id},
        "at_ms": event.at_ms,
        "since_ms": state.since_ms,
        "values": dict(event.values),
        "text": f"{begins} {rule.name} on {cluster}: {rule.condition} ({figures})",
        "link": link,
    }


def _short(value: object) -> str:
    return f"{value:,.6g}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)


class Notices:
    """Tells targets; `client` writes to topics."""

    def __init__(self, client: Client, targets: Mapping[str, Target], mail: Mail | None) -> None:
        self._client = client
        self.targets = targets
        self._mail = mail

    async def tell(self, names: tuple[str, ...], said: Mapping[str, object], *, tries: int = 4) -> dict[str, str]:
        """Tell targets, several times where it fails; returns what went wrong, by target's name."""
        found = await asyncio.gather(*(self._tell(name, said, tries) for name in names))
        return {name: error for name, error in zip(names, found, strict=True) if error}

    async def _tell(self, name: str, said: Mapping[str, object], tries: int) -> str:
        target = self.targets.get(name)
        if target is None:
            return f"there is no target {name} in the console's settings"
        error = ""
        for attempt in range(tries):
            if attempt:
                await asyncio.sleep(PAUSES_S[min(attempt, len(PAUSES_S)) - 1])
            try:
                async with asyncio.timeout(SECONDS_MAX):
                    await self._tell_once(target, said)
            except TimeoutError:
                error = f"no answer in {SECONDS_MAX:g} s"
            except OttlaError as failed:
                error = str(failed)
            else:
                return ""
        return error

    async def _tell_once(self, target: Target, said: Mapping[str, object]) -> None:
        if target.kind == "webhook":
            await _post(target.address, said)
        elif target.kind == "topic":
            await self._append(target.address, said)
        elif self._mail is None:
            raise NoticeError("no mail server is named (ottla.console.alerts.smtp.url)")
        else:
            await asyncio.to_thread(_send, self._mail, target.address, said)

    async def _append(self, topic: str, said: Mapping[str, object]) -> None:
        await self._client.metadata([topic])
        partitions = self._client.cluster.partitions_of(topic)
        if not partitions:
            raise NoticeError(f"there is no topic {topic}")
        alert = said["alert"]
        assert isinstance(alert, Mapping)
        key = str(alert["name"]).encode()
        at_ms = said["at_ms"]
        assert isinstance(at_ms, int)
        record = Record(timestamp=Millis(at_ms), key=key, value=json.dumps(said, ensure_ascii=False).encode())
        place = TopicPartition(topic, partition_of(key, len(partitions)))
        (answer,) = await self._client.produce({place: build_batch([record])})
        if answer.error:
            raise KafkaError(answer.error)


async def _post(url: str, said: Mapping[str, object]) -> None:
    asker = Asker(SECONDS_MAX, bytes_max=WEBHOOK_BYTES_MAX)
    headers = {"User-Agent": "ottla-console", "Content-Type": "application/json"}
    try:
        answer = await asker.ask("POST", url, data=json.dumps(said).encode(), headers=headers)
        if not 200 <= answer.status < 300:
            raise NoticeError(f"it answered HTTP {answer.status}")
    except AskError as error:
        raise NoticeError(_without(str(error), url)) from None
    finally:
        await asker.close()


def _without(text: str, url: str) -> str:
    """Return what went wrong without the address, whose path is often a secret."""
    parts = urlsplit(url)
    for each in (url, f"{parts.path}?{parts.query}", parts.path, parts.query):
        if len(each) > 1:
            text = text.replace(each, "…")
    return text


def _server(mail: Mail) -> smtplib.SMTP:
    if mail.is_tls:
        return smtplib.SMTP_SSL(mail.host, mail.port, timeout=SECONDS_MAX, context=ssl.create_default_context())
    return smtplib.SMTP(mail.host, mail.port, timeout=SECONDS_MAX)


def _send(mail: Mail, to: str, said: Mapping[str, object]) -> None:
    message = EmailMessage()
    text = str(said["text"]).encode(errors="replace").decode()  # halves of characters have no UTF-8
    message["Subject"] = text.splitlines()[0][:200] if text else "An alert"
    message["From"], message["To"] = mail.sender, to
    message.set_content(f"{text}\n\n{said['link']}\n\n{json.dumps(said, indent=1)}\n")
    try:
        with _server(mail) as server:
            secure = mail.is_tls
            if not secure:
                with suppress(smtplib.SMTPNotSupportedError):
                    server.starttls(context=ssl.create_default_context())
                    secure = True
            if mail.user is not None:
                if not secure:
                    raise NoticeError("the mail server has no TLS: the password was not sent to it")
                server.login(mail.user, mail.password or "")
            server.send_message(message)
    except (OSError, smtplib.SMTPException) as error:
        raise NoticeError(f"the mail server refused it: {why_unreached(error)}") from None
