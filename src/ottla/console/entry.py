"""Who comes in: a key or a login, sessions by cookie, and what a request has to show. Pure but for random bytes.

The key in the console's link keeps other users of the machine out. It opens one session; then there is a new one. A request
that changes something has to be JSON, to come from a page of this console (`Origin`), and to carry the session's token; any
request has to name a host that this console answers to, so that a foreign name that leads here is refused (DNS rebinding).
"""

from __future__ import annotations

import hmac
import secrets
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ottla.http import HttpError, is_of_another_page

__all__ = ["SECURITY_HEADERS", "SESSION_SECONDS_MAX", "Entry", "Session", "is_same"]

IDLE_SECONDS = 3600.0
SESSION_SECONDS_MAX = 12 * 3600.0
SESSIONS_MAX = 1000
CALLS_PER_SECOND = 20.0
CALLS_AT_ONCE = 60.0
WRONG_BEFORE_WAITING = 5
WAIT_SECONDS_MAX = 300.0
FORGOTTEN_SECONDS = 900.0
"""After so long without a try the wrong ones before are forgotten."""
ADDRESSES_MAX = 10_000
TOKEN_HEADER = "X-Ottla-Token"
SECURITY_HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
        "frame-ancestors 'none'; base-uri 'none'; form-action 'self'; require-trusted-types-for 'script'; "
        "trusted-types 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


@dataclass(slots=True, eq=False)
class Session:
    """One login: until when it holds, the token that its changes carry, and how many calls it has left."""

    token: str
    until_s: float
    idle_until_s: float
    calls: float = CALLS_AT_ONCE
    counted_s: float = 0.0
    places: dict[str, Any] = field(default_factory=dict)
    """What it has logged in to, by cluster; who begins a session gives and takes it."""
    sockets: set[Any] = field(default_factory=set)
    """What is open of it, and ends with it."""
    is_over: bool = False


@dataclass(slots=True)
class _Wrong:
    times: int = 0
    wait_until_s: float = 0.0
    last_s: float = 0.0


