"""Logging in to a cluster with one's own user: the broker says who that is, and every call then goes out as that user.

A password is needed once. Where the cluster has delegation tokens (KIP-48) one is taken that ends with the session, and
logs in from then on. Without them SCRAM keeps the salted password in its place, which is good for this user at this cluster
alone, and OAUTHBEARER its access token. Only PLAIN without tokens has nothing else: there the password stays in memory, and
the session says so. Who shows a certificate gets a token from the console, which may give some (KIP-373): without tokens
that is no way in.

A token ends with its session. Brokers let nobody who has logged in by a token end one (KIP-48), so the console's own user is
named as who may renew each, which lets it end them, too.
"""

from __future__ import annotations

import asyncio
import logging
import math
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from ottla.admin import create_delegation_token, expire_delegation_token
from ottla.base import ErrorCode, KafkaError, OttlaError
from ottla.client import BlockingClient
from ottla.console.clusters import Cluster, ClusterSettings, Credentials
from ottla.console.issuer import AccessToken
from ottla.http import HttpError
from ottla.security.sasl import AuthenticationError, ClientExchange, ScramClient

__all__ = [
    "CERTIFICATE",
    "MECHANISMS",
    "PASSWORD_MECHANISMS",
    "USER_CHARACTERS_MAX",
    "WRONG_LOGIN",
    "Login",
    "end_token",
    "log_in",
    "log_in_by_access_token",
    "log_in_by_certificate",
    "own_principal",
]

log = logging.getLogger(__name__)

PASSWORD_MECHANISMS = ("SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN")
CERTIFICATE = "CERTIFICATE"
MECHANISMS = (*PASSWORD_MECHANISMS, "OAUTHBEARER", CERTIFICATE)
USER_CHARACTERS_MAX = 255
TOKEN_MECHANISMS = ("SCRAM-SHA-512", "SCRAM-SHA-256")
WRONG_LOGIN = 40103
"""The code of the error for a user whom the cluster does not know, or not with this password."""
OWN_TOKEN_MS = 60_000
END_SECONDS_MAX = 10.0
"""How long a cluster has to end a token; then it lasts until its own end."""
WRONG = (ErrorCode.SASL_AUTHENTICATION_FAILED, ErrorCode.UNSUPPORTED_SASL_MECHANISM)


@dataclass(frozen=True, slots=True)
class Login:
    """A user at a cluster, and its client there; `kept` says what logs in again: a token, a secret, a password …"""

    user: str
    cluster: Cluster
    kept: str
    until_s: float = math.inf
    """Until when, on the monotonic clock, it logs in again."""
    token: bytes | None = field(default=None, repr=False)
    """The HMAC of the delegation token that it has, by which that is ended."""


async def log_in(
    settings: ClusterSettings,
    *,
    mechanism: str,
    user: str,
    password: str,
    lifetime_ms: int,
    renewers: Sequence[str] = (),
) -> Login:
    """Return a login of at most `lifetime_ms`; raises HttpError where the cluster refuses it, or cannot be asked.

    `renewers` may end its token, where it has one.
    """
    assert mechanism in PASSWORD_MECHANISMS
    made: list[ClientExchange] = []
    given = Credentials(mechanism, user, password)

    async def begin() -> ClientExchange:
        try:
            made[:] = [await given.begin()]
        except AuthenticationError as error:
            raise HttpError(400, str(error)) from None
        return made[0]

    first = Cluster(settings, begin=begin)
    try:
        await _asked(first, mechanism)
        by_token = await _by_token(settings, first, lifetime_ms, renewers)
        if by_token is not None:
            return replace(by_token, user=user)
        exchange = made[0]
        if isinstance(exchange, ScramClient) and exchange.secret is not None:
            return Login(user, Cluster(settings, Credentials(mechanism, user, exchange.secret)), "secret")
        return Login(user, Cluster(settings, given), "password")
    finally:  # it, the exchange and the closure hold the password: none of them outlives this call
        made.clear()
        await first.close()


