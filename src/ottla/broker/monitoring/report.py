"""Makes the page of metrics from what the node's parts know; hot paths only count, everything else is done here.

A page of many partitions takes long to write, so it is made in slices, between which the event loop serves requests.
Quantiles are those of the last one to two minutes, as far as somebody has asked so often: Kafka's are recent ones too.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from time import perf_counter, thread_time
from typing import Any

from ottla import __version__
from ottla.background import failure_counts
from ottla.base import ErrorCode, KafkaError, StorageError
from ottla.broker.meters import LATENCY_BUCKETS, Latency, RequestTimes, TopicTraffic
from ottla.broker.monitoring.families import GROUP_STATES
from ottla.broker.monitoring.process_facts import process_facts
from ottla.broker.monitoring.prometheus import Page, tags
from ottla.broker.parts import ReportParts
from ottla.broker.quotas import Quotas
from ottla.broker.requests.authorizer import AclAuthorizer
from ottla.broker.requests.connection_limits import ConnectionLimits
from ottla.metadata import Image, decide
from ottla.net import RequestMemory
from ottla.replica import Role
from ottla.wire import build_mode

__all__ = ["MetricsReport"]

SLICE_S = 0.002
"""How long a page may hold the event loop before requests have their turn."""
ITEMS_PER_LOOK = 20
"""Partitions that are written between two looks at the time."""
FETCHES = ("FetchConsumer", "FetchFollower")
RARE = ("requestqueuetimems", "throttletimems")
RECENT_S = 60.0
"""What is recent: quantiles leave out what is older than twice this."""
TOPIC_METERS = {
    "bytesin": "bytes_in",
    "bytesout": "bytes_out",
    "messagesin": "messages_in",
    "totalproducerequests": "produces",
    "totalfetchrequests": "fetches",
    "failedproducerequests": "failed_produces",
    "failedfetchrequests": "failed_fetches",
}


@dataclass(frozen=True, slots=True)
class _Times:
    """Buckets and sum of what several have recorded."""

    buckets: list[int]
    total_us: int

    @classmethod
    def of(cls, *parts: Latency, zeros: int = 0) -> _Times:
        """Add them up, with so many times of no length."""
        buckets = [0] * LATENCY_BUCKETS
        buckets[0] = zeros
        for part in parts:
            if part.buckets:
                buckets = [one + other for one, other in zip(buckets, part.buckets, strict=True)]
        return cls(buckets, sum(part.total_us for part in parts))


class MetricsReport:
    """Writes pages; remembers what earlier ones have shown, for what is measured between two of them."""

    def __init__(
        self,
        services: ReportParts,
        *,
        limits: ConnectionLimits,
        requests: RequestMemory,
        quotas: Quotas,
        broker_state: Callable[[], int],
    ) -> None:
        self._services = services
        self._limits = limits
        self._request_memory = requests
        self._quotas = quotas
        self._broker_state = broker_state
        self._build = build_mode()
        self._before: dict[str, list[int]] = {}
        self._latest: dict[str, list[int]] = {}
        self._busy_before = self._busy_latest = (perf_counter(), thread_time())
        self._seconds = 0.0

    async def text(self) -> str:
        """Return a page as it is now."""
        began_s = perf_counter()
        page = Page()
        self._remember(began_s)
        until_s = began_s + SLICE_S
        parts: list[str] = []
        for part in chain(self._written(page), page.parts()):
            if part is not None:
                parts.append(part)
            if perf_counter() >= until_s:
                await asyncio.sleep(0)
                until_s = perf_counter() + SLICE_S
        self._seconds = perf_counter() - began_s
        return "".join(parts)

    def _written(self, page: Page) -> Iterator[None]:
        """Write everything, and yield often."""
        image = self._services.quorum.image
        self._write_node(page)
        self._write_sockets(page)
        self._write_authorizer(page)
        self._write_quotas(page)
        yield
        yield from self._write_cluster(page, image)
        yield from self._write_topics(page)
        yield from self._write_requests(page)
        yield from self._write_partitions(page, image)
        yield from self._write_groups(page)
        self._write_process(page)

    # -- what is measured between two pages

    def _remember(self, now_s: float) -> None:
        """Begin a new minute where the last is over."""
        if now_s - self._busy_latest[0] < RECENT_S:
            return
        self._busy_before, self._busy_latest = self._busy_latest, (now_s, thread_time())
        self._before = self._latest
        self._latest = {}
        for request, kinds in self._requests().items():
            for name, found in _named(kinds).items():
                self._latest[f"{request} {name}"] = found.buckets

    def _requests(self) -> dict[str, list[RequestTimes]]:
        """Return every kind of request; `Fetch` stands for all who fetch."""
        requests = self._services.metrics.requests
        return {name: [times] for name, times in requests.items()} | {
            "Fetch": [requests[name] for name in FETCHES if name in requests]
        }

    def _recent(self, request: str, name: str, buckets: list[int]) -> list[int]:
        before = self._before.get(f"{request} {name}")
        return buckets if before is None else [now - then for now, then in zip(buckets, before, strict=True)]

    def _idle_share(self) -> float:
        began_s, busy_s = self._busy_before
        passed_s = perf_counter() - began_s
        return max(0.0, min(1.0, 1 - (thread_time() - busy_s) / passed_s)) if passed_s > 0 else 1.0

    # -- the node

    def _write_node(self, page: Page) -> None:
        services = self._services
        for name, value in services.metrics.values():
            page.add_bean(name, value)
        page.add("kafka_server_kafkaserver_brokerstate", self._broker_state())
        idle = round(self._idle_share(), 6)
        page.add("kafka_server_kafkarequesthandlerpool_requesthandleravgidlepercent", idle)
        page.add("kafka_network_socketserver_networkprocessoravgidlepercent", idle)
        for log_dir in services.storage.online:
            try:
                space = services.storage.disk.space(log_dir.path)
            except StorageError:
                continue  # the directory is about to be found offline, and is left out like those that are
            label = tags(log_dir=log_dir.path)
            page.add("ottla_storage_disk_total_bytes", space.total, label)
            page.add("ottla_storage_disk_free_bytes", space.usable, label)
            damaged = sum(each.damage is not None for each in services.partitions if each.log_dir is log_dir)
            page.add("ottla_storage_damaged_partitions", damaged, label)

    def _write_sockets(self, page: Page) -> None:
        limits = self._limits
        sockets = "kafka_server_socket_server_metrics_"
        open_now = dict.fromkeys(limits.created, 0)
        for connection in limits:
            open_now[connection.connected.listener] += 1
        for listener, count in open_now.items():
            page.add(f"{sockets}connection_count", count, tags(listener=listener))
            page.add(f"{sockets}connection_creation_total", limits.created[listener], tags(listener=listener))
        self._write_logins(page, sockets)
        for tls in self._services.encryption:
            page.add("ottla_tls_certificate_end_seconds", tls.ends_s, tags(listener=tls.listener.name))
        page.add(f"{sockets}incoming_byte_total", limits.received_bytes)
        page.add(f"{sockets}outgoing_byte_total", limits.sent_bytes)
        memory = self._services.answer_memory
        page.add("ottla_answers_held_bytes", memory.held)
        page.add("ottla_answers_waiting_requests", memory.waiting)
        page.add("ottla_answers_cut_off_connections_total", memory.cut_off)
        page.add("kafka_network_socketserver_memorypoolused", self._request_memory.held)
        page.add("kafka_network_socketserver_memorypoolavailable", self._request_memory.free)
        page.add("ottla_requests_waiting_connections", self._request_memory.waiting)

    def _write_logins(self, page: Page, sockets: str) -> None:
        counts = self._limits.authentications
        for name, counted in (
            ("successful_authentication", counts.succeeded),
            ("failed_authentication", counts.failed),
            ("successful_reauthentication", counts.renewed),
            ("failed_reauthentication", counts.not_renewed),
        ):
            for listener in self._limits.created:
                page.add(f"{sockets}{name}_total", counted[listener], tags(listener=listener))
        renewals = counts.renewal_ms
        page.add(f"{sockets}reauthentication_latency_avg", renewals.total / renewals.count if renewals.count else 0)
        page.add(f"{sockets}reauthentication_latency_max", renewals.largest)
        page.add("kafka_network_socketserver_expiredconnectionskilledcount", counts.expired_killed)
        page.add("ottla_logins_pending_connections", counts.pending)
        page.add("ottla_logins_pushed_out_connections_total", counts.pushed_out)

    def _write_authorizer(self, page: Page) -> None:
        authorizer = self._services.authorizer
        if not isinstance(authorizer, AclAuthorizer):
            return
        plugins = "kafka_server_plugins_"
        page.add(f"{plugins}acls_total_count", len(authorizer))
        page.add(f"{plugins}authorization_allowed_total", authorizer.allowed)
        page.add(f"{plugins}authorization_denied_total", authorizer.denied)
        page.add("ottla_audit_lines_left_out_total", authorizer.left_out)

    def _write_quotas(self, page: Page) -> None:
        for kind, count in self._quotas.throttled.items():
            page.add("ottla_quota_throttled_total", count, tags(quota=kind.value))
        for use in self._quotas.clients.used(self._quotas.now_ms()):
            label = tags(quota=use.kind.value, user=use.user, client_id=use.client_id)
            page.add("ottla_quota_limit", use.bound, label)
            page.add("ottla_quota_rate", round(use.rate, 6), label)

    def _write_process(self, page: Page) -> None:
        for name, value in process_facts().items():
            page.add(name, value)
        label = tags(version=__version__, build=self._build, node_id=self._services.node_id)
        page.add("ottla_build_info", 1, label)
        page.add("ottla_own_failures_total", sum(failure_counts().values()))
        page.add("ottla_scrape_seconds", round(self._seconds, 6))

    # -- requests

    def _write_topics(self, page: Page) -> Iterator[None]:
        traffic = self._services.traffic
        _write_traffic(page, traffic.sum(), "")
        for topic, counted in sorted(traffic.by_topic.items()):
            _write_traffic(page, counted, tags(topic=topic))
            yield

    def _write_requests(self, page: Page) -> Iterator[None]:
        for request, kinds in sorted(self._requests().items()):
            errors: Counter[int] = Counter()
            for times in kinds:
                errors.update(times.errors)
            for code, count in sorted(errors.items()):
                label = tags(request=request, error=_error_name(code))
                page.add("kafka_network_requestmetrics_errorspersec", count, label)
            found = _named(kinds)
            count = sum(found["totaltimems"].buckets)
            if not count:
                continue
            if request in FETCHES:
                page.add("kafka_network_requestmetrics_requestspersec", count, tags(request=request))
            for name, each in found.items():
                if not each.total_us and name in RARE:
                    continue
                recent = self._recent(request, name, each.buckets)
                family = f"kafka_network_requestmetrics_{name}"
                page.add_summary(family, {"request": request}, recent, sum(each.buckets), each.total_us)
            total = found["totaltimems"]
            page.add_histogram("ottla_request_duration_seconds", {"request": request}, total.buckets, total.total_us)
            yield

    # -- partitions

    def _write_partitions(self, page: Page, image: Image) -> Iterator[None]:
        under_replicated = under_min = at_min = reassigning = 0
        for number, partition in enumerate(self._services.partitions):
            if number % ITEMS_PER_LOOK == 0:
                yield
            label = tags(topic=partition.key.topic, partition=partition.key.partition)
            log, replica = partition.log, partition.replica
            if not partition.is_offline:
                page.lines("kafka_log_log_size").append(f"kafka_log_log_size{label} {log.size}")
                page.lines("kafka_log_log_logendoffset").append(
                    f"kafka_log_log_logendoffset{label} {log.log_end_offset}"
                )
                page.lines("kafka_log_log_logstartoffset").append(
                    f"kafka_log_log_logstartoffset{label} {log.log_start_offset}"
                )
                page.lines("kafka_log_log_numlogsegments").append(
                    f"kafka_log_log_numlogsegments{label} {log.segment_count}"
                )
            if replica.role is Role.FOLLOWER and self._services.replication is not None:
                page.add(
                    "kafka_server_fetcherlagmetrics_consumerlag", self._services.replication.lag_of(partition), label
                )
            if replica.role is Role.LEADER:
                page.add("kafka_topic_partition_current_offset", replica.high_watermark, label)
                page.add("kafka_topic_partition_oldest_offset", log.log_start_offset, label)
                in_sync = len(replica.isr)
                under_replicated += in_sync < len(replica.replicas)
                needed = min(partition.min_insync_replicas, len(replica.replicas))
                under_min += in_sync < needed
                at_min += in_sync == needed
                state = image.partition(partition.key.topic, partition.key.partition)
                reassigning += state is not None and decide.is_reassigning(state)
        manager = "kafka_server_replicamanager_"
        page.add(f"{manager}underreplicatedpartitions", under_replicated)
        page.add(f"{manager}underminisrpartitioncount", under_min)
        page.add(f"{manager}atminisrpartitioncount", at_min)
        page.add(f"{manager}reassigningpartitions", reassigning)

    def _write_cluster(self, page: Page, image: Image) -> Iterator[None]:
        services = self._services
        status = services.quorum.status
        raft = "kafka_server_raft_metrics_"
        page.add(f"{raft}current_leader", status.leader_id)
        page.add(f"{raft}current_epoch", status.leader_epoch)
        page.add(f"{raft}high_watermark", status.high_watermark)
        page.add(f"{raft}log_end_offset", status.log_end_offset)
        page.add(f"{raft}current_vote", status.voted_id)
        page.add(f"{raft}current_state", 1, tags(state=status.state))
        for name, times in (
            ("commit", services.quorum.times.commits_ms),
            ("election", services.quorum.times.elections_ms),
        ):
            page.add(f"{raft}{name}_latency_avg", sum(times) / len(times) if times else 0)
            page.add(f"{raft}{name}_latency_max", max(times, default=0))
        page.add(f"{raft}number_of_voters", len(status.voters.ids))
        page.add(f"{raft}number_of_observers", sum(each not in status.voters.ids for each in status.replicas))
        page.add("kafka_server_broker_metadata_metrics_last_applied_record_offset", image.offset)
        page.add("kafka_brokers", len(image.brokers))
        controller = "kafka_controller_kafkacontroller_"
        page.add(f"{controller}activecontrollercount", int(services.quorum.is_leader))
        page.add(f"{controller}activebrokercount", sum(each.active for each in image.brokers.values()))
        page.add(f"{controller}fencedbrokercount", sum(each.fenced for each in image.brokers.values()))
        timed_out = 0 if services.duties is None else services.duties.timed_out
        page.add(f"{controller}timedoutbrokerheartbeatcount", timed_out)
        page.add(f"{controller}globaltopiccount", len(image.topics))
        page.add(f"{controller}lastappliedrecordoffset", image.offset)
        page.add(f"{controller}lastcommittedrecordoffset", max(status.high_watermark - 1, -1))
        partitions = offline = imbalanced = moving = 0
        for topic in sorted(image.topics.values(), key=lambda each: each.name):
            page.add("kafka_topic_partitions", len(topic.partitions), tags(topic=topic.name))
            for index, each in topic.in_order():
                if partitions % ITEMS_PER_LOOK == 0:
                    yield
                partitions += 1
                offline += each.leader < 0
                is_preferred = each.leader == each.replicas[0]
                imbalanced += not is_preferred
                moving += bool(each.adding_replicas or each.removing_replicas)
                label = tags(topic=topic.name, partition=index)
                for name, value in (
                    ("in_sync_replica", len(each.isr)),
                    ("leader", each.leader),
                    ("leader_is_preferred", int(is_preferred)),
                    ("replicas", len(each.replicas)),
                    ("under_replicated_partition", int(len(each.isr) < len(each.replicas))),
                ):
                    family = f"kafka_topic_partition_{name}"
                    page.lines(family).append(f"{family}{label} {value}")
        page.add(f"{controller}globalpartitioncount", partitions)
        page.add(f"{controller}offlinepartitionscount", offline)
        page.add(f"{controller}preferredreplicaimbalancecount", imbalanced)
        page.add(f"{controller}reassigningpartitionscount", moving)

    # -- groups

    def _write_groups(self, page: Page) -> Iterator[None]:
        """Write what the groups that are coordinated here have committed; nothing while a shard is being loaded."""
        try:
            states = self._services.groups.committed_states()
        except KafkaError:
            return
        groups = offsets = 0
        by_state = dict.fromkeys(GROUP_STATES, 0)
        for state in states:
            for group_id, group in sorted(state.groups.items()):
                groups += 1
                name = group.state_name().lower()
                if name in by_state:
                    by_state[name] += 1
                page.add("kafka_consumergroup_members", len(group.members), tags(consumergroup=group_id))
                for topic, partitions in sorted(state.offsets.topics_of(group_id).items()):
                    offsets += len(partitions)
                    self._write_lag(page, group_id, topic, partitions)
                    yield
        manager = "kafka_coordinator_group_groupmetadatamanager_"
        page.add(f"{manager}numgroups", groups)
        page.add(f"{manager}numoffsets", offsets)
        for name, count in by_state.items():
            page.add(f"{manager}numgroups{name}", count)

    def _write_lag(self, page: Page, group_id: str, topic: str, partitions: Any) -> None:
        """Write a group's offsets in a topic, and its lag in partitions of which there is a copy here.

        A follower's high watermark is a fetch older than its leader's, and near enough.
        """
        sum_offset = sum_lag = 0
        knows_lag = False
        for index, committed in sorted(partitions.items()):
            label = tags(consumergroup=group_id, topic=topic, partition=index)
            page.add("kafka_consumergroup_current_offset", committed.offset, label)
            sum_offset += committed.offset
            partition = self._services.partitions.held(topic, index)
            if partition is not None and partition.replica.role is not Role.OFFLINE:
                lag = max(0, partition.replica.high_watermark - committed.offset)
                page.add("kafka_consumergroup_lag", lag, label)
                sum_lag += lag
                knows_lag = True
        label = tags(consumergroup=group_id, topic=topic)
        page.add("kafka_consumergroup_current_offset_sum", sum_offset, label)
        if knows_lag:
            page.add("kafka_consumergroup_lag_sum", sum_lag, label)


def _named(kinds: Sequence[RequestTimes]) -> dict[str, _Times]:
    """Return the times of these kinds of request together, under Kafka's names."""
    at_once = [each.immediate for each in kinds]
    answered_at_once = sum(sum(each.buckets) for each in at_once)
    return {
        "totaltimems": _Times.of(*at_once, *(each.waited for each in kinds)),
        "localtimems": _Times.of(*at_once, *(each.waited_local for each in kinds)),
        "remotetimems": _Times.of(*(each.remote for each in kinds), zeros=answered_at_once),
        "requestqueuetimems": _Times.of(*(each.queued for each in kinds)),
        "throttletimems": _Times.of(*(each.throttled for each in kinds)),
    }


def _write_traffic(page: Page, counted: TopicTraffic, label: str) -> None:
    for name, slot in TOPIC_METERS.items():
        page.add(f"kafka_server_brokertopicmetrics_{name}persec", getattr(counted, slot), label)


def _error_name(code: int) -> str:
    try:
        return ErrorCode(code).name
    except ValueError:
        return str(code)