@dataclass(slots=True)
class Entry:
    """The door: `now_s` is a clock that only goes forward."""

    now_s: Callable[[], float]
    new_key: Callable[[str], None] = lambda key: None
    """Told of the next key when one was used."""
    ended: Callable[[Session], None] = lambda session: None
    """Told of each session that is over."""
    key: str = field(default_factory=lambda: secrets.token_urlsafe(32))
    _sessions: OrderedDict[str, Session] = field(default_factory=OrderedDict)
    _wrong: OrderedDict[str, _Wrong] = field(default_factory=OrderedDict)

    def open(self, key: object, address: str) -> tuple[str, Session]:
        """Begin a session with the key; returns its cookie. Raises HttpError, and has whoever guesses wait."""
        place = f"address {address}"
        self.attempt(place)
        if not isinstance(key, str) or not is_same(key, self.key):
            raise HttpError(401, "The key is not valid (any more): take the newest link that the console has printed")
        self.succeeded(place)
        self.key = secrets.token_urlsafe(32)
        self.new_key(self.key)
        return self.begin()

    def attempt(self, *places: str) -> None:
        """Count a try from an address or for a name before its outcome is known, so that many at once gain nothing.

        Raises HttpError (429) where one of them has to wait: after five wrong ones, longer with each.
        """
        now = self.now_s()
        for place in places:
            wrong = self._wrong.get(place)
            if wrong is not None and now - wrong.last_s >= FORGOTTEN_SECONDS:
                del self._wrong[place]
            elif wrong is not None and now < wrong.wait_until_s:
                raise HttpError(429, f"Wait {wrong.wait_until_s - now:.0f} s: {wrong.times} tries were wrong")
        for place in places:
            wrong = self._wrong.setdefault(place, _Wrong())
            wrong.times += 1
            wrong.last_s = now
            if wrong.times >= WRONG_BEFORE_WAITING:
                wrong.wait_until_s = now + min(WAIT_SECONDS_MAX, 2.0 ** (wrong.times - WRONG_BEFORE_WAITING))
            self._wrong.move_to_end(place)
        while len(self._wrong) > ADDRESSES_MAX:
            self._wrong.popitem(last=False)

    def succeeded(self, *places: str) -> None:
        """Forget the tries of who has come in."""
        for place in places:
            self._wrong.pop(place, None)

    def taken_back(self, *places: str) -> None:
        """Count a try no more that was neither right nor wrong; those before it stay, so that it helps nobody to guess."""
        for place in places:
            wrong = self._wrong.get(place)
            if wrong is not None:
                wrong.times -= 1
                wrong.wait_until_s = 0.0  # it had passed when this try began
            if wrong is not None and not wrong.times:
                del self._wrong[place]

    def begin(self) -> tuple[str, Session]:
        """Begin a session; returns its cookie."""
        now = self.now_s()
        self.sweep()
        cookie = secrets.token_urlsafe(32)
        session = Session(secrets.token_urlsafe(32), now + SESSION_SECONDS_MAX, now + IDLE_SECONDS, counted_s=now)
        self._sessions[cookie] = session
        while len(self._sessions) > SESSIONS_MAX:
            self._over(self._sessions.popitem(last=False)[1])
        return cookie, session

    def _over(self, session: Session) -> None:
        session.is_over = True
        self.ended(session)

    def sweep(self) -> None:
        """End the sessions whose time is over."""
        now = self.now_s()
        for cookie in [each for each, found in self._sessions.items() if now >= min(found.until_s, found.idle_until_s)]:
            self.end(cookie)

    def known(self, cookie: str) -> Session | None:
        """Return the open session of a cookie, without counting a call; None where there is none."""
        found = self._sessions.get(cookie)
        return found if found is not None and self.holds(found) else None

    def end_all(self) -> None:
        """End every session."""
        for cookie in list(self._sessions):
            self.end(cookie)

    def holds(self, session: Session) -> bool:
        """Return whether a session is still open; asking does not prolong it."""
        now = self.now_s()
        return not session.is_over and now < min(session.until_s, session.idle_until_s)

    def session(self, cookie: str | None) -> Session:
        """Return the session of a cookie, and count a call; raises HttpError where there is none, or too many calls."""
        now = self.now_s()
        found = self._sessions.get(cookie or "")
        if found is None or now >= found.until_s or now >= found.idle_until_s:
            self.end(cookie)
            raise HttpError(401, "Log in: open the link that the console has printed, or as a user of the cluster")
        found.calls = min(CALLS_AT_ONCE, found.calls + (now - found.counted_s) * CALLS_PER_SECOND)
        found.counted_s = now
        if found.calls < 1:
            raise HttpError(429, f"More than {CALLS_PER_SECOND:g} calls a second")
        found.calls -= 1
        found.idle_until_s = now + IDLE_SECONDS
        return found

    def check_change(self, session: Session, headers: Mapping[str, str]) -> None:
        """Raise HttpError for a change that does not come from a page of this console."""
        self.check_origin(headers)
        self.check_json(headers)
        if not is_same(headers.get(TOKEN_HEADER, ""), session.token):
            raise HttpError(
                403,
                f"A change carries the session's token in {TOKEN_HEADER} (GET /api/session tells it); a page that was "
                "opened before somebody logged in has to be loaded again",
            )

    def check_json(self, headers: Mapping[str, str]) -> None:
        """Raise HttpError for a body that is no JSON: forms of other sites' pages can send none."""
        if headers.get("Content-Type", "").split(";")[0].strip().lower() != "application/json":
            raise HttpError(415, "A change is JSON: Content-Type: application/json")

    def check_origin(self, headers: Mapping[str, str]) -> None:
        """Raise HttpError for a request from another site's page; who is no browser sends no Origin."""
        if is_of_another_page(headers):
            raise HttpError(403, f"A request from a page of {headers['Origin']} is refused")

    def end(self, cookie: str | None) -> None:
        """End a session."""
        found = self._sessions.pop(cookie or "", None)
        if found is not None:
            self._over(found)


def is_same(given: str, own: str) -> bool:
    """Return whether a text of anybody's is ours, in a time that says nothing of it; half a character is a text, too."""
    return hmac.compare_digest(given.encode(errors="surrogatepass"), own.encode())
