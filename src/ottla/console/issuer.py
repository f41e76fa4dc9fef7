"""Logging in by an issuer of OpenID Connect: its page says who somebody is, its access token lets them in at the cluster.

The flow is that of a code with PKCE (OpenID Connect Core 1.0, 3.1; RFC 7636; RFC 9207). What a token is worth the brokers
decide, as for any client of OAUTHBEARER. Here it is checked that an answer is this issuer's, for this question (`state`,
`nonce`), and that it comes from the browser that was sent there (a cookie), so that nobody is logged in as somebody else.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import secrets
import ssl
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote_plus, urlencode, urlsplit

from ottla.base import ErrorCode, KafkaError, OttlaError
from ottla.console.entry import is_same
from ottla.http import HttpError
from ottla.security.sasl import ClientExchange, OAuthBearerClient

__all__ = ["PENDING_SECONDS", "AccessToken", "Answered", "Issuer", "IssuerSettings"]

ISSUER = "ottla.console.oidc.issuer"
DISCOVERY = "/.well-known/openid-configuration"
DISCOVERED_SECONDS = 3600.0
PENDING_SECONDS = 600.0
PENDING_MAX = 10_000
REST_SECONDS = 5.0
"""How long an issuer that has not said where its pages are is left alone: whoever comes to the door could have it asked."""
USED_UNTIL = 0.8
"""The part of its lifetime after which a token that can be renewed is."""
SECONDS_UNSAID = 300.0
"""How long a token is taken to last whose issuer does not say it."""


@dataclass(frozen=True, slots=True)
class IssuerSettings:
    """An issuer, and what this console is to it."""

    url: str
    client_id: str
    secret: str = field(default="", repr=False)
    """Empty for a public client: PKCE stands for it."""
    scope: str = "openid"
    claim: str = "sub"
    """Which claim of its tokens is the user's name at the brokers (their `sasl.oauthbearer.sub.claim.name`)."""
    redirect: str = ""
    """Where the issuer sends browsers back to, where that is not the address that they ask this console by."""
    context: Callable[[], ssl.SSLContext] | None = field(default=None, repr=False)
    """Whose certificates the issuer's has to follow from; the system's authorities where it is None."""


@dataclass(frozen=True, slots=True)
class _Pending:
    """Somebody who is at the issuer's page."""

    cluster: str
    browser: str
    verifier: str
    nonce: str
    redirect: str
    to: str
    session: str
    until_s: float


@dataclass(frozen=True, slots=True)
class Answered:
    """Who has come back: to which cluster, with what, to which page; `session` is the cookie that they had before."""

    cluster: str
    token: AccessToken
    to: str
    session: str


class AccessToken:
    """Somebody's access token, renewed before its end where the issuer allows it."""

    def __init__(self, issuer: Issuer, answer: Mapping[str, Any]) -> None:
        self._issuer = issuer
        self._refresh = ""
        self._take(answer)

    def _take(self, answer: Mapping[str, Any]) -> None:
        self._token = str(answer["access_token"])
        self._refresh = str(answer.get("refresh_token") or "") or self._refresh
        seconds = answer.get("expires_in")
        lasts_s = float(seconds) if isinstance(seconds, int | float) and seconds > 0 else SECONDS_UNSAID
        now_s = time.monotonic()
        self._renew_s, self._ends_s = now_s + USED_UNTIL * lasts_s, now_s + lasts_s

    @property
    def user(self) -> str:
        """Who it says its bearer is: only for show, the brokers look for themselves."""
        claims = _claims(self._token)
        return str(claims.get(self._issuer.settings.claim) or claims.get("sub") or "somebody")

    @property
    def until_s(self) -> float:
        """When it ends, on the monotonic clock; never where it is renewed."""
        return float("inf") if self._refresh else self._ends_s

    async def begin(self) -> ClientExchange:
        """Begin a login with it; raises KafkaError where it has ended."""
        if self._refresh and time.monotonic() >= self._renew_s:
            form = {"grant_type": "refresh_token", "refresh_token": self._refresh}
            try:
                self._take(await self._issuer.token(form))
            except HttpError as error:
                if time.monotonic() >= self._ends_s:
                    raise KafkaError(ErrorCode.SASL_AUTHENTICATION_FAILED, f"log in again: {error}") from error
        if time.monotonic() >= self._ends_s:
            raise KafkaError(ErrorCode.SASL_AUTHENTICATION_FAILED, "the access token has ended: log in again")
        return OAuthBearerClient(self._token)


