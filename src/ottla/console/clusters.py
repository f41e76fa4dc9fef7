"""A cluster as the console reaches it, for itself or as a user: a client on the loop, and a thread to administer it from."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Concatenate, ParamSpec, TypeVar

from ottla.client import BlockingClient, Client, ClientSecurity, Limits, SecuredNetwork, client_network
from ottla.security import ScramMechanism
from ottla.security.sasl import ClientExchange, PlainClient, SaltedSecret, ScramClient

__all__ = ["Cluster", "ClusterSettings", "Credentials"]

P = ParamSpec("P")
T = TypeVar("T")

CLIENT_ID = "ottla-console"
NONCE_BYTES = 18
LIMITS = Limits(connect_s=5.0, request_s=10.0, call_s=15.0, unreachable_s=3.0, unknown_topic_s=2.0)
"""A person waits: what is away is said after seconds."""


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """A cluster by the name under which the console shows it: its brokers, and a client's properties."""

    name: str
    bootstrap: str
    properties: Mapping[str, str]

    @property
    def takes_logins(self) -> bool:
        """True where its users log in by SASL."""
        return (self.properties.get("security.protocol") or "").strip().upper().startswith("SASL_")


@dataclass(frozen=True, slots=True)
class Credentials:
    """What logs in as somebody: a delegation token, a salted secret, or a password, each as such in no text of it."""

    mechanism: str
    user: str
    secret: str | SaltedSecret = field(repr=False)
    by_token: bool = False

    async def begin(self) -> ClientExchange:
        """Begin a login; raises AuthenticationError for what cannot be one."""
        if self.mechanism == "PLAIN":
            assert isinstance(self.secret, str)
            return PlainClient(self.user, self.secret)
        scram = ScramMechanism.of_name(self.mechanism)
        assert scram is not None
        nonce = secrets.token_urlsafe(NONCE_BYTES)
        return ScramClient(scram, user=self.user, password=self.secret, nonce=nonce, by_token=self.by_token)


class Cluster:
    """The doors to one cluster, as one user: a client for the running loop, and the same for functions of `ottla.admin`."""

    def __init__(
        self,
        settings: ClusterSettings,
        credentials: Credentials | None = None,
        begin: Callable[[], Awaitable[ClientExchange]] | None = None,
    ) -> None:
        """Open doors as the settings say, or as somebody else who logs in: by credentials, or as `begin` begins it."""
        self.name = settings.name
        self.settings = settings
        self.credentials = credentials
        begin = credentials.begin if begin is None and credentials is not None else begin
        if begin is None:
            self._network = client_network(settings.properties)
        else:
            own = ClientSecurity.of(settings.properties)
            self._network = SecuredNetwork(ClientSecurity(own.protocol, tls=own.tls, begin=begin))
        self.client = self.reader()
        """Figures, and whole batches of records."""
        self._thread = ThreadPoolExecutor(1, f"admin-{settings.name}")

    def reader(self) -> Client:
        """Return a client of its own for a search: closing it ends the search's reading at once."""
        return Client(self.settings.bootstrap, client_id=CLIENT_ID, limits=LIMITS, network=self._network)

    async def admin(
        self, function: Callable[Concatenate[BlockingClient, P], T], *arguments: P.args, **named: P.kwargs
    ) -> T:
        """Call a function of `ottla.admin`, one at a time, without holding the loop up; raises what it raises."""
        loop = asyncio.get_running_loop()
        blocking = BlockingClient.over(self.client, loop)
        return await loop.run_in_executor(self._thread, lambda: function(blocking, *arguments, **named))

    async def close(self) -> None:
        """Close the doors; what is asked for meanwhile fails."""
        await self.client.close()
        self._thread.shutdown(wait=False, cancel_futures=True)
