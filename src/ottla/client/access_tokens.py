"""Access tokens with which a client logs in by OAUTHBEARER: of a file, or of an issuer that is asked with a client's secret.

The process says, and no properties, which URLs may be read (`org.apache.kafka.sasl.oauthbearer.allowed.urls` in KAFKA_OPTS):
properties come from others too, and would have this process read what only it can (CVE-2025-27817). KIP-768, KIP-1139; the
form of the question is RFC 6749, 4.4.
"""

from __future__ import annotations

import asyncio
import json
import os
import ssl
import time
from base64 import urlsafe_b64decode
from collections.abc import Mapping

from ottla.base import ConfigError, ErrorCode, KafkaError
from ottla.config import system_properties
from ottla.security import Tls, TlsSettings
from ottla.security.sasl import ClientExchange, OAuthBearerClient

__all__ = ["AccessTokens"]

_PREFIX = "sasl.oauthbearer."
_KAFKAS = "org.apache.kafka.common.security.oauthbearer."
ENDPOINT = f"{_PREFIX}token.endpoint.url"
CLIENT_ID, CLIENT_SECRET = f"{_PREFIX}client.credentials.client.id", f"{_PREFIX}client.credentials.client.secret"
SCOPE, RETRIEVER = f"{_PREFIX}scope", f"{_PREFIX}jwt.retriever.class"
LOGIN_HANDLERS = tuple(f"{_KAFKAS}{each}OAuthBearerLoginCallbackHandler" for each in ("", "secured."))
RETRIEVERS = {
    f"{_KAFKAS}DefaultJwtRetriever": ("file", "https"),
    f"{_KAFKAS}ClientCredentialsJwtRetriever": ("https",),
    f"{_KAFKAS}FileJwtRetriever": ("file",),
}
"""Kafka's classes, and the kinds of URLs that each reads."""
ALLOWED_URLS = "org.apache.kafka.sasl.oauthbearer.allowed.urls"
EXTENSION = "extension_"
USED_UNTIL = 0.8
"""The part of its lifetime for which a token is used again (`sasl.login.refresh.window.factor`)."""
TOKEN_CHARACTERS_MAX = 100_000


class AccessTokens:
    """The one owner of a client's token; `options` are those of its JAAS entry."""

    def __init__(self, given: Mapping[str, str], options: Mapping[str, str]) -> None:
        """Raises ConfigError where something cannot be honoured."""
        allowed = system_properties(os.environ).get(ALLOWED_URLS, "")
        self._allowed = [each.strip() for each in allowed.split(",") if each.strip()]
        self._url = given.get(ENDPOINT, "")
        if not self._url:
            raise ConfigError(ENDPOINT, "", "", f"{ENDPOINT} is not set: it says where access tokens come from")
        retriever = given.get(RETRIEVER) or next(iter(RETRIEVERS))
        schemes = RETRIEVERS.get(retriever)
        if schemes is None:
            raise ConfigError(RETRIEVER, retriever, f"must be one of {', '.join(RETRIEVERS)}")
        self._scheme = self._url.partition(":")[0].lower()
        if self._scheme not in schemes:
            raise ConfigError(ENDPOINT, self._url, f"must be a URL of {' or '.join(f'{each}:' for each in schemes)}")
        from ottla.security.sasl.key_reader import check_url  # it imports Python's client of HTTP

        check_url(self._url, self._allowed, key=ENDPOINT)
        self._credentials = (
            given.get(CLIENT_ID) or options.get("clientId", ""),
            given.get(CLIENT_SECRET) or options.get("clientSecret", ""),
        )
        if self._scheme == "https" and not all(self._credentials):
            raise ConfigError(CLIENT_ID, "", "", f"{CLIENT_ID} and {CLIENT_SECRET} are needed to ask {self._url}")
        self._scope = given.get(SCOPE) or options.get("scope", "")
        self._extensions = {
            key.removeprefix(EXTENSION): value for key, value in options.items() if key.startswith(EXTENSION)
        }
        self._context = _context(options) if self._scheme == "https" else None
        self._token = ""
        self._until_s = 0.0

    async def begin(self) -> ClientExchange:
        """Begin a login; raises KafkaError where there is no token."""
        if time.time() >= self._until_s:
            self._token = await asyncio.to_thread(self._retrieve)
            self._until_s = time.time() + USED_UNTIL * max(0.0, _expiry_s(self._token) - time.time())
        return OAuthBearerClient(self._token, self._extensions)

    def _retrieve(self) -> str:
        from ottla.security.sasl.key_reader import KeysUnreachableError, ask_token, read_keys

        try:
            if self._scheme == "file":
                text = read_keys(self._url, self._allowed, key=ENDPOINT).decode("ascii", "replace").strip()
            else:
                form = {"grant_type": "client_credentials"} | ({"scope": self._scope} if self._scope else {})
                answer = ask_token(
                    self._url, self._allowed, form=form, credentials=self._credentials, context=self._context
                )
                text = _token_of(answer, self._url)
        except KeysUnreachableError as error:
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, f"no access token came: {error}") from error
        if not text or len(text) > TOKEN_CHARACTERS_MAX:
            raise _refused(f"{self._url} holds no access token")
        return text


def _context(options: Mapping[str, str]) -> ssl.SSLContext:
    """Return the TLS of the question: the entry's own `ssl.…`, with the system's authorities where it names none."""
    return Tls(TlsSettings.of({k: v for k, v in options.items() if k.startswith("ssl.")}), server=False).context


def _token_of(answer: bytes, url: str) -> str:
    try:
        found = json.loads(answer)["access_token"]
    except (ValueError, KeyError, TypeError) as error:
        raise _refused(f"{url} answered without an access token") from error
    return str(found)


def _expiry_s(token: str) -> float:
    """Return when a token ends, in seconds since 1970, 0 where it does not say: only its broker checks it."""
    try:
        payload = token.split(".")[1]
        return float(json.loads(urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))["exp"])
    except (IndexError, ValueError, KeyError, TypeError):
        return 0.0


def _refused(reason: str) -> KafkaError:
    return KafkaError(ErrorCode.SASL_AUTHENTICATION_FAILED, reason)
