"""`Instance`: a registry with its interface on its addresses, started and stopped as one."""

from __future__ import annotations

from ottla.http import HttpServer
from ottla.registry.examining import Examiner
from ottla.registry.identities import Identity
from ottla.registry.logins import Logins
from ottla.registry.rest.forwarding import Forwarding
from ottla.registry.rest.serving import registry_admission, registry_dialect, registry_routes
from ottla.registry.rest.watching import Watching
from ottla.registry.service import Registry
from ottla.registry.settings import Address, RegistrySettings, own_host
from ottla.service import Limits, guard_of, server_of

__all__ = ["Instance"]

REQUEST_SECONDS_MAX = 90.0


class Instance:
    """One instance of the registry; `addresses` is where it answers."""

    def __init__(self, settings: RegistrySettings, examiner: Examiner | None = None) -> None:
        self.settings = settings
        self.registry = Registry(settings, examiner)
        self.addresses: list[Address] = []
        self._forwarding = Forwarding(self.registry)
        self._logins = Logins(settings.access)
        self._server: HttpServer | None = None

    async def start(self) -> None:
        """Read the schemas, answer requests, and take part in the choice of the primary.

        Raises ConfigError, KafkaError, RegistryError, and OSError where an address is taken.
        """
        settings = self.settings
        try:
            await self._logins.start()
            await self.registry.start()
            watching, dialect = (
                Watching(self.registry),
                registry_dialect(Limits(settings.body_bytes_max, REQUEST_SECONDS_MAX)),
            )
            self._server = server_of(
                registry_routes(self.registry, self._forwarding, watching, dialect),
                guard_of(
                    registry_admission(self._logins, watching),
                    listeners=[each.host for each in settings.listeners],
                    advertised=[settings.host_name],
                    hosts=settings.hosts,
                    origins=settings.cors.origins,
                    is_protected=settings.is_protected,
                ),
                dialect,
                headers=settings.cors.headers if settings.cors.origins else None,
                admits=settings.access.told,
            )
            for each in self.settings.listeners:
                tls = self.settings.tls if each.scheme == "https" else None
                port = await self._server.listen(each.host, each.port, tls)
                self.addresses.append(Address(each.host, port, each.scheme))
            self.registry.lead(self._identity())
        except BaseException:
            await self.stop()
            raise

    def _identity(self) -> Identity:
        scheme = self.settings.inter_instance_scheme
        inner = next(each for each in self.addresses if each.scheme == scheme)
        host = self.settings.host_name or inner.host or own_host()
        return Identity(host, inner.port, self.settings.is_eligible, scheme)

    async def stop(self) -> None:
        """Leave the group, finish what is being answered, and answer no more."""
        await self.registry.leave()
        if self._server is not None:
            await self._server.close()
        self._logins.close()
        await self._forwarding.close()
        await self.registry.close()
