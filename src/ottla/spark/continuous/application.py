"""What a `StreamsApplication` of its own has in continuous mode: a service with its hosts, for it alone."""

from __future__ import annotations

from ottla.client import BlockingClient, init_producer_id
from ottla.spark.continuous.jobs import HostJobs
from ottla.spark.continuous.lane import transactional_id
from ottla.spark.continuous.plan import ApplicationPlan
from ottla.spark.continuous.service import HostService
from ottla.spark.streams.restarts import Restarts
from ottla.streams import StreamsSettings

__all__ = ["continuous_service", "fence_earlier_life"]

ATTEMPTS_MAX = 1_000_000
"""A host is started again for as long as its service lives: what an application does wrong takes that off, not the host."""


def fence_earlier_life(client: BlockingClient, service: str, hosts: int, plan: ApplicationPlan) -> None:
    """Make sure that no host of a service's earlier life commits any more; raises KafkaError."""
    if plan.exactly_once:
        for number in range(hosts):
            name = transactional_id(service, number, plan.lane)
            client.run(init_producer_id(client.client, name, timeout_ms=plan.transaction_timeout_ms))


def continuous_service(settings: StreamsSettings, hosts: int, jobs: HostJobs) -> HostService:
    """Return a service that is named after the application, and has begun."""
    backoff_s, most_s = settings["restart.backoff.ms"] / 1000, settings["restart.backoff.max.ms"] / 1000
    service = HostService(
        settings.application_id,
        jobs,
        hosts=hosts,
        settings=settings.spark,
        restarts=lambda: Restarts(ATTEMPTS_MAX, backoff_s, most_s),
    )
    service.start(settings["spark.master"])
    return service
