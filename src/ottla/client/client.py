"""`Client`: from a bootstrap list to any request at the node that must answer it, with bounded patience."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self, TypeVar

from ottla import __version__
from ottla.background import awaited
from ottla.base import ZERO_UUID, ErrorCode, KafkaError, Millis, NodeId, TopicPartition
from ottla.client.addresses import Address, parse_bootstrap
from ottla.client.batches import (
    TOPIC_IDS_FROM,
    Appended,
    Fetched,
    FetchPosition,
    Isolation,
    Records,
    fetch_request,
    produce_request,
    read_fetched,
    read_produced,
)
from ottla.client.cluster import CONTROLLERS, Cluster, read_controllers, read_metadata
from ottla.client.connection import REFUSED, Connection, network_error
from ottla.client.coordinators import Coordinated, coordinator_error, find_request, read_found
from ottla.client.offsets import ListedOffset, list_offsets_request, lowest_version, read_listed
from ottla.client.turns import Turns
from ottla.net import Network, ReceiveBuffer, TcpNetwork
from ottla.wire import ApiKey
from ottla.wire.messages.describe_cluster import DescribeClusterRequest
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic

__all__ = ["CLIENT_ID_DEFAULT", "Client", "Limits"]

CLIENT_ID_DEFAULT = "ottla"
STRING_BYTES_MAX = 32_767
"""Of a string in a request."""
T = TypeVar("T")
Answer = TypeVar("Answer", Fetched, Appended, ListedOffset)


@dataclass(frozen=True, slots=True)
class Limits:
    """How patient a client is; all in seconds, with the defaults of Kafka's clients where they have one."""

    connect_s: float = 10.0
    """For one connection, versions included (`socket.connection.setup.timeout.ms`)."""
    request_s: float = 30.0
    """For one answer (`request.timeout.ms`); a request that asks the broker to wait is given that long on top."""
    call_s: float = 60.0
    """For one call with all its retries (`default.api.timeout.ms`)."""
    unreachable_s: float = 5.0
    """How long no broker at all may be reachable before a call gives up."""
    unknown_topic_s: float = 5.0
    """How long a topic or partition may be unknown: one just created takes a moment to be known everywhere."""
    backoff_s: float = 0.1
    """Before the first retry; it doubles with each (`retry.backoff.ms`)."""
    backoff_max_s: float = 1.0
    """The longest wait between two retries (`retry.backoff.max.ms`)."""

    @classmethod
    def of_task(cls, request_timeout_ms: int) -> Self:
        """Return those of a task's client.

        It waits for brokers that are started again, and asks soon whether the end of a transaction is written.
        """
        return cls(request_s=request_timeout_ms / 1000, unreachable_s=60.0, backoff_s=0.02)


