"""Who asks: by a name and a password, a bearer's token or a certificate, as a principal of Kafka's."""

from __future__ import annotations

import base64

from ottla.base import OttlaError
from ottla.http import Request
from ottla.registry.access import Access
from ottla.registry.bearer import BearerLogins
from ottla.security import SslRules, certificate_name

__all__ = ["ANONYMOUS", "Logins"]

ANONYMOUS = "User:ANONYMOUS"


class Logins:
    """Tells who a request is from; `start` and `close` are of the keys by which tokens are checked."""

    def __init__(self, access: Access) -> None:
        """Raises ConfigError for rules that are none."""
        self._access = access
        self._bearer = None if access.bearer is None else BearerLogins(access.bearer)
        self._rules = SslRules(access.certificate_rules)

    async def start(self) -> None:
        """Fetch what tokens are checked by; raises ConfigError."""
        if self._bearer is not None:
            await self._bearer.start()

    def close(self) -> None:
        """Fetch it no more."""
        if self._bearer is not None:
            self._bearer.close()

    @property
    def challenge(self) -> str:
        """What is asked of who has not logged in (`WWW-Authenticate`)."""
        asked = [f'Basic realm="{self._access.realm}"'] if self._access.logins is not None else []
        return ", ".join([*asked, *(['Bearer realm="schema-registry"'] if self._bearer is not None else [])])

    def principal(self, request: Request) -> str | None:
        """Return who asks, None for somebody who has to log in and has not."""
        if self._access.logins is None and self._bearer is None:
            return self._of_certificate(request)
        given = request.headers.get("Authorization", "")
        kind, _, token = given.strip().partition(" ")
        if kind.lower() == "bearer" and self._bearer is not None:
            user = self._bearer.user(token.strip())
        elif self._access.logins is not None and self._access.admits(given):
            user = base64.b64decode(token.strip()).decode().partition(":")[0]
        else:
            user = None
        return None if user is None else f"User:{user}"

    def _of_certificate(self, request: Request) -> str | None:
        session = None if request.transport is None else request.transport.get_extra_info("ssl_object")
        shown = None if session is None else session.getpeercert(binary_form=True)
        if not shown:
            return ANONYMOUS
        try:
            return f"User:{self._rules.user(certificate_name(shown))}"
        except OttlaError:  # no rule is for this name: it is nobody that may ask
            return None
