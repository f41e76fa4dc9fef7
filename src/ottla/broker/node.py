"""One broker and controller, joined from its parts; nothing else constructs them.

Start: lock and identify the log directories, load every log (scanning only what was not closed cleanly), replay the
metadata, create what the image gives to this broker, listen, register, unfence. Stop: close the listeners, let answers
leave, resign, write checkpoints, close the logs, and mark the directories as closed cleanly, in that order.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from ottla.background import awaited
from ottla.base import ZERO_UUID, Clock, Offload, Rng, StorageError, Uuid
from ottla.broker.api.api_versions import is_answered
from ottla.broker.auto_creation import AutoCreation
from ottla.broker.configuration import Configuration
from ottla.broker.controller.channel import ControllerChannel
from ottla.broker.controller.directory_assignments import DirectoryAssignments
from ottla.broker.controller.duties import ControllerDuties, Duty
from ottla.broker.controller.election_counts import ElectionCounts
from ottla.broker.controller.lifecycle import BrokerLifecycle, registering_controller
from ottla.broker.controller.peers import Peers
from ottla.broker.coordinators.group_coordinator import GroupCoordinator
from ottla.broker.coordinators.producer_ids import ProducerIds
from ottla.broker.coordinators.transaction_coordinator import TransactionCoordinator
from ottla.broker.coordinators.transaction_markers import Markers
from ottla.broker.metrics import Metrics
from ottla.broker.monitoring.health import Health, Stage
from ottla.broker.monitoring.report import MetricsReport
from ottla.broker.policies import policies_of
from ottla.broker.quorum.driver import Quorum, QuorumNetwork, QuorumSettings
from ottla.broker.quorum.vacancy import Vacancy
from ottla.broker.quotas import Quotas
from ottla.broker.replicas.confirmation import Confirmation
from ottla.broker.replicas.housekeeping import Housekeeping
from ottla.broker.replicas.isr import IsrKeeper
from ottla.broker.replicas.leader_lease import LeaderLease
from ottla.broker.replicas.log_dir_moves import LogDirMoves
from ottla.broker.replicas.partitions import Partitions
from ottla.broker.replicas.purgatory import Purgatory
from ottla.broker.replicas.replication import Replication
from ottla.broker.replicas.storage import Storage
from ottla.broker.replicas.throttles import ReplicationThrottles
from ottla.broker.requests.answer_memory import AnswerMemory
from ottla.broker.requests.authorizer import AclAuthorizer
from ottla.broker.requests.authorizers import authorizer_of
from ottla.broker.requests.connection import Connection
from ottla.broker.requests.connection_limits import ConnectionLimits
from ottla.broker.requests.encryption import HTTPS, Encryption
from ottla.broker.requests.handlers import all_handlers
from ottla.broker.requests.links import Links
from ottla.broker.requests.listeners import BoundListener, Listeners
from ottla.broker.requests.local_requests import local_controller
from ottla.broker.requests.router import Router
from ottla.broker.sasl.logins import Logins
from ottla.broker.sasl.mechanisms import jaas_file
from ottla.broker.sasl.tokens import Tokens
from ottla.broker.services import Services
from ottla.client import Address, parse_bootstrap
from ottla.config import BrokerConfig, HttpListener, Listener
from ottla.log import Disk
from ottla.metadata import EMPTY_IMAGE, Delta, Endpoint, Image, decide
from ottla.net import Network
from ottla.raft import ReplicaKey, Voter, VoterEndpoint, VoterSet
from ottla.replica import NO_BROKER_EPOCH, FetchSessionCache
from ottla.wire import APIS

if TYPE_CHECKING:
    from ottla.broker.monitoring.http_service import HttpService

__all__ = ["Node"]

log = logging.getLogger(__name__)

BROKER = "broker"
"""The role of a node that hosts partitions; one without it is a controller only."""
CONTROLLER = "controller"
"""The role of a node that votes in the quorum, and may lead it."""

WILDCARD_HOSTS = ("", "0.0.0.0", "::")
"""Addresses to listen on that nobody can connect to: clients are told the machine's name instead."""