async def log_in_by_access_token(
    settings: ClusterSettings, token: AccessToken, lifetime_ms: int, renewers: Sequence[str] = ()
) -> Login:
    """Return the login of an access token's bearer; raises HttpError as `log_in` does."""
    first = Cluster(settings, begin=token.begin)
    try:
        await _asked(first, "OAUTHBEARER")
        by_token = await _by_token(settings, first, lifetime_ms, renewers)
    except BaseException:
        await first.close()
        raise
    if by_token is None:
        return Login(token.user, first, "access token", token.until_s)
    await first.close()
    return by_token


async def log_in_by_certificate(
    settings: ClusterSettings, console: Cluster, user: str, lifetime_ms: int, renewers: Sequence[str] = ()
) -> Login:
    """Return the login of who has shown a certificate in this name, by a token that the console has made for them.

    Raises HttpError where the cluster does not let the console do that.
    """
    try:
        by_token = await _logged_in_by_token(settings, console, lifetime_ms, f"User:{user}", renewers)
    except OttlaError as error:
        raise HttpError(
            403,
            "The cluster gives the console no delegation token for who shows a certificate (it needs tokens, and "
            f"CREATE_TOKENS on {user!r} for the console's own user): {error}",
        ) from None
    if by_token is None:
        raise HttpError(502, "The cluster takes no logins by delegation tokens (SCRAM) where the console reaches it")
    return by_token


async def own_principal(cluster: Cluster) -> str:
    """Return as whom the brokers know a client, who has a token made for that and ends it at once; raises OttlaError."""

    def ask(client: BlockingClient) -> str:
        token = create_delegation_token(client, owner=None, renewers=(), lifetime_ms=OWN_TOKEN_MS)
        expire_delegation_token(client, token.hmac, -1)
        return token.owner

    return await cluster.admin(ask)


async def end_token(cluster: Cluster, hmac: bytes) -> None:
    """End a token, of which the client is the owner, the requester or a renewer; raises OttlaError, TimeoutError."""
    async with asyncio.timeout(END_SECONDS_MAX):
        await cluster.admin(expire_delegation_token, hmac, -1)


async def _asked(cluster: Cluster, mechanism: str) -> None:
    try:
        await cluster.client.metadata(())
    except KafkaError as error:
        if error.code is ErrorCode.UNSUPPORTED_SASL_MECHANISM:
            raise HttpError(400, f"The cluster takes no logins by {mechanism}: {error}") from None
        if error.code in WRONG:
            if mechanism == "OAUTHBEARER":
                raise HttpError(401, f"The cluster does not take this issuer's access token: {error}") from None
            raise HttpError(401, "The cluster knows no such user with this password", error_code=WRONG_LOGIN) from None
        raise HttpError(502, f"The cluster could not be asked: {error}") from None
    except OttlaError as error:
        raise HttpError(502, f"The cluster could not be asked: {error}") from None


async def _by_token(
    settings: ClusterSettings, first: Cluster, lifetime_ms: int, renewers: Sequence[str]
) -> Login | None:
    """Return a login by a fresh delegation token; None where the cluster gives or takes none."""
    try:
        return await _logged_in_by_token(settings, first, lifetime_ms, None, renewers)
    except OttlaError:
        return None  # it has no tokens: what logs in instead is the caller's matter


async def _logged_in_by_token(
    settings: ClusterSettings, first: Cluster, lifetime_ms: int, owner: str | None, renewers: Sequence[str]
) -> Login | None:
    """Return a login by a fresh token of its owner's, None where that is refused; raises OttlaError."""
    token = await first.admin(
        lambda client: create_delegation_token(client, owner=owner, renewers=renewers, lifetime_ms=lifetime_ms)
    )
    user, word = token.owner.partition(":")[2], b64encode(token.hmac).decode()
    for mechanism in TOKEN_MECHANISMS:
        found = Cluster(settings, Credentials(mechanism, token.token_id, word, by_token=True))
        try:
            await found.client.metadata(())
        except OttlaError:
            await found.close()  # this listener takes no SCRAM of this kind, or the token is not known yet
        else:
            return Login(user, found, "token", token=token.hmac)
    try:
        await end_token(first, token.hmac)
    except (OttlaError, TimeoutError) as error:
        log.warning("a token of %s that logs in nowhere is left until its end: %s", token.owner, error)
    return None
