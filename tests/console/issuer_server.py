"""An issuer of OpenID Connect on this machine: its page lets everybody in as whom they say, its tokens are signed.

It is strict where a console could be careless: a code is good once, for the client, the address and the PKCE verifier that
it was asked for with; a word that renews a token is good once, too.
"""

from __future__ import annotations

import hashlib
import html
import json
import secrets
import ssl
import threading
import time
from base64 import b64decode, urlsafe_b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

from joserfc import jwk, jws

from tests.security.authority import Identity

CLIENT_ID, SECRET = "ottla-console", "the console's & own"


class IssuerServer:
    """Its keys, and what it has given."""

    def __init__(self, secret: str | None, lasts_s: int, renews: bool) -> None:
        self.key = jwk.RSAKey.generate_key(2048, {"kid": "one"})
        self.secret, self.lasts_s, self.renews = secret, lasts_s, renews
        self.url = ""
        self.codes: dict[str, tuple[dict[str, str], str]] = {}
        self.renewals: dict[str, str] = {}
        self.changes: dict[str, Any] = {}
        """Claims of ID tokens that are to be others."""
        self.renewed = 0

    def write_keys(self, path: Path) -> str:
        """Write its keys for a broker, and return the URL."""
        path.write_text(json.dumps({"keys": [self.key.as_dict(private=False)]}))
        return f"file://{path}"

    def signed(self, **claims: Any) -> str:
        now = time.time()
        whole = {"iss": self.url, "iat": now, "exp": now + self.lasts_s, **claims}
        return jws.serialize_compact({"alg": "RS256", "kid": "one"}, json.dumps(whole).encode(), self.key)

    def answer(self, user: str, nonce: str | None) -> dict[str, Any]:
        found: dict[str, Any] = {
            "access_token": self.signed(sub=user, aud="kafka"),
            "token_type": "Bearer",
            "expires_in": self.lasts_s,
        }
        if nonce is not None:
            found["id_token"] = self.signed(**({"sub": user, "aud": CLIENT_ID, "nonce": nonce} | self.changes))
        if self.renews:
            word = secrets.token_urlsafe(8)
            self.renewals[word] = user
            found["refresh_token"] = word
        return found

    def exchange(self, form: dict[str, str]) -> dict[str, Any] | None:
        """Return a token for a form, None for one that is wrong."""
        if form.get("grant_type") == "refresh_token":
            user = self.renewals.pop(form.get("refresh_token", ""), None)
            self.renewed += user is not None
            return None if user is None else self.answer(user, None)
        asked, user = self.codes.pop(form.get("code", ""), ({}, None))
        challenge = urlsafe_b64encode(hashlib.sha256(form.get("code_verifier", "").encode()).digest()).rstrip(b"=")
        if (
            user is None
            or asked["code_challenge"] != challenge.decode()
            or asked["redirect_uri"] != form["redirect_uri"]
        ):
            return None
        return self.answer(user, asked["nonce"])


def _handler(issuer: IssuerServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            """Say nothing."""

        def _send(self, status: int, body: str, kind: str = "application/json", **headers: str) -> None:
            self.send_response(status)
            for name, value in {"Content-Type": kind, "Content-Length": str(len(body.encode())), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body.encode())

        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            asked = dict(parse_qsl(parts.query))
            if parts.path == "/.well-known/openid-configuration":
                ends = {f"{name}_endpoint": f"{issuer.url}/{name}" for name in ("authorization", "token")}
                self._send(200, json.dumps({"issuer": issuer.url, **ends}))
            elif parts.path == "/authorization" and asked.get("client_id") == CLIENT_ID:
                assert asked["response_type"] == "code" and asked["code_challenge_method"] == "S256"
                kept = "".join(f'<input type=hidden name="{k}" value="{html.escape(v)}">' for k, v in asked.items())
                form = f"<form action=/in>{kept}<input name=user aria-label=User><button>Sign in</button></form>"
                self._send(200, f"<!doctype html><title>Issuer</title>{form}", "text/html")
            elif parts.path == "/in":
                user = asked.pop("user")
                code = secrets.token_urlsafe(8)
                issuer.codes[code] = asked, user
                said = {"error": "access_denied", "error_description": "no <b>such</b> user"}
                back = said if user == "nobody" else {"code": code, "iss": issuer.url}
                where = f"{asked['redirect_uri']}?{urlencode({**back, 'state': asked['state']})}"
                self._send(302, "", "text/plain", Location=where)
            else:
                self._send(404, "{}")

        def do_POST(self) -> None:
            form = dict(parse_qsl(self.rfile.read(int(self.headers["Content-Length"])).decode()))
            given = b64decode((self.headers.get("Authorization") or " ").partition(" ")[2]).decode().partition(":")
            named = (unquote(given[0].replace("+", " ")), unquote(given[2].replace("+", " ")))
            right = form.get("client_id") == CLIENT_ID if issuer.secret is None else named == (CLIENT_ID, issuer.secret)
            answer = issuer.exchange(form) if right else None
            self._send(200 if answer else 400, json.dumps(answer or {"error": "invalid_grant"}))

    return Handler


@contextmanager
def running_issuer(
    folder: Path, identity: Identity, *, secret: str | None = SECRET, lasts_s: int = 300, renews: bool = False
) -> Iterator[IssuerServer]:
    """An issuer that answers by HTTPS with this identity; it has ended when the block ends."""
    issuer = IssuerServer(secret, lasts_s, renews)
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(issuer))
    (folder / "issuer.pem").write_text(identity.key_pem() + identity.chain_pem())
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "issuer.pem")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    issuer.url = f"https://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield issuer
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)
