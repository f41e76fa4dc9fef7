"""Logging in to a cluster with one's own user: the broker says who that is, and every call then goes out as that user.

The password is needed once. Where the cluster has delegation tokens (KIP-48) one is taken that ends with the session, and
logs in from then on. Without them SCRAM keeps the salted password in its place, which is good for this user at this cluster
alone. Only PLAIN without tokens has nothing else: there the password stays in memory, and the session says so.
"""

from __future__ import annotations

import secrets
from base64 import b64encode
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from ottla.admin import create_delegation_token
from ottla.base import ErrorCode, KafkaError, OttlaError
from ottla.client import ClientSecurity
from ottla.console.clusters import Cluster, ClusterSettings
from ottla.http import HttpError
from ottla.security import ScramMechanism
from ottla.security.sasl import AuthenticationError, ClientExchange, PlainClient, SaltedSecret, ScramClient

__all__ = ["MECHANISMS", "USER_CHARACTERS_MAX", "WRONG_LOGIN", "Login", "log_in"]

MECHANISMS = ("SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN")
NONCE_BYTES = 18
USER_CHARACTERS_MAX = 255
TOKEN_MECHANISMS = ("SCRAM-SHA-512", "SCRAM-SHA-256")
WRONG_LOGIN = 40103
"""The code of the error for a user whom the cluster does not know, or not with this password."""
WRONG = (ErrorCode.SASL_AUTHENTICATION_FAILED, ErrorCode.UNSUPPORTED_SASL_MECHANISM)


@dataclass(frozen=True, slots=True)
class Login:
    """A user at a cluster, and its client there; `kept` says what logs in again: a token, a salted secret, a password."""

    user: str
    cluster: Cluster
    kept: str


Begin = Callable[[], Awaitable[ClientExchange]]


async def log_in(settings: ClusterSettings, *, mechanism: str, user: str, password: str, lifetime_ms: int) -> Login:
    """Return a login of at most `lifetime_ms`; raises HttpError where the cluster refuses it, or cannot be asked."""
    assert mechanism in MECHANISMS
    made: list[ClientExchange] = []

    async def begin() -> ClientExchange:
        made[:] = [_exchange(mechanism, user, password)]
        return made[0]

    first = Cluster(settings, _as(settings, begin))
    keeps_first = False
    try:
        await _asked(first, mechanism)
        by_token = await _by_token(settings, first, lifetime_ms)
        if by_token is not None:
            return Login(user, by_token, "token")
        exchange = made[0]
        if isinstance(exchange, ScramClient) and exchange.secret is not None:
            again = _again(mechanism, user, exchange.secret)
            return Login(user, Cluster(settings, _as(settings, again)), "secret")
        keeps_first = True
        return Login(user, first, "password")
    finally:
        if not keeps_first:  # it, the exchange and the closure hold the password: none of them outlives this call
            made.clear()
            await first.close()


async def _asked(cluster: Cluster, mechanism: str) -> None:
    try:
        await cluster.client.metadata(())
    except KafkaError as error:
        if error.code is ErrorCode.UNSUPPORTED_SASL_MECHANISM:
            raise HttpError(400, f"The cluster takes no logins by {mechanism}: {error}") from None
        if error.code in WRONG:
            raise HttpError(401, "The cluster knows no such user with this password", error_code=WRONG_LOGIN) from None
        raise HttpError(502, f"The cluster could not be asked: {error}") from None
    except OttlaError as error:
        raise HttpError(502, f"The cluster could not be asked: {error}") from None


async def _by_token(settings: ClusterSettings, first: Cluster, lifetime_ms: int) -> Cluster | None:
    """Return a client that logs in by a fresh delegation token; None where the cluster gives or takes none."""
    try:
        token = await first.admin(
            lambda client: create_delegation_token(client, owner=None, renewers=(), lifetime_ms=lifetime_ms)
        )
    except OttlaError:
        return None  # it has no tokens: what logs in instead is the caller's matter
    word = b64encode(token.hmac).decode()
    for mechanism in TOKEN_MECHANISMS:
        found = Cluster(settings, _as(settings, _again(mechanism, token.token_id, word, by_token=True)))
        try:
            await found.client.metadata(())
        except OttlaError:
            await found.close()  # this listener takes no SCRAM of this kind, or the token is not known yet
        else:
            return found
    return None


def _again(mechanism: str, user: str, secret: str | SaltedSecret, *, by_token: bool = False) -> Begin:
    async def begin() -> ClientExchange:
        return _exchange(mechanism, user, secret, by_token=by_token)

    return begin


def _exchange(mechanism: str, user: str, secret: str | SaltedSecret, *, by_token: bool = False) -> ClientExchange:
    try:
        if mechanism == "PLAIN":
            assert isinstance(secret, str)
            return PlainClient(user, secret)
        scram = ScramMechanism.of_name(mechanism)
        assert scram is not None
        nonce = secrets.token_urlsafe(NONCE_BYTES)
        return ScramClient(scram, user=user, password=secret, nonce=nonce, by_token=by_token)
    except AuthenticationError as error:
        raise HttpError(400, str(error)) from None


def _as(settings: ClusterSettings, begin: Begin) -> ClientSecurity:
    """Return what protects connections as the cluster's properties say, and logs in as somebody else."""
    own = ClientSecurity.of(settings.properties)
    return ClientSecurity(own.protocol, tls=own.tls, begin=begin)
