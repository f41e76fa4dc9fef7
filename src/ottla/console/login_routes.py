"""How one comes in over HTTP: by the link's key, as a user of a cluster, by an issuer's page, by a certificate."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any
from urllib.parse import urlencode

from ottla import __version__
from ottla.background import awaited, supervise
from ottla.base import OttlaError
from ottla.console.clusters import ClusterSettings
from ottla.console.entry import SESSION_SECONDS_MAX, Entry, Session
from ottla.console.issuer import PENDING_SECONDS, Issuer
from ottla.console.logins import (
    CERTIFICATE,
    PASSWORD_MECHANISMS,
    USER_CHARACTERS_MAX,
    WRONG_LOGIN,
    Login,
    end_token,
    log_in,
    log_in_by_access_token,
    log_in_by_certificate,
    own_principal,
)
from ottla.console.places import Place
from ottla.console.records.requests import object_of
from ottla.console.settings import ConsoleSettings
from ottla.http import HttpError, Reply, Request, RequestKey, Who, json_reply
from ottla.security import certificate_name
from ottla.service import Endpoint

__all__ = ["SESSION", "Handle", "LoginRoutes"]

log = logging.getLogger(__name__)

Handle = Callable[[Request], Awaitable[Reply]]
COOKIE = "ottla_console"
SESSION = RequestKey("session", Session)
"""Under this name a request has its session, once it is admitted."""
LIFETIME_MS = int(SESSION_SECONDS_MAX * 1000)
ISSUER_PATH = "/api/login/issuer"
BACK_PATH = f"{ISSUER_PATH}/back"
FAILURES_MAX = 100


class LoginRoutes:
    """Opens sessions and ends them; `places` are the clusters as the console itself has them, by name."""

    def __init__(self, settings: ConsoleSettings, entry: Entry, places: Mapping[str, Place]) -> None:
        self._settings, self._entry, self._places = settings, entry, places
        self._issuer = None if settings.issuer is None else Issuer(settings.issuer)
        self._failures: OrderedDict[str, str] = OrderedDict()
        """Why somebody did not come in by the issuer's page, until the page that is opened then has asked."""
        self._principals: dict[str, str] = {}
        """As whom the clusters know the console itself, once it has asked."""
        self._running: set[asyncio.Task[Any]] = set()
        """Logins that are being made, and those that are left since nobody waits for them."""
        self.tokens_left = 0
        """Delegation tokens that could not be ended with their sessions."""

    def endpoints(self) -> list[Endpoint[Handle]]:
        """Return the addresses."""
        found: list[Endpoint[Handle]] = [
            Endpoint("GET", "/api/door", "How one comes in", self._door, Who.ANYONE),
            Endpoint("POST", "/api/login", "Begin a session", self._login, Who.ANYONE, body="Login"),
            Endpoint("POST", "/api/logout", "End the session", self._logout, Who.SESSION),
            Endpoint("GET", "/api/session", "What a page is told of its session", self._session, Who.SESSION),
        ]
        if self._issuer is not None:
            found += [
                Endpoint("GET", ISSUER_PATH, "Go to the issuer's page", self._leave, Who.ANYONE, statuses=(303,)),
                Endpoint("GET", BACK_PATH, "Come back from it", self._back, Who.ANYONE, statuses=(303,)),
            ]
        return found

    def admit(self, request: Request) -> None:
        """Keep a request's session in it, and count the call; raises HttpError. The server's guard asks this."""
        request[SESSION] = self.admitted(request)

    def admitted(self, request: Request) -> Session:
        """Return a request's session, and count the call; raises HttpError."""
        return self._entry.session(request.cookies.get(self._cookie(request)))

    def known(self, request: Request) -> Session | None:
        """Return a request's session, without counting a call."""
        return self._entry.known(request.cookies.get(self._cookie(request)) or "")

    def offered(self) -> list[str]:
        """Return the clusters that the console shows; where users log in, those that take logins."""
        return [each.name for each in self._settings.clusters if each.takes_logins or not self._settings.mechanisms]

    def _cookie(self, request: Request, of: str = COOKIE) -> str:
        """Cookies are kept by host alone, so that consoles on two ports would take each other's."""
        port = (request.headers.get("Host") or "").rpartition(":")[2]
        name = f"{of}_{port}" if port.isdigit() else of
        return name if self._settings.tls is None else f"__Host-{name}"

    def _set_cookie(self, name: str, value: str, how: str) -> str:
        return f"{name}={value}; HttpOnly; {how}; Path=/" + ("" if self._settings.tls is None else "; Secure")

    async def _door(self, request: Request) -> Reply:
        """Say how one comes in: by a link, or as a user of a cluster; and why somebody has just not."""
        said: dict[str, object] = {"mechanisms": list(self._settings.mechanisms)}
        if self._settings.mechanisms:
            said["clusters"] = self.offered()
        if self._settings.issuer is not None:
            said["issuer"] = self._settings.issuer.url
        if failed := self._failures.pop(request.query.get("failed", ""), None):
            said["failed"] = failed
        return json_reply(said)

    async def _login(self, request: Request) -> Reply:
        self._entry.check_origin(request.headers)
        self._entry.check_json(request.headers)
        try:
            body = object_of(await request.json())
        except ValueError:
            raise HttpError(400, "The body is not JSON") from None
        before = request.cookies.get(self._cookie(request)) or ""
        if not self._settings.mechanisms:
            opened = self._entry.open(body.get("key"), request.remote or "")
            self._entry.end(before)
            return self._begun(request, *opened)
        settings = self._cluster(body.get("cluster"))
        mechanism = body.get("mechanism")
        if mechanism == CERTIFICATE and CERTIFICATE in self._settings.mechanisms:
            login = await self._by_certificate(settings, request)
        else:
            login = await self._by_password(settings, body, request.remote or "")
        return self._begun(request, *self._entered(settings, login, before))

    def _cluster(self, name: object) -> ClusterSettings:
        found = {each.name: each for each in self._settings.clusters if each.name in self.offered()}
        if not isinstance(name or "", str) or (name and name not in found):
            raise HttpError(404, f"One can log in to {', '.join(found)}")
        return found[str(name)] if name else next(iter(found.values()))

    async def _by_password(self, settings: ClusterSettings, body: Mapping[str, Any], address: str) -> Login:
        mechanism, user, password = body.get("mechanism"), body.get("user"), body.get("password")
        forms = [each for each in self._settings.mechanisms if each in PASSWORD_MECHANISMS]
        if mechanism not in forms:
            raise HttpError(400, f"mechanism is one of {', '.join(forms) or 'those that the door names'}")
        if not isinstance(user, str) or not isinstance(password, str):
            raise HttpError(400, "user and password are texts")
        if not all(map(_is_whole, (user, password))):
            raise HttpError(400, "user and password are texts, and half a character is none")
        if not user or not password or len(user) > USER_CHARACTERS_MAX:
            raise HttpError(400, "A user and a password are needed")
        tries = f"address {address}", f"user {user} of {settings.name}"
        self._entry.attempt(*tries)
        try:
            renewers = await self._renewers(settings)
            login = await self._waited(
                settings,
                log_in(
                    settings,
                    mechanism=mechanism,
                    user=user,
                    password=password,
                    lifetime_ms=LIFETIME_MS,
                    renewers=renewers,
                ),
            )
        except HttpError as error:
            if error.error_code != WRONG_LOGIN:
                self._entry.taken_back(*tries)  # the cluster did not say that it was wrong
            log.info("a login as %r at %s from %s was refused: %s", user, settings.name, address, error.message)
            raise
        self._entry.succeeded(*tries)
        self._tell(settings, login, address)
        return login

    async def _by_certificate(self, settings: ClusterSettings, request: Request) -> Login:
        session = None if request.transport is None else request.transport.get_extra_info("ssl_object")
        shown = None if session is None else session.getpeercert(binary_form=True)
        if not shown:
            raise HttpError(
                401, "The browser has shown no certificate: import one that this console's authority signed"
            )
        try:
            user = self._settings.certificate_rules.user(certificate_name(shown))
        except OttlaError as error:
            raise HttpError(401, f"The certificate stands for nobody: {error}") from None
        console = self._places[settings.name].cluster
        renewers = await self._renewers(settings)
        login = await self._waited(settings, log_in_by_certificate(settings, console, user, LIFETIME_MS, renewers))
        self._tell(settings, login, request.remote or "")
        return login

    async def _waited(self, settings: ClusterSettings, logging_in: Coroutine[Any, Any, Login]) -> Login:
        """Return a login; raises what it raises. Where nobody waits for it any more, it is left as soon as it is there."""
        made = awaited(logging_in)
        self._keep(made)
        try:
            return await asyncio.shield(made)
        except asyncio.CancelledError:
            self._keep(supervise(self._left_unseen(settings, made), serves="a login that nobody waits for any more"))
            raise

    async def _left_unseen(self, settings: ClusterSettings, made: asyncio.Task[Login]) -> None:
        try:
            login = await made
        except HttpError as error:
            log.debug("a login that nobody waited for was refused: %s", error)
        else:
            await self.leave(self._places[settings.name].as_user(login))

    def _keep(self, task: asyncio.Task[Any]) -> None:
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def close(self) -> None:
        """Return when no login is on its way any more: what comes of one that nobody waits for is left."""
        while self._running:
            await asyncio.wait(set(self._running))

    def _tell(self, settings: ClusterSettings, login: Login, address: str) -> None:
        log.info("%r has logged in at %s from %s (kept: %s)", login.user, settings.name, address, login.kept)

    async def _renewers(self, settings: ClusterSettings) -> list[str]:
        """Return who may end the tokens of a cluster beside their owners: the console's own user, where it has tokens."""
        if settings.name not in self._principals:
            try:
                self._principals[settings.name] = await own_principal(self._places[settings.name].cluster)
            except OttlaError as error:
                log.debug("tokens of %s cannot be ended by the console's own user: %s", settings.name, error)
                return []
        return [self._principals[settings.name]]

    def _entered(self, settings: ClusterSettings, login: Login, cookie: str) -> tuple[str, Session]:
        """Begin a session with a login: who somebody is never changes within one.

        What the session of the cookie has logged in to at other clusters goes on in the new one, for no longer than there.
        That session is over, with its sockets, streams and the login that this one replaces.
        """
        before = self._entry.known(cookie)
        fresh, session = self._entry.begin()
        if before is not None:
            carried = [name for name in before.places if name != settings.name]
            session.places.update((name, before.places.pop(name)) for name in carried)
            session.until_s = min(session.until_s, before.until_s) if carried else session.until_s
            self._entry.end(cookie)
        session.places[settings.name] = self._places[settings.name].as_user(login)
        return fresh, session

    async def leave(self, place: Place) -> None:
        """End a login: its replays, its token at the cluster, and its connections."""
        assert place.login is not None
        try:
            if place.replays is not None:
                await place.replays.leave(place)
            if place.login.token is not None:
                console = self._places[place.cluster.name].cluster
                await end_token(console, place.login.token)
        except (OttlaError, TimeoutError) as error:
            self.tokens_left += 1
            log.warning(
                "the delegation token of %r at %s was not ended, and lasts until its own end (%d so far): %r",
                *(place.who, place.cluster.name, self.tokens_left, error),
            )
        finally:
            await place.cluster.close()

    async def _leave(self, request: Request) -> Reply:
        """Send a browser to the issuer's page."""
        assert self._issuer is not None
        if request.headers.get("Sec-Fetch-Site", "none").lower() not in ("none", "same-origin"):
            raise HttpError(403, "A login is begun on a page of this console")
        host = request.headers.get("Host")
        if not host:
            raise HttpError(400, "The request names no host (Host), to which the issuer would send back")
        to = request.query.get("to", "/")
        try:
            settings = self._cluster(request.query.get("cluster"))
            scheme = "http" if self._settings.tls is None else "https"
            where, browser = await self._issuer.begin(
                settings.name,
                redirect=f"{scheme}://{host}{BACK_PATH}",
                to=to if to == "/" or to.startswith("/c/") else "/",
                session=request.cookies.get(self._cookie(request)) or "",
            )
        except HttpError as error:
            return self._failed(error)
        name = self._cookie(request, f"{COOKIE}_issuer")
        cookie = self._set_cookie(name, browser, f"SameSite=Lax; Max-Age={PENDING_SECONDS:.0f}")
        return _sent_to(where, cookie)

    async def _back(self, request: Request) -> Reply:
        """Let in who comes back from the issuer's page."""
        assert self._issuer is not None
        browser = request.cookies.get(self._cookie(request, f"{COOKIE}_issuer")) or ""
        try:
            answered = await self._issuer.finish(request.query, browser)
            settings = self._cluster(answered.cluster)
            renewers = await self._renewers(settings)
            login = await self._waited(
                settings, log_in_by_access_token(settings, answered.token, LIFETIME_MS, renewers)
            )
        except HttpError as error:
            log.info("a login by %s from %s was refused: %s", self._issuer.settings.url, request.remote, error.message)
            return self._failed(error)
        self._tell(settings, login, request.remote or "")
        cookie, _ = self._entered(settings, login, answered.session)
        return _sent_to(answered.to, self._set_cookie(self._cookie(request), cookie, "SameSite=Strict"))

    def _failed(self, error: HttpError) -> Reply:
        """Send a browser to the door, where it is said what went wrong."""
        name = secrets.token_urlsafe(16)
        self._failures[name] = error.message
        while len(self._failures) > FAILURES_MAX:
            self._failures.popitem(last=False)
        return _sent_to(f"/?{urlencode({'failed': name})}")

    def _begun(self, request: Request, cookie: str, session: Session) -> Reply:
        return Reply(
            json_reply(self.told(session)).body,
            "application/json",
            headers={"Set-Cookie": self._set_cookie(self._cookie(request), cookie, "SameSite=Strict")},
        )

    async def _logout(self, request: Request) -> Reply:
        self._entry.check_change(request[SESSION], request.headers)
        name = self._cookie(request)
        self._entry.end(request.cookies.get(name))
        gone = {"Set-Cookie": self._set_cookie(name, "", "SameSite=Strict; Max-Age=0")}
        return Reply(b"{}", "application/json", headers=gone)

    async def _session(self, request: Request) -> Reply:
        return json_reply(self.told(request[SESSION]))

    def told(self, session: Session) -> dict[str, object]:
        """Return what a page is told of its session."""
        now_s = time.monotonic()
        there = {name: place for name, place in session.places.items() if place.login.until_s > now_s}
        return {
            "token": session.token,
            "version": __version__,
            "read_only": self._settings.read_only,
            "anonymous": self._settings.allow_anonymous,
            "clusters": self.offered(),
            "users": {name: {"user": place.who, "kept": place.login.kept} for name, place in there.items()},
            "mechanisms": list(self._settings.mechanisms),
        }


def _sent_to(where: str, cookie: str | None = None) -> Reply:
    headers = {"Location": where} | ({} if cookie is None else {"Set-Cookie": cookie})
    return Reply(b"", "text/plain; charset=utf-8", status=303, headers=headers)


def _is_whole(text: str) -> bool:
    """Return whether a text has bytes: JSON may hold half a character, which has none."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
