"""Access tokens with which a client logs in by OAUTHBEARER: of a file, or of an issuer that is asked: with
a client's secret, with what a client has signed instead of it, or for what it has signed.

The process says, and no properties, which URLs may be read (`org.apache.kafka.sasl.oauthbearer.allowed.urls` in KAFKA_OPTS):
properties come from others too, and would have this process read what only it can (CVE-2025-27817). KIP-768, KIP-1139,
KIP-1258; the forms of the question are RFC 6749, 4.4, and RFC 7523.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import ssl
import time
from base64 import urlsafe_b64decode
from collections.abc import Mapping
from urllib.parse import quote_plus

from ottla.base import ConfigError, ErrorCode, KafkaError
from ottla.client.assertions import ALLOWED_FILES, Assertions
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
    (JWT_BEARER := f"{_KAFKAS}JwtBearerJwtRetriever"): ("https",),
}
"""Kafka's classes, and the kinds of URLs that each reads."""
URLENCODE = f"{_PREFIX}header.urlencode"
ALLOWED_URLS = "org.apache.kafka.sasl.oauthbearer.allowed.urls"
_OAUTH = "urn:ietf:params:oauth"
EXTENSION = "extension_"
USED_UNTIL = 0.8
"""The part of its lifetime for which a token is used again (`sasl.login.refresh.window.factor`)."""
TOKEN_CHARACTERS_MAX = 100_000


class AccessTokens:
    """The one owner of a client's token; `options` are those of its JAAS entry."""

    def __init__(self, given: Mapping[str, str], options: Mapping[str, str]) -> None:
        """Raises ConfigError where something cannot be honoured."""
        self._allowed = _allowed(ALLOWED_URLS)
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
        self._for_assertion = retriever == JWT_BEARER
        asserts = self._for_assertion or Assertions.are_configured(given)
        has_form = self._scheme == "https"
        self._assertions = Assertions(given, _allowed(ALLOWED_FILES)) if asserts and has_form else None
        self._client_id = given.get(CLIENT_ID) or options.get("clientId", "")
        self._secret = given.get(CLIENT_SECRET) or options.get("clientSecret", "")
        if has_form and self._assertions is None and not (self._client_id and self._secret):
            raise ConfigError(CLIENT_ID, "", "", f"{CLIENT_ID} and {CLIENT_SECRET} are needed to ask {self._url}")
        self._is_quoted = given.get(URLENCODE, "").lower() == "true"
        self._scope = given.get(SCOPE) or options.get("scope", "")
        self.extensions = {
            key.removeprefix(EXTENSION): value for key, value in options.items() if key.startswith(EXTENSION)
        }
        """What the login tells besides the token."""
        self._context = _context(options) if has_form else None
        self._token = ""
        self._until_s = -math.inf

    async def begin(self) -> ClientExchange:
        """Begin a login; raises KafkaError where there is no token."""
        if (
            time.monotonic() >= self._until_s
        ):  # what the wall's clock is set to meanwhile makes no token good for longer
            self._token = await asyncio.to_thread(self._retrieve)
            self._until_s = time.monotonic() + USED_UNTIL * max(0.0, _expiry_s(self._token) - time.time())
        return OAuthBearerClient(self._token, self.extensions)

    def fresh(self) -> tuple[str, float]:
        """Wait for a new token; returns it and when it ends, in seconds since 1970. Raises KafkaError."""
        token = self._retrieve()
        ends_s = _expiry_s(token)
        if not time.time() < ends_s < math.inf:
            raise _refused(f"the access token of {self._url} has ended, or does not say when it ends")
        return token, ends_s

    def _retrieve(self) -> str:
        from ottla.security.sasl.key_reader import KeysUnreachableError, ask_token, read_keys

        try:
            if self._scheme == "file":
                text = read_keys(self._url, self._allowed, key=ENDPOINT).decode("ascii", "replace").strip()
            else:
                credentials = None if self._assertions is not None else self._credentials()
                answer = ask_token(
                    self._url, self._allowed, form=self._form(), credentials=credentials, context=self._context
                )
                text = _token_of(answer, self._url)
        except KeysUnreachableError as error:
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, f"no access token came: {error}") from error
        except ConfigError as error:
            raise _refused(f"no access token was asked for: {error}") from error
        if not text or len(text) > TOKEN_CHARACTERS_MAX:
            raise _refused(f"{self._url} holds no access token")
        return text

    def _credentials(self) -> tuple[str, str]:
        both = self._client_id, self._secret
        return (quote_plus(both[0]), quote_plus(both[1])) if self._is_quoted else both

    def _form(self) -> dict[str, str]:
        """Return what is asked: for who has a secret, for who has signed that it is he, or for what was signed."""
        scope = {"scope": self._scope} if self._scope else {}
        if self._assertions is None:
            return {"grant_type": "client_credentials", **scope}
        assertion = self._assertions.make(int(time.time()))
        if self._for_assertion:
            return {"grant_type": f"{_OAUTH}:grant-type:jwt-bearer", "assertion": assertion, **scope}
        who = {"client_id": self._client_id} if self._client_id else {}
        kind = f"{_OAUTH}:client-assertion-type:jwt-bearer"
        shown = {"client_assertion_type": kind, "client_assertion": assertion}
        return {**shown, "grant_type": "client_credentials", **who, **scope}


def _allowed(name: str) -> list[str]:
    """Return what the process may read."""
    listed = system_properties(os.environ).get(name, "")
    return [each.strip() for each in listed.split(",") if each.strip()]


def _context(options: Mapping[str, str]) -> ssl.SSLContext:
    """Return the TLS of the question: the entry's own `ssl.…`, with the system's authorities where it names none."""
    return Tls(TlsSettings.of({k: v for k, v in options.items() if k.startswith("ssl.")}), server=False).context


def _token_of(answer: bytes, url: str) -> str:
    try:
        found = json.loads(answer)["access_token"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise _refused(f"{url} answered without an access token") from error
    return str(found)


def _expiry_s(token: str) -> float:
    """Return when a token ends, in seconds since 1970, 0 where it does not say: only its broker checks it."""
    try:
        payload = token.split(".")[1]
        return float(json.loads(urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))["exp"])
    except (IndexError, ValueError, KeyError, TypeError, RecursionError):
        return 0.0


def _refused(reason: str) -> KafkaError:
    return KafkaError(ErrorCode.SASL_AUTHENTICATION_FAILED, reason)
