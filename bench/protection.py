"""How the connections of a load are protected: TLS 1.3 of one cipher, and a login by PLAIN."""

from __future__ import annotations

import socket
import ssl
from functools import cache

from ottla.wire import encode_request
from ottla.wire.messages.api_versions import ApiVersionsRequest
from ottla.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from ottla.wire.messages.sasl_handshake import SaslHandshakeRequest

__all__ = ["CIPHER", "HELLO", "LoginRefusedError", "ask", "context", "login_requests", "protected"]

CIPHER = "TLS_AES_256_GCM_SHA384"
"""What both brokers choose of their own accord, and what OpenSSL's clients prefer."""
HELLO = encode_request(ApiVersionsRequest(), 0, 1, "bench")
"""A request that every broker answers; behind a handshake it brings the tickets with which TLS is resumed."""
CODE_AT = 8
"""Where the answers to both of a login's requests have their error code, behind size and correlation."""


class LoginRefusedError(RuntimeError):
    """The broker has refused a login."""


@cache
def context(trust: str) -> ssl.SSLContext:
    """Return a client's context that trusts the authority in this file alone."""
    found = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    found.minimum_version = ssl.TLSVersion.TLSv1_3
    found.load_verify_locations(cafile=trust)
    return found


def protected(
    plain: socket.socket, *, trust: str = "", user: str = "", session: ssl.SSLSession | None = None
) -> socket.socket:
    """Return a connection that has shaken hands, and has logged in where it is to; raises LoginRefusedError."""
    found = plain
    if trust:
        secured = context(trust).wrap_socket(plain, server_hostname="localhost", session=session)
        if (cipher := secured.cipher()) is None or cipher[0] != CIPHER:
            raise RuntimeError(f"the broker chose {cipher} where {CIPHER} is measured")
        found = secured
    if user:
        for request in login_requests(user):
            answer = ask(found, request)
            if code := int.from_bytes(answer[CODE_AT : CODE_AT + 2], "big"):
                raise LoginRefusedError(f"the login of {user.partition(':')[0]} was answered with error {code}")
    return found


def login_requests(user: str) -> tuple[bytes, bytes]:
    """Return the two requests of a login by PLAIN, of `name:password`."""
    name, _, password = user.partition(":")
    token = f"\0{name}\0{password}".encode()
    choice, shown = SaslHandshakeRequest(mechanism="PLAIN"), SaslAuthenticateRequest(auth_bytes=token)
    return encode_request(choice, 1, 1, "bench"), encode_request(shown, 1, 2, "bench")


def ask(connection: socket.socket, request: bytes) -> bytes:
    """Send a request and return its answer, with its size in front."""
    connection.sendall(request)
    found = b""
    while len(found) < 4 or len(found) < 4 + int.from_bytes(found[:4], "big"):
        more = connection.recv(65536)
        if not more:
            raise ConnectionError("the broker closed the connection")
        found += more
    return found
