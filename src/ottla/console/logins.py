"""Logging in to a cluster with one's own user: the broker says who that is, and every call then goes out as that user.

A password is needed once. Where the cluster has delegation tokens (KIP-48) one is taken that ends with the session, and
logs in from then on. Without them SCRAM keeps the salted password in its place, which is good for this user at this cluster
alone, and OAUTHBEARER its access token. Only PLAIN without tokens has nothing else: there the password stays in memory, and
the session says so. Who shows a certificate gets a token from the console, which may give some (KIP-373): without tokens
that is no way in.
"""

from __future__ import annotations

import math
from base64 import b64encode
from dataclasses import dataclass

from ottla.admin import create_delegation_token
from ottla.base import ErrorCode, KafkaError, OttlaError
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
    "log_in",
    "log_in_by_access_token",
    "log_in_by_certificate",
]

PASSWORD_MECHANISMS = ("SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN")
CERTIFICATE = "CERTIFICATE"
MECHANISMS = (*PASSWORD_MECHANISMS, "OAUTHBEARER", CERTIFICATE)
USER_CHARACTERS_MAX = 255
TOKEN_MECHANISMS = ("SCRAM-SHA-512", "SCRAM-SHA-256")
WRONG_LOGIN = 40103
"""The code of the error for a user whom the cluster does not know, or not with this password."""
WRONG = (ErrorCode.SASL_AUTHENTICATION_FAILED, ErrorCode.UNSUPPORTED_SASL_MECHANISM)


@dataclass(frozen=True, slots=True)
class Login:
    """A user at a cluster, and its client there; `kept` says what logs in again: a token, a secret, a password …"""

    user: str
    cluster: Cluster
    kept: str
    until_s: float = math.inf
    """Until when, on the monotonic clock, it logs in again."""


async def log_in(settings: ClusterSettings, *, mechanism: str, user: str, password: str, lifetime_ms: int) -> Login:
    """Return a login of at most `lifetime_ms`; raises HttpError where the cluster refuses it, or cannot be asked."""
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
        by_token = await _by_token(settings, first, lifetime_ms)
        if by_token is not None:
            return Login(user, by_token[1], "token")
        exchange = made[0]
        if isinstance(exchange, ScramClient) and exchange.secret is not None:
            return Login(user, Cluster(settings, Credentials(mechanism, user, exchange.secret)), "secret")
        return Login(user, Cluster(settings, given), "password")
    finally:  # it, the exchange and the closure hold the password: none of them outlives this call
        made.clear()
        await first.close()


async def log_in_by_access_token(settings: ClusterSettings, token: AccessToken, lifetime_ms: int) -> Login:
    """Return the login of an access token's bearer; raises HttpError as `log_in` does."""
    first = Cluster(settings, begin=token.begin)
    try:
        await _asked(first, "OAUTHBEARER")
        by_token = await _by_token(settings, first, lifetime_ms)
    except BaseException:
        await first.close()
        raise
    if by_token is None:
        return Login(token.user, first, "access token", token.until_s)
    await first.close()
    return Login(*by_token, "token")


async def log_in_by_certificate(settings: ClusterSettings, console: Cluster, user: str, lifetime_ms: int) -> Login:
    """Return the login of who has shown a certificate in this name, by a token that the console has made for them.

    Raises HttpError where the cluster does not let the console do that.
    """
    try:
        by_token = await _logged_in_by_token(settings, console, lifetime_ms, f"User:{user}")
    except OttlaError as error:
        raise HttpError(
            403,
            "The cluster gives the console no delegation token for who shows a certificate (it needs tokens, and "
            f"CREATE_TOKENS on {user!r} for the console's own user): {error}",
        ) from None
    if by_token is None:
        raise HttpError(502, "The cluster takes no logins by delegation tokens (SCRAM) where the console reaches it")
    return Login(*by_token, "token")


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


async def _by_token(settings: ClusterSettings, first: Cluster, lifetime_ms: int) -> tuple[str, Cluster] | None:
    """Return a client that logs in by a fresh delegation token; None where the cluster gives or takes none."""
    try:
        return await _logged_in_by_token(settings, first, lifetime_ms, None)
    except OttlaError:
        return None  # it has no tokens: what logs in instead is the caller's matter


async def _logged_in_by_token(
    settings: ClusterSettings, first: Cluster, lifetime_ms: int, owner: str | None
) -> tuple[str, Cluster] | None:
    """Return who owns a fresh token and a client that logs in by it, None where that is refused; raises OttlaError."""
    token = await first.admin(
        lambda client: create_delegation_token(client, owner=owner, renewers=(), lifetime_ms=lifetime_ms)
    )
    user, word = token.owner.partition(":")[2], b64encode(token.hmac).decode()
    for mechanism in TOKEN_MECHANISMS:
        found = Cluster(settings, Credentials(mechanism, token.token_id, word, by_token=True))
        try:
            await found.client.metadata(())
        except OttlaError:
            await found.close()  # this listener takes no SCRAM of this kind, or the token is not known yet
        else:
            return user, found
    return None