class Node:
    """A Kafka broker and controller in this process."""

    def __init__(
        self, config: BrokerConfig, disk: Disk, network: Network, clock: Clock, rng: Rng, offload: Offload
    ) -> None:
        self.config = config
        self._disk = disk
        self._network = network
        self._clock = clock
        self._rng = rng
        self._offload = offload
        self._authorizer = authorizer_of(config, clock)
        self._policies = policies_of(config)
        self._services: Services | None = None
        self._undo: list[Callable[[], object]] = []
        """What has to be undone where the start fails."""
        self._http: HttpService | None = None
        self.stage = Stage.STARTING
        self._transactions: TransactionCoordinator | None = None
        self._life: BrokerLifecycle | None = None
        self._duties: ControllerDuties | None = None
        self._registering: asyncio.Task[None] | None = None
        self._has_left = False
        self._report: MetricsReport | None = None
        self.failed: asyncio.Future[None] | None = None
        """Done, with the error, when the node can no longer serve and has to be stopped: its disks have failed."""

    @property
    def listeners(self) -> tuple[Listener, ...]:
        """Where clients are served, with the ports that were chosen."""
        return tuple(each for each in self.all_listeners if each.name not in self.config.controller_listener_names)

    @property
    def all_listeners(self) -> tuple[Listener, ...]:
        """Where anybody is served, other nodes' controllers included."""
        return self._listeners.told

    @property
    def http_listeners(self) -> tuple[HttpListener, ...]:
        """Where metrics and health are served, with the ports that were chosen."""
        return () if self._http is None else tuple(self._http.bound)

    @property
    def quorum(self) -> Quorum:
        """This node's part of the metadata quorum, once it has begun to start."""
        return self._quorum

    async def start(self) -> None:
        """Serve; returns when clients are answered.

        Raises StorageError where the log directories are another's, in use, or damaged beyond recovery, OSError where an
        address is taken, and ConfigError where a listener cannot be as it is configured. What was opened until then is
        closed again.
        """
        self._loop = asyncio.get_running_loop()
        self.failed = self._loop.create_future()
        self.failed.add_done_callback(lambda done: done.exception())  # whoever runs the node may look, and need not
        self._storage = Storage(
            self.config,
            disk=self._disk,
            clock=self._clock,
            rng=self._rng,
            offload=self._offload,
            on_failure=self._disk_failed,
        )
        self._join()
        try:
            if self.config.http_listeners:
                await self._serve_http()
            self.stage = Stage.RECOVERY
            self._storage.open()
            await self._bring_up()
        except BaseException:
            if self._http is not None:
                await self._http.close()
            if self._transactions is not None:
                self._transactions.close()
            self._groups.close()
            await self._listeners.close()
            for undo in self._undo:
                undo()
            self._storage.release()
            raise
        self.housekeeping.start()
        self._isr.start()
        self._groups.start()
        assert self._transactions is not None
        self._transactions.start()
        self.stage = Stage.RUNNING

    async def _bring_up(self) -> None:
        """Start what needs the disk; raises what ends the node meanwhile, where nothing would come any more."""
        assert self.failed is not None
        work = awaited(self._serve(), loop=self._loop)
        try:
            await asyncio.wait((work, self.failed), return_when=asyncio.FIRST_COMPLETED)
            if self.failed.done():
                await self.failed
            await work
        finally:
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)

    async def _serve(self) -> None:
        await self._start_quorum()
        self._make_services()
        self._undo.append(self._logins.close)
        await self._logins.start()
        authorizer, early = self._authorizer, self.config.early_start_listeners
        if not isinstance(authorizer, AclAuthorizer):
            await self._listen(self.config.controller_listener_names)
            await self._quorum.ready()
        else:
            self._quorum.subscribe(authorizer.image_changed)
            await self._listen(early)
            await self._quorum.ready()
            authorizer.loaded(self._quorum.image)
            authorizer.start(self._loop)
            self._undo.append(authorizer.stop)
        await self._listen((each.name for each in self.config.listeners), is_registered=False)
        await self._register()
        await self._listeners.accept()

    def _join(self) -> None:
        """Construct the parts that need nothing from the disk."""
        loop = self._loop
        node_id = self.config.node_id
        configuration = self._configuration = Configuration(self.config)
        self._encryption = Encryption(self.config)
        purgatory = self._purgatory = Purgatory(loop)
        self._throttles = ReplicationThrottles(loop, configuration)
        self._lease = LeaderLease(
            loop,
            lambda: configuration.broker.settings.broker_session_timeout_ms / 1000,
            lambda: self._quorum.informed_s,
            lambda: bool(configuration.broker.settings.ottla_strict_reads),
        )
        self._partitions = Partitions(
            node_id,
            lease=self._lease,
            storage=self._storage,
            configuration=configuration,
            purgatory=purgatory,
            offload=self._offload,
        )
        self.housekeeping = Housekeeping(
            partitions=self._partitions,
            storage=self._storage,
            configuration=configuration,
            clock=self._clock,
            offload=self._offload,
            loop=loop,
        )
        self._groups = GroupCoordinator(
            configuration=configuration,
            partitions=self._partitions,
            purgatory=purgatory,
            clock=self._clock,
            rng=self._rng,
            offload=self._offload,
            loop=loop,
        )
        self._answer_memory = AnswerMemory(loop, self.config.settings.ottla_answer_memory_bytes)
        self._quotas = Quotas(loop, self.config.settings, self._policies.quotas)
        self._limits = ConnectionLimits(
            loop,
            lambda: configuration.broker.settings,
            self._quotas.connection_opened,
            hold_back_ms=self._quotas.connection_held_back,
            unlimited_listener=self.config.inter_broker_listener_name if len(self.config.listeners) > 1 else None,
        )
        self._listeners = Listeners(
            self._network,
            config=lambda: configuration.broker,
            loop=loop,
            offload=self._offload,
            memory=self._answer_memory,
            authentications=self._limits.authentications,
        )
        self._tokens = Tokens(self.config)
        self._logins = self._make_logins()
        self._links = Links(self.config, self._network, jaas=jaas_file(self.config.system_properties))
        self._incarnation_id = Uuid(self._rng.randbytes(16))

    def _make_logins(self) -> Logins:
        """Construct what lets clients in where they log in; raises ConfigError where it cannot be as configured."""
        configuration = self._configuration
        return Logins(
            self.config,
            image=lambda: self._quorum.image,
            tokens=self._tokens,
            settings=lambda: configuration.broker.settings,
            versions_answered=is_answered,
            counts=self._limits.authentications,
            clock=self._clock,
            rng=self._rng,
            offload=self._offload,
            loop=self._loop,
        )

    # -- starting

    async def _start_quorum(self) -> None:
        """Replay the metadata, and lead it where this node is the only voter."""
        config = self.config
        self._quorum = Quorum(
            key=ReplicaKey(config.node_id, self._storage.metadata_directory_id),
            folder=config.metadata_log_dir,
            disk=self._disk,
            settings=QuorumSettings.of(config.settings),
            clock=self._clock,
            rng=self._rng,
            offload=self._offload,
            static_voters=_static_voters(config),
            network=QuorumNetwork(
                network=self._links.to_controllers,
                cluster_id=self._storage.cluster_id,
                endpoints=lambda: tuple(self._controller_endpoints()),
                bootstrap=_bootstrap(config),
                joins=config.settings.controller_quorum_auto_join_enable,
            ),
            on_failure=self._storage.fail_metadata,
        )
        self._undo.append(self._quorum.abandon)
        await self._quorum.start()
        self._controller = ControllerChannel(
            node_id=config.node_id, quorum=self._quorum, network=self._links.to_controllers, loop=self._loop
        )
        self._transactions = self._make_transactions()
        self._replication = self._make_replication()
        self._assignments = DirectoryAssignments(
            config.node_id,
            partitions=self._partitions,
            channel=self._controller,
            image=lambda: self._quorum.image,
            loop=self._loop,
        )
        self._moves = LogDirMoves(
            partitions=self._partitions,
            storage=self._storage,
            assignments=self._assignments,
            throttle=self._throttles.log_dirs,
            clock=self._clock,
            offload=self._offload,
            loop=self._loop,
        )

    def _follow_image(self) -> None:
        """From here on the partitions follow the image, where this node hosts any."""
        assert self._transactions is not None
        if BROKER not in self.config.roles:
            return
        following = self._replication, self._assignments, self._moves, self._groups, self._transactions
        for each in (self._partitions, *following):
            self._quorum.subscribe(each.image_changed)
        self._partitions.reopened = self._follow_again
        self._partitions.lost = self._assignments.look_at
        self._storage.loaded(is_known=lambda topic_id: topic_id in self._quorum.image.topic_names)
        self._partitions.make_later(self._loop)

    def _follow_again(self, topics: tuple[str, ...]) -> None:
        """Have everyone look at topics of which partitions have been opened later than the image gave them."""
        assert self._transactions is not None
        image, delta = self._quorum.image, Delta(topics_changed=topics)
        for each in (self._replication, self._assignments, self._moves, self._groups, self._transactions):
            each.image_changed(EMPTY_IMAGE, image, delta)

    def _make_replication(self) -> Replication:
        quorum = self._quorum
        return Replication(
            self.config.node_id,
            partitions=self._partitions,
            storage=self._storage,
            configuration=self._configuration,
            image=lambda: quorum.image,
            broker_epoch=lambda: -1 if self._life is None else self._life.epoch,
            listener=self.config.inter_broker_listener_name,
            throttle=self._throttles.follower,
            network=self._links.to_brokers,
            clock=self._clock,
            offload=self._offload,
            loop=self._loop,
        )

    def _make_transactions(self) -> TransactionCoordinator:
        """Construct the transaction coordinator, which asks the quorum for producer ids and other brokers for markers."""
        quorum, configuration = self._quorum, self._configuration
        peers = Peers(
            image=lambda: quorum.image, listener=self.config.inter_broker_listener_name, network=self._links.to_brokers
        )
        return TransactionCoordinator(
            node_id=self.config.node_id,
            configuration=configuration,
            quorum=quorum,
            controller=self._controller,
            partitions=self._partitions,
            producer_ids=ProducerIds(),
            markers=Markers(
                partitions=self._partitions, groups=self._groups, purgatory=self._purgatory, clock=self._clock
            ),
            peers=peers,
            purgatory=self._purgatory,
            clock=self._clock,
            offload=self._offload,
            loop=self._loop,
        )

    async def _serve_http(self) -> None:
        """Serve health from now on, and metrics as soon as there are some."""
        from ottla.broker.monitoring.http_service import HttpService  # it imports aiohttp

        health = Health(
            self.config.node_id,
            stage=lambda: self.stage,
            storage=lambda: self._storage,
            services=lambda: self._services,
        )
        self._http = HttpService(health, lambda: self._report, self.config)
        pages = self._encryption.of(HTTPS)
        for listener in self.config.http_listeners:
            await self._http.listen(listener, None if pages is None else lambda: pages.context)

    def _make_services(self) -> None:
        """Join what handlers use."""
        assert self._transactions is not None
        settings = self.config.settings
        metrics = Metrics()
        sessions = FetchSessionCache(settings.max_incremental_fetch_session_cache_slots, self._rng)
        self._services = services = Services(
            node_id=self.config.node_id,
            cluster_id=self._storage.cluster_id,
            configuration=self._configuration,
            quorum=self._quorum,
            controller=self._controller,
            partitions=self._partitions,
            isr=self._make_isr(metrics),
            storage=self._storage,
            purgatory=self._purgatory,
            throttles=self._throttles,
            moves=self._moves,
            replication=self._replication,
            groups=self._groups,
            transactions=self._transactions,
            sessions=sessions,
            lease=self._lease,
            confirmation=Confirmation(lease=self._lease, sessions=sessions, purgatory=self._purgatory, loop=self._loop),
            answer_memory=self._answer_memory,
            encryption=self._encryption,
            authorizer=self._authorizer,
            policies=self._policies,
            tokens=self._tokens,
            logins=self._logins,
            auto_creation=AutoCreation(self._configuration, self._controller),
            metrics=metrics,
            traffic=self._partitions.traffic,
            loop=self._loop,
            clock=self._clock,
            rng=self._rng,
            offload=self._offload,
            handlers=all_handlers(),
        )
        self._controller.serve(local_controller(services, services.handlers))
        if CONTROLLER in self.config.roles:
            services.duties = self._duties = self._make_duties()
            self._duties.start()
        self._name_gauges(metrics, services)
        self._report = MetricsReport(
            services,
            limits=self._limits,
            requests=self._listeners.requests,
            quotas=self._quotas,
            broker_state=lambda: int(self.stage),
        )
        self._follow_quotas(services)
        self._quorum.subscribe(self._tokens.image_changed)
        self._quorum.subscribe(self._encryption.image_changed)
        self._quorum.subscribe(self._logins.image_changed)
        self._quorum.subscribe(self._links.image_changed)
        self._quorum.subscribe(ElectionCounts(metrics, is_controller=lambda: self._quorum.is_leader).image_changed)

    async def _listen(self, names: Iterable[str], *, is_registered: bool = True) -> None:
        """Open the listeners of these names; clients come in once the broker is registered: before, nobody is told of it."""
        services = self._services
        assert services is not None
        wanted = frozenset(names) - {each.listener.name for each in self._listeners.bound}
        await self._encryption.settled()
        for listener in (each for each in self.config.listeners if each.name in wanted):
            is_controller = listener.name in self.config.controller_listener_names
            side = "controller" if is_controller else "broker"
            router = Router(services, [x for x in services.handlers if side in APIS[x.api_key].listeners], self._limits)
            if is_controller:
                router.closed = self._controller_connection_closed
            await self._listeners.open(
                listener,
                self._logins.before(router, listener),
                is_controller=is_controller,
                tls=self._encryption.of(listener),
                secured=self._logins.secured,
                accepts=is_controller or is_registered,
            )

    def _controller_connection_closed(self, connection: Connection) -> None:
        self._limits.closed(connection)
        if self._duties is not None:
            self._duties.disconnected(connection.connected)

    def _make_duties(self) -> ControllerDuties:
        """Construct what this node does while it leads the quorum."""
        configuration = self._configuration
        duties = ControllerDuties(
            node_id=self.config.node_id,
            quorum=self._quorum,
            network=self._network,
            config=lambda: configuration.broker,
            inter_broker_listener=self.config.inter_broker_listener_name,
            loop=self._loop,
        )
        self._undo.append(duties.stop)
        if self.config.settings.auto_leader_rebalance_enable:
            duties.add(
                Duty(
                    "balance leaders",
                    lambda: configuration.broker.settings.leader_imbalance_check_interval_seconds,
                    lambda image: decide.balance_leaders(image, config=configuration.broker),
                )
            )
        duties.add(
            Duty(
                "elect unclean leaders",
                lambda: configuration.broker.settings.unclean_leader_election_interval_ms / 1000,
                lambda image: decide.elect_unclean_leaders(image, config=configuration.broker),
            )
        )
        if self._tokens.is_enabled:
            duties.add(
                Duty(
                    "sweep delegation tokens",
                    lambda: configuration.broker.settings.delegation_token_expiry_check_interval_ms / 1000,
                    lambda image: decide.sweep_tokens(image, self._clock.now_ms()),
                )
            )
        return duties

    def _make_isr(self, metrics: Metrics) -> IsrKeeper:
        """Construct what keeps the ISRs that this broker leads; it speaks for the broker that has registered, no other."""
        node_id, incarnation_id, quorum = self.config.node_id, self._incarnation_id, self._quorum

        def broker_epoch() -> int:
            own = quorum.image.brokers.get(node_id)
            return own.epoch if own is not None and own.incarnation_id == incarnation_id else NO_BROKER_EPOCH

        self._isr = IsrKeeper(
            node_id=node_id,
            partitions=self._partitions,
            controller=self._controller,
            broker_epoch=broker_epoch,
            lag_max_ms=lambda: self._configuration.broker.settings.replica_lag_time_max_ms,
            metrics=metrics,
            loop=self._loop,
        )
        return self._isr

    def _follow_quotas(self, services: Services) -> None:
        """Keep the quotas as the image has them; handlers see them only where there are some."""

        def changed(old: Image, image: Image, delta: Delta) -> None:
            self._quotas.image_changed(image, delta, self._limits)
            services.quotas = self._quotas if self._quotas.clients.limits_clients else None

        self._quorum.subscribe(changed)

    def _name_gauges(self, metrics: Metrics, services: Services) -> None:
        partitions = self._partitions
        metrics.gauge("ReplicaManager.PartitionCount", lambda: len(partitions) + partitions.unmade)
        metrics.gauge("ReplicaManager.LeaderCount", lambda: sum(each.replica.is_leader for each in partitions))
        metrics.gauge(
            "ReplicaManager.OfflineReplicaCount",
            lambda: sum(each.is_offline for each in partitions) + len(partitions.unopened),
        )
        metrics.gauge("LogManager.OfflineLogDirectoryCount", lambda: len(self._storage.offline))
        metrics.gauge("DelayedOperationPurgatory.NumDelayedOperations", lambda: len(self._purgatory))
        metrics.gauge("FetchSessionCache.NumIncrementalFetchSessions", lambda: len(services.sessions))
        metrics.gauge("FetchSessionCache.NumIncrementalFetchPartitionsCached", lambda: services.sessions.partitions)
        self.housekeeping.cleaner.name_gauges(metrics)
        self._replication.name_gauges(metrics)
        metrics.gauge("LeaderReplication.byte-rate", self._throttles.leader.bytes_per_second)
        metrics.gauge("FollowerReplication.byte-rate", self._throttles.follower.bytes_per_second)

    async def _register(self) -> None:
        """Tell the quorum where this node is reached; a broker waits until it may be given leaderships."""
        if CONTROLLER in self.config.roles:
            self._registering = registering_controller(
                self._controller,
                node_id=self.config.node_id,
                incarnation_id=self._incarnation_id,
                endpoints=tuple(self._controller_endpoints()),
                loop=self._loop,
            )
            self._undo.append(self._registering.cancel)
        if BROKER in self.config.roles:
            self._life = BrokerLifecycle(
                node_id=self.config.node_id,
                incarnation_id=self._incarnation_id,
                endpoints=lambda: tuple(self._endpoint(each) for each in self.config.advertised_listeners),
                storage=self._storage,
                controller=self._controller,
                quorum=self._quorum,
                lease=self._lease,
                vacancy=Vacancy(node_id=self.config.node_id, quorum=self._quorum, network=self._network),
                settings=lambda: self._configuration.broker.settings,
                loop=self._loop,
            )
            self._undo.append(self._life.close)
            await self._life.register()
            self._follow_image()
            await self._life.join()
        if self._registering is not None and self._quorum.is_leader:
            await self._registering

    def _controller_endpoints(self) -> Iterator[Endpoint]:
        """Yield where this node's controller listeners are reached."""
        for each in self._listeners.bound:
            if each.listener.name in self.config.controller_listener_names:
                yield self._endpoint(each.listener)

    def _endpoint(self, advertised: Listener) -> Endpoint:
        """Return what clients are told of a listener: the bound port for 0, the machine's name for every interface."""
        bound: BoundListener | None = next(
            (each for each in self._listeners.bound if each.listener.name == advertised.name), None
        )
        port = bound.port if bound is not None and advertised.port == 0 else advertised.port
        host = socket.getfqdn() if advertised.host in WILDCARD_HOSTS else advertised.host
        return Endpoint(advertised.name, host, port, int(advertised.protocol))

    # -- stopping

    async def stop(self) -> None:
        """Stop serving and leave the folders so that the next start scans nothing."""
        self.stage = Stage.STOPPING
        self._partitions.make_no_more()
        if self._registering is not None:
            self._registering.cancel()
        if self._is_needed_elsewhere():
            await self._leave()
        await self._listeners.close()
        self._logins.close()
        self._quotas.close()
        await self._limits.close_all()
        assert self._transactions is not None
        self._transactions.close()
        await self._transactions.closed()
        self._groups.close()
        self._purgatory.close()
        self._answer_memory.close()
        await self.housekeeping.stop()
        await self._moves.close()
        await self._assignments.close()
        await self._replication.close()
        await self._leave()
        await self._isr.close()
        await self._controller.close()
        if self._duties is not None:
            self._duties.stop()
        if isinstance(self._authorizer, AclAuthorizer):
            self._authorizer.stop()
        await self._quorum.stop()
        epoch = -1 if self._life is None else self._life.epoch
        await self._storage.close(await self.housekeeping.high_watermarks(), broker_epoch=epoch)
        if self._http is not None:
            await self._http.close()

    def _is_needed_elsewhere(self) -> bool:
        """True where other brokers can take over what this one leads: then they do, before its clients are let go."""
        return any(each.active and each.id != self.config.node_id for each in self._quorum.image.brokers.values())

    async def _leave(self) -> None:
        """Hand over leaderships and be fenced, once, so that the next start need not doubt what is here."""
        life = self._life
        if life is None or self._has_left:
            return
        self._has_left = True
        if self.config.settings.controlled_shutdown_enable:
            await life.leave()
        life.close()

    def _disk_failed(self, error: StorageError) -> None:
        """Without its metadata log, or any log directory, the node cannot go on: whoever runs it has to end it."""
        log.critical("This node can no longer serve: %s", error)
        self.stage = Stage.FAILED
        assert self.failed is not None
        if not self.failed.done():
            self.failed.set_exception(error)


def _bootstrap(config: BrokerConfig) -> tuple[Address, ...]:
    """Return where to ask for the quorum while its voters are not known."""
    servers = config.settings.controller_quorum_bootstrap_servers
    return parse_bootstrap(servers) if servers else ()


def _static_voters(config: BrokerConfig) -> VoterSet:
    """Return the voters that the configuration names; none named, nor where to ask, means this node alone."""
    if not config.voters and (not config.is_quorum_of_one or config.settings.controller_quorum_bootstrap_servers):
        return VoterSet()
    if not config.voters:
        return VoterSet.of([Voter(ReplicaKey(config.node_id, ZERO_UUID))])
    name = (config.controller_listener_names or ("CONTROLLER",))[0]
    return VoterSet.of(
        Voter(ReplicaKey(each.node_id, ZERO_UUID), (VoterEndpoint(name, each.host, each.port),))
        for each in config.voters
    )