class Issuer:
    """The one owner of who is on the way to an issuer and back."""

    def __init__(self, settings: IssuerSettings, now_s: Callable[[], float] = time.monotonic) -> None:
        self.settings = settings
        self._now_s = now_s
        self._pending: OrderedDict[str, _Pending] = OrderedDict()
        self._document: dict[str, str] = {}
        self._document_until_s = 0.0
        self._asking = asyncio.Lock()
        self._failed: tuple[float, HttpError] | None = None

    async def begin(self, cluster: str, *, redirect: str, to: str, session: str) -> tuple[str, str]:
        """Return where to send a browser, and the secret that it has to show when it comes back; raises HttpError."""
        document = await self._discovered()
        now_s = self._now_s()
        while self._pending and (
            len(self._pending) >= PENDING_MAX or next(iter(self._pending.values())).until_s <= now_s
        ):
            self._pending.popitem(last=False)
        state, browser, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(4))
        redirect = self.settings.redirect or redirect
        self._pending[state] = _Pending(
            cluster, browser, verifier, nonce, redirect, to, session, now_s + PENDING_SECONDS
        )
        asked = {
            "response_type": "code",
            "client_id": self.settings.client_id,
            "redirect_uri": redirect,
            "scope": self.settings.scope,
            "state": state,
            "nonce": nonce,
            "code_challenge": _base64url(hashlib.sha256(verifier.encode()).digest()),
            "code_challenge_method": "S256",
        }
        where = document["authorization_endpoint"]
        return f"{where}{'&' if '?' in where else '?'}{urlencode(asked)}", browser

    async def finish(self, query: Mapping[str, str], browser: str) -> Answered:
        """Take what a browser brings back, once; raises HttpError for what is not an answer to its question."""
        pending = self._pending.pop(query.get("state", ""), None)
        if pending is None or self._now_s() >= pending.until_s:
            raise HttpError(400, "This login was not begun here, or too long ago: log in again")
        if not is_same(browser, pending.browser):
            raise HttpError(400, "This login was begun in another browser: log in again")
        if query.get("iss", self.settings.url) != self.settings.url:
            raise HttpError(400, "The answer is another issuer's")
        if "error" in query:
            said = query.get("error_description") or query["error"]
            raise HttpError(401, f"The issuer has not let you in: {said:.200}")
        form = {
            "grant_type": "authorization_code",
            "code": query.get("code", ""),
            "redirect_uri": pending.redirect,
            "code_verifier": pending.verifier,
        }
        answer = await self.token(form)
        shown = _claims(str(answer.get("id_token") or ""))
        if not is_same(str(shown.get("nonce", "")), pending.nonce):
            raise HttpError(401, "The issuer's answer has no ID token for this login (scope openid is needed)")
        if shown.get("iss") != self.settings.url or self.settings.client_id not in _texts(shown.get("aud")):
            raise HttpError(401, "The issuer's ID token is for somebody else than this console")
        return Answered(pending.cluster, AccessToken(self, answer), pending.to, pending.session)

    async def token(self, form: Mapping[str, str]) -> dict[str, Any]:
        """Return what the issuer gives for a code, or for the word by which a token is renewed; raises HttpError."""
        url = (await self._discovered())["token_endpoint"]
        own, secret = self.settings.client_id, self.settings.secret
        credentials = (quote_plus(own), quote_plus(secret)) if secret else None
        whole = dict(form) if secret else {**form, "client_id": own}
        from ottla.security.sasl.key_reader import ask_token  # it imports Python's client of HTTP

        answer = await self._asked(ask_token, url, form=whole, credentials=credentials)
        if not isinstance(answer.get("access_token"), str) or not answer["access_token"]:
            raise HttpError(502, f"{url} has answered without an access token")
        return answer

    async def _discovered(self) -> dict[str, str]:
        async with self._asking:
            if self._now_s() < self._document_until_s:
                return self._document
            if self._failed is not None and self._now_s() < self._failed[0]:
                raise self._failed[1]
            try:
                return await self._newly_discovered()
            except HttpError as error:
                self._failed = self._now_s() + REST_SECONDS, error
                raise

    async def _newly_discovered(self) -> dict[str, str]:
        from ottla.security.sasl.key_reader import read_keys  # it imports Python's client of HTTP

        url = self.settings.url.rstrip("/") + DISCOVERY
        found = await self._asked(read_keys, url, key=ISSUER)
        if found.get("issuer") != self.settings.url:
            raise HttpError(502, f"{url} is about {found.get('issuer')!r:.200}, not about {self.settings.url}")
        for name in ("authorization_endpoint", "token_endpoint"):
            if urlsplit(str(found.get(name) or "")).scheme != "https":
                raise HttpError(502, f"{url} names no {name} of https")
        self._document = {name: str(found[name]) for name in ("authorization_endpoint", "token_endpoint")}
        self._document_until_s = self._now_s() + DISCOVERED_SECONDS
        return self._document

    async def _asked(self, ask: Callable[..., bytes], url: str, **more: Any) -> dict[str, Any]:
        """Ask from a thread, and read the JSON; raises HttpError."""
        context = None if self.settings.context is None else self.settings.context()
        try:
            found = json.loads(await asyncio.to_thread(ask, url, [url], context=context, **more))
        except OttlaError as error:
            raise HttpError(502, f"The issuer has not answered as it should: {error}") from error
        except (ValueError, RecursionError):
            raise HttpError(502, "The issuer has not answered in JSON") from None
        if not isinstance(found, dict):
            raise HttpError(502, "The issuer has not answered with an object")
        return found


def _base64url(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()


def _claims(token: str) -> dict[str, Any]:
    """Return what a token says, whose signature somebody else checks, or whose issuer gave it over TLS; empty if nothing."""
    try:
        part = token.split(".")[1]
        found = json.loads(urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except (IndexError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _texts(value: object) -> list[str]:
    return [value] if isinstance(value, str) else [str(each) for each in value] if isinstance(value, list) else []
