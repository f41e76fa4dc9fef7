"""`MirrorMaker`: a Connect worker for each flow of an `mm2.properties`, in one process and on one Spark session."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from ottla.background import end, keep_running
from ottla.base import OttlaError, why_unreached
from ottla.connect import ConnectError, WorkerConfig, WorkerMode
from ottla.mirror import Flow, flows_of, has_internal_rest
from ottla.spark.connect.jobs import Jobs
from ottla.spark.connect.mirror_rest import MirrorRest
from ottla.spark.connect.worker import ConnectWorker, distributed_herder

__all__ = ["MirrorMaker"]

log = logging.getLogger(__name__)
PUT_SECONDS, PUT_SECONDS_MAX = 0.25, 10.0
"""Between two tries to have a flow's connectors stored."""


class MirrorMaker:
    """One node; several with the same properties share each flow's work. Runs on the event loop until `close`."""

    def __init__(
        self, given: Mapping[str, str], targets: Sequence[str] = (), *, jobs: Callable[[], Jobs] | None = None
    ) -> None:
        """`targets` chooses flows to these clusters alone; raises ConfigError for what cannot be honoured.

        `jobs` makes where a flow's tasks run; None: as jobs of the process's one Spark session.
        """
        self.flows = flows_of(given, targets)
        configs = [WorkerConfig.load(flow.worker, WorkerMode.DISTRIBUTED) for flow in self.flows]
        self._rest = MirrorRest(configs[0], is_internal=has_internal_rest(given))
        self._configs, self._jobs = configs, jobs
        self.workers: list[ConnectWorker] = []
        self._putting: list[asyncio.Task[None]] = []

    @property
    def ended(self) -> list[asyncio.Future[None]]:
        """Each fails where its flow's worker cannot go on."""
        return [each.ended for each in self.workers if each.ended is not None]

    @property
    def places(self) -> list[tuple[Flow, str]]:
        """Where each flow's worker is asked, on this machine."""
        return [(flow, self._rest.url(flow)) for flow in self.flows]

    async def start(self) -> None:
        """Start the workers; their connectors follow. Raises ConnectError, in the words of the flow's cluster."""
        try:
            self._rest.prepare()
        except OSError as error:
            raise ConnectError(f"listeners: {why_unreached(error)}") from error
        for flow, config in zip(self.flows, self._configs, strict=True):
            jobs = None if self._jobs is None else self._jobs()
            worker = ConnectWorker(config, distributed_herder, jobs=jobs, place=self._rest.place(flow))
            self.workers.append(worker)
            try:
                await worker.start()
            except ConnectError as error:
                raise ConnectError(f"{flow}: {error}") from error
        await self._rest.listen([(flow, each.herder) for flow, each in zip(self.flows, self.workers, strict=True)])
        for flow, worker in zip(self.flows, self.workers, strict=True):
            self._putting.append(keep_running(partial(self._put, flow, worker), name=f"put {flow}", serves=f"{flow}"))

    async def close(self) -> None:
        """Stop every worker with its connectors."""
        await end(*self._putting)
        await self._rest.close()
        await asyncio.gather(*(each.close() for each in self.workers))

    async def _put(self, flow: Flow, worker: ConnectWorker) -> None:
        """Have the flow's connectors stored as this node's file has them, by whoever leads the group."""
        herder, wait_s = worker.herder, PUT_SECONDS
        left = dict(flow.connectors)
        while left:
            try:
                view = await herder.view(settled=True)
                for name, config in list(left.items()):
                    if dict(view.config.configs.get(name) or {}) != dict(config):
                        await herder.put_connector(name, config, may_replace=True)
                    del left[name]
            except OttlaError as error:  # it joins, another leads and is asked later, or a cluster is away
                log.log(
                    logging.WARNING if wait_s >= PUT_SECONDS_MAX else logging.DEBUG,
                    "the connectors of %s are not stored yet: %s",
                    flow,
                    error,
                )
            if left:
                await asyncio.sleep(wait_s)
                wait_s = min(2 * wait_s, PUT_SECONDS_MAX)
        log.info("%s has its connectors", flow)
