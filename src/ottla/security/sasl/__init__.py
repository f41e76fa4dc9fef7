"""Logging in (SASL): both sides of PLAIN, SCRAM, OAUTHBEARER and GSSAPI, as state machines that take bytes and give bytes.

Nothing here reads a socket, a file or a clock, except `key_reader` and `gss`; randomness, time, passwords and keys are
arguments. What goes wrong is an `AuthenticationError`, whose message the peer may hear and whose reason it may not.
"""

from typing import TYPE_CHECKING

from ottla.base import late_imports
from ottla.security.sasl.exchange import (
    AuthenticationError,
    ClientExchange,
    LoggedIn,
    ServerExchange,
    check_mechanisms,
    unsupported_mechanism,
)

if TYPE_CHECKING:
    from ottla.security.sasl.assertions import ALGORITHMS, signed_assertion
    from ottla.security.sasl.gate import LoginGate, LoginStep
    from ottla.security.sasl.jwks import Jwks, JwksError
    from ottla.security.sasl.jwt import JwtRules, JwtValidator, UnsecuredValidator, unsecured_token
    from ottla.security.sasl.kerberos import GssapiClient, GssapiServer, GssContext, GssError, GssUnreachableError
    from ottla.security.sasl.oauthbearer import BearerToken, OAuthBearerClient, OAuthBearerServer, TokenRefusedError
    from ottla.security.sasl.plain import PlainClient, PlainServer, PlainUsers
    from ottla.security.sasl.scram import SaltedSecret, ScramClient, ScramLogin, ScramServer
    from ottla.security.sasl.sessions import Session, reauthentication_ms

__all__ = [
    "ALGORITHMS",
    "AuthenticationError",
    "BearerToken",
    "ClientExchange",
    "GssContext",
    "GssError",
    "GssUnreachableError",
    "GssapiClient",
    "GssapiServer",
    "Jwks",
    "JwksError",
    "JwtRules",
    "JwtValidator",
    "LoggedIn",
    "LoginGate",
    "LoginStep",
    "OAuthBearerClient",
    "OAuthBearerServer",
    "PlainClient",
    "PlainServer",
    "PlainUsers",
    "SaltedSecret",
    "ScramClient",
    "ScramLogin",
    "ScramServer",
    "ServerExchange",
    "Session",
    "TokenRefusedError",
    "UnsecuredValidator",
    "check_mechanisms",
    "reauthentication_ms",
    "signed_assertion",
    "unsecured_token",
    "unsupported_mechanism",
]

_LATE = {
    **dict.fromkeys(("ALGORITHMS", "signed_assertion"), "ottla.security.sasl.assertions"),
    **dict.fromkeys(("LoginGate", "LoginStep"), "ottla.security.sasl.gate"),
    **dict.fromkeys(("Jwks", "JwksError"), "ottla.security.sasl.jwks"),
    **dict.fromkeys(("JwtRules", "JwtValidator", "UnsecuredValidator", "unsecured_token"), "ottla.security.sasl.jwt"),
    **dict.fromkeys(
        ("GssapiClient", "GssapiServer", "GssContext", "GssError", "GssUnreachableError"),
        "ottla.security.sasl.kerberos",
    ),
    **dict.fromkeys(
        ("BearerToken", "OAuthBearerClient", "OAuthBearerServer", "TokenRefusedError"),
        "ottla.security.sasl.oauthbearer",
    ),
    **dict.fromkeys(("PlainClient", "PlainServer", "PlainUsers"), "ottla.security.sasl.plain"),
    **dict.fromkeys(("SaltedSecret", "ScramClient", "ScramLogin", "ScramServer"), "ottla.security.sasl.scram"),
    **dict.fromkeys(("Session", "reauthentication_ms"), "ottla.security.sasl.sessions"),
}

__getattr__ = late_imports(__name__, _LATE)
"""Imports each mechanism when it is first asked for: most clients use one, or none."""