class Client:
    """Asks a Kafka cluster; use it in one event loop, and `close` it."""

    def __init__(
        self,
        bootstrap: str | Iterable[str],
        *,
        client_id: str = CLIENT_ID_DEFAULT,
        limits: Limits | None = None,
        network: Network | None = None,
        of_controllers: bool = False,
    ) -> None:
        self.bootstrap: tuple[Address, ...] = parse_bootstrap(bootstrap)
        self.client_id = client_id
        self.limits = limits if limits is not None else Limits()
        self.cluster = Cluster()
        """The newest view of the cluster; empty until something was asked."""
        self.of_controllers = of_controllers
        """True where the addresses are controllers' (KIP-919): requests then go to the active one."""
        self.network: Network = network if network is not None else TcpNetwork()
        """How brokers are reached."""
        self._coordinators: dict[Coordinated, NodeId] = {}
        self._connections: dict[Address, Connection] = {}
        self._turns = Turns()
        self._opening: dict[Address, asyncio.Task[Connection]] = {}
        self._closings = 0
        """A number that is another one after each `close`, by which a call knows that it is over."""
        self._buffer = ReceiveBuffer()
        self._last_reached: Address | None = None
        self._doubted: Address | None = None
        """Whose view was wrong again and again: it may be cut off from the others, so that they are asked first."""
        self._wrong_in_a_row = 0

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close every connection; calls under way fail, and are not tried again."""
        self._closings += 1
        opening = list(self._opening.values())
        for task in opening:
            task.cancel()
        await asyncio.gather(*opening, return_exceptions=True)
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()
        await asyncio.sleep(0)  # lets the transports' own closing run

    # -- any request

    async def request(
        self,
        message: Any,
        *,
        node: NodeId | None = None,
        leader_of: TopicPartition | None = None,
        controller: bool = False,
        coordinator_of: Coordinated | None = None,
        lowest: int = 0,
        highest: int | None = None,
        timeout_s: float | None = None,
    ) -> Any:
        """Send a request to a node, a leader, the controller, a coordinator, or whoever answers; return the response.

        The highest version that both sides speak is used, within `lowest` and `highest`. Failing connections and a
        retriable code at the response's top are retried until `Limits` end it; codes further down are the caller's,
        except that a coordinator which has moved, or still loads, is looked for and asked again.
        A request whose connection breaks may have been carried out, and is then sent again. Raises KafkaError.
        """
        wait_s = timeout_s if timeout_s is not None else self.limits.request_s

        async def attempt() -> Any:
            if coordinator_of is not None:
                connection = await self._connect_coordinator(coordinator_of)
            else:
                connection = await self._route(node, leader_of, controller)
            version = connection.version_for(message.API_KEY, lowest=lowest, highest=highest)
            response = await connection.request(message, version, timeout_s=wait_s)
            if coordinator_of is not None and (moved := coordinator_error(response)) is not None:
                self._coordinators.pop(coordinator_of, None)
                raise KafkaError(moved, f"the coordinator of {coordinator_of.key} does not answer yet: {moved.name}")
            code = ErrorCode(getattr(response, "error_code", 0))
            if code.value and KafkaError(code).retriable:
                self._distrust([leader_of.topic] if leader_of is not None else [])
                raise KafkaError(code, getattr(response, "error_message", None) or code.name)
            return response

        return await self._retrying(attempt)

    async def coordinator(self, wanted: Coordinated) -> NodeId:
        """Return the node that coordinates a group or a transactional id, and remember it."""

        async def attempt() -> NodeId:
            return await self._find_coordinator(wanted)

        return await self._retrying(attempt)

    async def versions(self, node: NodeId | None = None) -> dict[int, tuple[int, int]]:
        """Return what a node (or whoever answers) offers: lowest and highest version by API key."""

        async def attempt() -> dict[int, tuple[int, int]]:
            return (await self._route(node, None, False)).versions

        return await self._retrying(attempt)

    async def features(self) -> dict[str, int]:
        """Return the levels that the cluster's features are finalised at, as whoever answers knows them."""

        async def attempt() -> dict[str, int]:
            return (await self._connect_any()).features

        return await self._retrying(attempt)

    async def metadata(
        self, topics: Iterable[str] | None = None, *, allow_auto_topic_creation: bool = False
    ) -> Cluster:
        """Ask for the cluster with these topics, or with all where none are named; errors stand on the topics.

        The answer also renews what the client itself knows. Raises KafkaError (INVALID_TOPIC_EXCEPTION) for a name that
        cannot even be sent.
        """
        names = None if topics is None else sorted(set(topics))
        for name in names or ():
            _check_name(name)
        message = MetadataRequest(
            topics=None if names is None else [MetadataRequestTopic(name=name) for name in names],
            allow_auto_topic_creation=allow_auto_topic_creation,
        )
        answer = read_metadata(await self.request(message, lowest=1))
        sound = {name: topic for name, topic in answer.topics.items() if not topic.error}
        gone = answer.topics.keys() - sound.keys()
        known = Cluster(answer.nodes, sound, answer.cluster_id, answer.controller_id)
        self.cluster = self.cluster.without(gone).merged(known)
        return answer

    # -- whole batches and offsets

    async def fetch(
        self,
        positions: Sequence[FetchPosition],
        *,
        max_wait_ms: int = 500,
        min_bytes: int = 1,
        max_bytes: int = 50 << 20,
        isolation: Isolation = Isolation.READ_UNCOMMITTED,
    ) -> list[Fetched]:
        """Fetch whole batches from several partitions' leaders at once, in the order asked.

        Retriable codes are retried for the partitions that have them; others stand in `Fetched.error`.
        """
        by_partition = {position.partition: position for position in positions}

        async def ask(connection: Connection, partitions: list[TopicPartition]) -> dict[TopicPartition, Fetched]:
            asked = [by_partition[partition] for partition in partitions]
            cluster = self.cluster
            message = fetch_request(
                asked,
                cluster,
                max_wait_ms=max_wait_ms,
                min_bytes=min_bytes,
                max_bytes=max_bytes,
                isolation=isolation,
            )
            version = connection.version_for(message.API_KEY, highest=_highest(partitions, cluster))
            timeout_s = self.limits.request_s + max_wait_ms / 1000
            response = await connection.request(message, version, timeout_s=timeout_s)
            if response.error_code:
                raise KafkaError(ErrorCode(response.error_code), f"{connection.address} refused Fetch")
            return read_fetched(response, asked, cluster)

        return await self._from_leaders(list(by_partition), ask)

    async def produce(
        self,
        batches: Mapping[TopicPartition, Records],
        *,
        acks: int = -1,
        timeout_ms: int = 30_000,
        transactional_id: str | None = None,
        highest: int | None = None,
    ) -> list[Appended]:
        """Append whole batches to several partitions' leaders at once; several calls may be in flight.

        `highest` keeps the request's version below one that would mean more, as version 12 does in transactions.

        Raises the first error as a KafkaError that names its partition. Batches without a producer id may be appended
        twice when an answer is lost. Calls in flight together leave in the order in which they began, partition by
        partition, and keep that order while nothing fails.
        """
        found = await self.append(
            batches, acks=acks, timeout_ms=timeout_ms, transactional_id=transactional_id, highest=highest
        )
        return [answer.check() for answer in found]

    async def append(
        self,
        batches: Mapping[TopicPartition, Records],
        *,
        acks: int = -1,
        timeout_ms: int = 30_000,
        transactional_id: str | None = None,
        highest: int | None = None,
    ) -> list[Appended]:
        """Do as `produce`, but leave in `Appended.error` what asking again would not mend."""

        async def ask(connection: Connection, partitions: list[TopicPartition]) -> dict[TopicPartition, Appended]:
            cluster = self.cluster
            message = produce_request(
                {partition: batches[partition] for partition in partitions},
                cluster,
                acks=acks,
                timeout_ms=timeout_ms,
                transactional_id=transactional_id,
            )
            bounds = [each for each in (highest, _highest(partitions, cluster)) if each is not None]
            version = connection.version_for(message.API_KEY, highest=min(bounds, default=None))
            if acks == 0:
                await connection.send(message, version)
                turn.over(partitions)
                return {partition: Appended(partition) for partition in partitions}
            timeout_s = self.limits.request_s + timeout_ms / 1000
            response = await connection.request(
                message, version, timeout_s=timeout_s, written=lambda: turn.over(partitions)
            )
            return read_produced(response, partitions, cluster)

        turn = self._turns.take(batches)
        try:
            await turn.comes()
            return await self._from_leaders(list(batches), ask, tried=turn.over)
        finally:
            turn.over()

    async def list_offsets(
        self, wanted: Mapping[TopicPartition, Millis], *, isolation: Isolation = Isolation.READ_UNCOMMITTED
    ) -> dict[TopicPartition, ListedOffset]:
        """Return per partition the first offset at or after a time, or EARLIEST, LATEST, MAX_TIMESTAMP.

        Raises KafkaError for a partition that does not exist, or a timestamp that its broker does not know.
        """
        lowest = lowest_version(wanted.values())

        async def ask(connection: Connection, partitions: list[TopicPartition]) -> dict[TopicPartition, ListedOffset]:
            asked = {partition: wanted[partition] for partition in partitions}
            message = list_offsets_request(asked, isolation, int(self.limits.request_s * 1000))
            version = connection.version_for(message.API_KEY, lowest=lowest)
            return read_listed(await connection.request(message, version, timeout_s=self.limits.request_s))

        return {answer.partition: answer.check() for answer in await self._from_leaders(list(wanted), ask)}

    async def _from_leaders(
        self,
        partitions: list[TopicPartition],
        ask: Callable[[Connection, list[TopicPartition]], Awaitable[dict[TopicPartition, Answer]]],
        *,
        tried: Callable[[], object] = lambda: None,
    ) -> list[Answer]:
        """Ask each leader for its partitions, and again for those with a retriable error; answers in the order given.

        `tried` is called after every attempt, whatever has become of it.
        """
        answers: dict[TopicPartition, Answer] = {}

        async def attempt() -> None:
            missing = [partition for partition in partitions if not _settled(answers.get(partition))]
            try:
                groups = await self._by_leader(missing)
                if len(groups) == 1:  # as for most: without a task of its own
                    found: list[Any] = [await ask(*groups[0])]
                else:
                    found = await asyncio.gather(*(ask(*group) for group in groups), return_exceptions=True)
            finally:
                tried()
            for each in found:
                if isinstance(each, dict):
                    answers.update(each)  # before any raise: what was answered is not asked again
            for each in found:
                if isinstance(each, BaseException):
                    raise each
            failed = [partition for partition in missing if not _settled(answers.get(partition))]
            if failed:
                self._distrust(partition.topic for partition in failed)
                first = answers.get(failed[0])
                code = first.error if first is not None else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                raise KafkaError(code, f"{failed[0]}: {code.name}")

        await self._retrying(attempt)
        return [answers[partition] for partition in partitions]

    async def _by_leader(self, partitions: list[TopicPartition]) -> list[tuple[Connection, list[TopicPartition]]]:
        """Group partitions by their leaders' connections."""
        await self._learn({partition.topic for partition in partitions if self.cluster.leader_of(partition) is None})
        groups: dict[NodeId, list[TopicPartition]] = {}
        for partition in partitions:
            groups.setdefault(self._leader(partition), []).append(partition)
        return [(await self._connect_node(leader), group) for leader, group in groups.items()]

    # -- routing

    async def _route(self, node: NodeId | None, leader_of: TopicPartition | None, controller: bool) -> Connection:
        if leader_of is not None:
            if self.cluster.leader_of(leader_of) is None:
                await self._learn({leader_of.topic})
            return await self._connect_node(self._leader(leader_of))
        if self.of_controllers and node is None:
            await self._learn_controllers()
            node = self.cluster.controller_id if self.cluster.controller_id in self.cluster.nodes else None
        elif controller and node is None:
            if self.cluster.controller_id not in self.cluster.nodes:
                await self._learn_nodes()
            node = self.cluster.controller_id
            if node not in self.cluster.nodes:
                raise KafkaError(ErrorCode.NOT_CONTROLLER, "the cluster names no controller")
        return await (self._connect_node(node) if node is not None else self._connect_any())

    async def _find_coordinator(self, wanted: Coordinated) -> NodeId:
        known = self._coordinators.get(wanted)
        if known is None:
            connection = await self._connect_any()
            version = connection.version_for(ApiKey.FIND_COORDINATOR, lowest=int(wanted.kind.value > 0))
            message = find_request(wanted, version)
            response = await connection.request(message, version, timeout_s=self.limits.request_s)
            known = self._coordinators[wanted] = read_found(response, wanted)
        return known

    async def _connect_coordinator(self, wanted: Coordinated) -> Connection:
        node = await self._find_coordinator(wanted)
        try:
            return await self._connect_node(node)
        except KafkaError as error:
            self._coordinators.pop(wanted, None)  # another broker takes over what this one coordinated
            if error.code is ErrorCode.BROKER_NOT_AVAILABLE:  # it stops or starts: not all know of that at one time
                text = f"the coordinator of {wanted.key} is not there: {error.message}"
                raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, text) from error
            raise

    async def _learn(self, topics: set[str]) -> None:
        if topics:
            connection = await self._connect_any()
            message = MetadataRequest(
                topics=[MetadataRequestTopic(name=name) for name in sorted(topics)], allow_auto_topic_creation=False
            )
            await self._absorb(connection, message)

    async def _learn_controllers(self) -> None:
        """Find the active controller, unless a connection to it is open: the one that was may be gone."""
        known = self.cluster.nodes.get(self.cluster.controller_id)
        connection = self._connections.get(known.address) if known is not None else None
        if connection is not None and not connection.closed:
            return
        connection = await self._connect_any()
        version = connection.version_for(DescribeClusterRequest.API_KEY, lowest=1)
        message = DescribeClusterRequest(endpoint_type=CONTROLLERS)
        response = await connection.request(message, version, timeout_s=self.limits.request_s)
        if response.error_code:
            raise KafkaError(ErrorCode(response.error_code), response.error_message or "")
        self.cluster = read_controllers(response)

    async def _learn_nodes(self) -> None:
        if self.of_controllers:
            await self._learn_controllers()
            return
        await self._absorb(await self._connect_any(), MetadataRequest(topics=[], allow_auto_topic_creation=False))

    async def _absorb(self, connection: Connection, message: MetadataRequest) -> None:
        """Renew the view from one answer; raises a topic's error."""
        version = connection.version_for(message.API_KEY, lowest=1)
        response = await connection.request(message, version, timeout_s=self.limits.request_s)
        answer = read_metadata(response)
        for topic in answer.topics.values():
            if topic.error:
                raise KafkaError(topic.error, f"topic {topic.name}: {topic.error.name}")
        self.cluster = self.cluster.merged(answer)

    def _leader(self, partition: TopicPartition) -> NodeId:
        leader = self.cluster.leader_of(partition)
        if leader is not None:
            return leader
        topic = self.cluster.topics.get(partition.topic)
        known = topic is not None and partition.partition in topic.partitions
        self._distrust([partition.topic])
        if known:
            raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"{partition} has no leader")
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{partition} does not exist")

    def _distrust(self, topics: Iterable[str]) -> None:
        """Forget what is known of some topics and of the controller, so that the next attempt asks again."""
        self._wrong_in_a_row += 1
        if self._wrong_in_a_row > 1:
            self._doubted = self._last_reached
        kept = self.cluster.without(topics)
        self.cluster = Cluster(kept.nodes, kept.topics, kept.cluster_id)

    async def _connect_node(self, node: NodeId) -> Connection:
        if node not in self.cluster.nodes:
            await self._learn_nodes()
        found = self.cluster.nodes.get(node)
        if found is None:
            known = ", ".join(str(known) for known in sorted(self.cluster.nodes))
            raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, f"node {node} is not in the cluster (nodes: {known})")
        try:
            return await self._connect(found.address)
        except KafkaError as error:
            if error.code is ErrorCode.NETWORK_EXCEPTION:  # its partitions may have moved to another leader
                self.cluster = Cluster(self.cluster.nodes, {}, self.cluster.cluster_id)
                if found.address not in self.bootstrap:
                    hint = f"node {node} says that it is there (advertised.listeners)"
                    raise KafkaError(error.code, f"{error.message}; {hint}") from error
            raise

    async def _connect_any(self) -> Connection:
        """Return a connection to a node that answers, the last good one first; raises what each said when none does."""
        known = [node.address for node in self.cluster.nodes.values()]
        last = [self._last_reached] if self._last_reached is not None else []
        failures: list[str] = []
        addresses = list(dict.fromkeys((*last, *known, *self.bootstrap)))
        if self._doubted in addresses:
            addresses.remove(self._doubted)
            addresses.append(self._doubted)
        self._doubted = None
        closings = self._closings
        for address in addresses:
            try:
                connection = await self._connect(address)
            except KafkaError as error:
                if error.code is not ErrorCode.NETWORK_EXCEPTION or closings != self._closings:
                    raise
                failures.append(error.message)
            else:
                self._last_reached = address
                return connection
        raise _Unreachable(_no_broker(failures))

    async def _connect(self, address: Address) -> Connection:
        connection = self._connections.get(address)
        if connection is not None and not connection.closed:
            return connection
        task = self._opening.get(address)
        if task is None:
            task = awaited(self._open(address))
            self._opening[address] = task
            task.add_done_callback(lambda done: self._forget_opening(address, done))
        try:
            return await asyncio.shield(task)  # one caller's cancellation must not fail the others
        except asyncio.CancelledError:
            caller = asyncio.current_task()
            if caller is None or caller.cancelling():
                raise
            raise network_error(address, "was left: the client is closed") from None

    def _forget_opening(self, address: Address, task: asyncio.Task[Connection]) -> None:
        self._opening.pop(address, None)
        if not task.cancelled():
            task.exception()  # seen, also where all who waited for the connection have given up

    async def _open(self, address: Address) -> Connection:
        connection = await Connection.open(
            self.network,
            address,
            client_id=self.client_id,
            software_version=__version__,
            timeout_s=self.limits.connect_s,
            buffer=self._buffer,
        )
        self._connections[address] = connection
        return connection

    # -- patience

    async def _retrying(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """Repeat an attempt while its error is retriable and patience lasts; then raise the last error."""
        loop = asyncio.get_running_loop()
        started = loop.time()
        backoff_s, closings = self.limits.backoff_s, self._closings
        while True:
            try:
                found = await attempt()
            except KafkaError as error:
                is_late = loop.time() + backoff_s > started + self._patience_s(error)
                if not error.retriable or is_late or closings != self._closings:
                    raise
                failed = error
            else:
                self._wrong_in_a_row = 0
                return found
            await asyncio.sleep(backoff_s)
            if closings != self._closings:
                raise failed
            backoff_s = min(2 * backoff_s, self.limits.backoff_max_s)

    def _patience_s(self, error: KafkaError) -> float:
        if isinstance(error, _Unreachable):
            return self.limits.unreachable_s
        unknown = error.code in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)
        return self.limits.unknown_topic_s if unknown else self.limits.call_s


