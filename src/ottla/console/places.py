"""A cluster as one session has it: its figures, narrowed to what its user may see, and a client that acts as that user."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ottla.admin import Worker
from ottla.admin.actions import Reach
from ottla.client import BlockingClient
from ottla.console.alerts.keeper import AlertKeeper
from ottla.console.audit_topic import AuditTopic
from ottla.console.clusters import Cluster
from ottla.console.figures.costs import Prices
from ottla.console.figures.sampler import Sampler
from ottla.console.figures.samples import Sample
from ottla.console.figures.views import KeptSummary, Seen
from ottla.console.logins import Login
from ottla.console.records.file_decoders import FileDecoder, Values, values_of
from ottla.console.records.fixes import Fix
from ottla.console.records.masks import Mask, Masks
from ottla.console.records.replay_jobs import PlaceReplays, ReplayJobs
from ottla.console.records.scan_processes import ScanProcesses
from ottla.console.rights import KeptRights, Rights

if TYPE_CHECKING:
    from ottla.console.records.registry_values import RegistryValues

__all__ = ["CONSOLE", "Place"]

CONSOLE = "console"
"""Who changes something where nobody logs in."""


@dataclass(frozen=True, slots=True)
class Place:
    """One cluster with what looks at it."""

    cluster: Cluster
    sampler: Sampler
    rights: KeptRights
    registry: RegistryValues | None = None
    workers: Mapping[str, Worker] = field(default_factory=dict)
    """Connect's clusters of workers, by name."""
    schemas: Worker | None = None
    """The schema registry's own interface."""
    sql: Worker | None = None
    """A SQL server."""
    streams: Mapping[str, Worker] = field(default_factory=dict)
    """Services and applications of Streams, by name."""
    masks: tuple[Mask, ...] = ()
    """What of records is hidden."""
    secret: bytes = field(default=b"", repr=False)
    """What hashes of hidden values are made with."""
    registry_properties: Mapping[str, str] | None = None
    decoders: tuple[FileDecoder, ...] = ()
    audit_topic: AuditTopic | None = None
    searches: ScanProcesses | None = None
    alerts: AlertKeeper | None = None
    replays: ReplayJobs | None = None
    prices: Prices = field(default_factory=Prices)
    """What bytes cost."""
    login: Login | None = None
    """Who has logged in; None where the console itself asks, which may see all that its sampler sees."""
    own_summary: KeptSummary = field(default_factory=KeptSummary)
    """The first page's figures as who has logged in may see them."""

    @property
    def who(self) -> str:
        """Who stands for changes."""
        return CONSOLE if self.login is None else self.login.user

    @property
    def summary(self) -> KeptSummary:
        """What keeps the first page's figures, which the sampler has made ahead for whoever sees all."""
        return self.sampler.summary if self.login is None else self.own_summary

    def as_user(self, login: Login) -> Place:
        """Return the same cluster for a user."""
        return replace(
            self,
            cluster=login.cluster,
            rights=KeptRights(login.cluster.client),
            login=login,
            own_summary=KeptSummary(),
        )

    def reach(self, client: BlockingClient) -> Reach:
        """Return what actions reach from here."""
        alerts = self.alerts if self.alerts is not None and self.alerts.topic else None
        replays = None if self.replays is None else PlaceReplays(self.replays, self)
        return Reach(client, self.workers, self.schemas, self.sql, self.streams, alerts, replays, Fix)

    def hidden(self, topic: str) -> Masks | None:
        """Return what of a topic's records is hidden from who asks."""
        return Masks.of(self.masks, topic, self.who, self.secret)

    @property
    def is_masked(self) -> bool:
        """True where there is a rule that hides something of some topic from who asks."""
        return any(self.who not in each.excepted for each in self.masks)

    def values(self, topic: str) -> Values | None:
        """Return what reads a topic's keys and values by their schemas; None where nothing does."""
        return values_of(self.decoders, self.registry, topic)

    async def allowed(self) -> Rights:
        """Return what may be seen and done here; raises OttlaError."""
        return await self.rights.now()

    async def seen(self) -> Seen:
        """Return what is known of the cluster and may be seen; raises OttlaError."""
        return await self._narrowed(await self.sampler.seen())

    async def seen_with(self, holds: Callable[[Sample], bool]) -> Seen:
        """Return what is known, after one more look where something of it is missing; raises OttlaError."""
        return await self._narrowed(await self.sampler.seen_with(holds))

    async def _narrowed(self, seen: Seen) -> Seen:
        return seen if self.login is None else await self.rights.narrowed(seen)