class _Unreachable(KafkaError):
    """No broker answers; retried, but not for as long as a broker's own refusal."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.NETWORK_EXCEPTION, message)


def _no_broker(failures: Sequence[str]) -> str:
    """Return what is said where no address has let us in, and what to do where all have refused."""
    said = "no broker answers: " + "; ".join(failures)
    if not all(each.endswith(REFUSED) for each in failures):
        return said
    return f"{said}. Is a broker running there? `ottla server start` starts one on this machine"


def _check_name(name: str) -> None:
    """Refuse a topic's name that no request can hold; other names are the cluster's to judge."""
    if len(name.encode(errors="replace")) > STRING_BYTES_MAX:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"A topic's name of {len(name)} characters is too long")
    if not name.isascii() and name.encode(errors="replace").decode() != name:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"A topic's name holds half a character: {name!a}")


def _settled(answer: Fetched | Appended | ListedOffset | None) -> bool:
    """Whether there is an answer that asking again would not change."""
    return answer is not None and not (answer.error and KafkaError(answer.error).retriable)


def _highest(partitions: Iterable[TopicPartition], cluster: Cluster) -> int | None:
    """Return the version to stay below when a topic's id is not known: later ones name topics by id alone."""
    unknown = any(cluster.topic_id(partition.topic) == ZERO_UUID for partition in partitions)
    return TOPIC_IDS_FROM - 1 if unknown else None
