"""The doctor's questions to the brokers: versions, quorum, copies, internal topics, disks and clocks."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ottla.base import INTERNAL_TOPICS, METADATA_TOPIC, ErrorCode, KafkaError, NodeId, OttlaError
from ottla.cli.doctor.access import acls, authorizers, listeners
from ottla.cli.doctor.findings import Finding, counted, fail, named, ok, warning
from ottla.cli.doctor.replication import leaders, min_insync, moves

if TYPE_CHECKING:
    from ottla.client import BlockingClient, Cluster

__all__ = ["cluster_checks"]

BROKER_RESOURCE = 4
REPLICATION_KEYS = (
    "default.replication.factor",
    "offsets.topic.replication.factor",
    "transaction.state.log.replication.factor",
)
NO_QUORUM = (
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.NOT_CONTROLLER,
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
)
SAFE_COPIES = 3
CLOCK_SKEW_MS_MAX = 5000
DISK_SHARE_LOW, DISK_SHARE_FULL = 0.10, 0.02
NAMED_MAX = 10
"""Damaged partitions that are named of a directory."""
FENCED_FROM = 2
"""The version of DescribeCluster that tells of fenced brokers."""
SILENT_MS = 10_000
"""A voter that has not caught up for so long does not count on the way to a majority."""


def cluster_checks(client: BlockingClient, cluster: Cluster, *, reachable: bool) -> list[Finding]:
    """Run every check; one that cannot be made says why and does not hide the others.

    Where a broker's address leads nowhere, what only all brokers know is left out.
    """
    of_anyone: list[tuple[str, Callable[[], list[Finding]]]] = [
        ("quorum", lambda: _quorum_and_clock(client)),
        ("writes", lambda: min_insync(client, cluster)),
        ("acls", lambda: acls(client)),
    ]
    of_everyone: list[tuple[str, Callable[[], list[Finding]]]] = [
        ("brokers", lambda: _brokers(client, cluster)),
        ("replication", lambda: _factors(client, cluster)),
        ("moves", lambda: moves(client, cluster)),
        ("disk", lambda: _disks(client, cluster)),
        ("authorizer", lambda: authorizers(client, cluster)),
        ("listeners", lambda: listeners(client, cluster)),
    ]
    findings = [*_partitions(cluster), *leaders(cluster), *_internal(cluster)]
    for name, check in [*of_anyone, *of_everyone] if reachable else of_anyone:
        try:
            findings += check()
        except OttlaError as error:
            findings.append(_unanswered(name, error))
    return findings


def _unanswered(name: str, error: OttlaError) -> Finding:
    """Judge a check that could not be made; a quorum that does not answer at all has lost its majority."""
    if name == "quorum" and isinstance(error, KafkaError) and error.code in NO_QUORUM:
        remedy = "bring most of its voters back: until then nothing can be created, changed or elected"
        return fail(name, f"the metadata quorum does not answer ({error})", remedy)
    return warning(name, f"could not be checked: {error}", "an older broker, or no permission to ask")


def _brokers(client: BlockingClient, cluster: Cluster) -> list[Finding]:
    from ottla.wire.messages.api_versions import ApiVersionsRequest

    offered = {node: client.run(client.client.versions(node)) for node in cluster.nodes}
    request = ApiVersionsRequest(client_software_name="ottla", client_software_version="doctor")
    finalized = {each.name: each.max_version_level for each in client.request(request).finalized_features}
    level = f"metadata.version level {finalized.get('metadata.version', 'unknown')}"
    count = len(cluster.nodes)
    said = f"{count} alive, cluster {cluster.cluster_id}, {level}"
    if len({tuple(sorted(each.items())) for each in offered.values()}) > 1:
        remedy = "finish the upgrade: clients use what every broker knows"
        return [warning("brokers", f"{said}; they run different versions", remedy)]
    if fenced := _fenced(client, offered):
        remedy = (
            "start them, or look in their logs why no controller hears them; `ottla cluster unregister` forgets one"
        )
        return [warning("brokers", f"{said}; fenced: {named(fenced)}", remedy)]
    return [ok("brokers", said)]


def _fenced(client: BlockingClient, offered: dict[NodeId, dict[int, tuple[int, int]]]) -> list[int]:
    """Return the brokers that are registered and do not serve (KIP-1073), where that can be asked."""
    from ottla.wire.messages.describe_cluster import DescribeClusterRequest

    key = DescribeClusterRequest.API_KEY
    assert key is not None
    if not all(each.get(key, (0, 0))[1] >= FENCED_FROM for each in offered.values()):
        return []
    response = client.request(DescribeClusterRequest(include_fenced_brokers=True), lowest=FENCED_FROM)
    return sorted(each.broker_id for each in response.brokers if each.is_fenced)


def _quorum_and_clock(client: BlockingClient) -> list[Finding]:
    from ottla.wire.messages.describe_quorum import DescribeQuorumRequest, RequestPartitionData, RequestTopicData

    topic = RequestTopicData(topic_name=METADATA_TOPIC, partitions=[RequestPartitionData(partition_index=0)])
    request = DescribeQuorumRequest(topics=[topic])
    client.request(request, lowest=1)  # the connection is open when time is measured
    before_ms = time.time() * 1000
    response = client.request(request, lowest=1)
    after_ms = time.time() * 1000
    if response.error_code:
        raise KafkaError(ErrorCode(response.error_code))
    partition = response.topics[0].partitions[0]
    leader = next((each for each in partition.current_voters if each.replica_id == partition.leader_id), None)
    if leader is None:
        return [
            fail(
                "quorum",
                "the metadata quorum has no leader",
                "bring most of its voters back: nothing can be created or changed",
            )
        ]
    voters = partition.current_voters
    silent = [each.replica_id for each in voters if _is_silent(each, leader.last_caught_up_timestamp)]
    said = f"leader {partition.leader_id}, {counted(len(voters), 'voter')}, high watermark {partition.high_watermark}"
    clock = _clock(leader.last_caught_up_timestamp, before_ms, after_ms)
    return [_judged(said, silent, len(voters)), clock]


def _judged(said: str, silent: list[int], voters: int) -> Finding:
    """Judge a quorum by how many of its voters are heard."""
    if 2 * (voters - len(silent)) <= voters:
        remedy = "start them again: without a majority nothing can be created, changed or elected"
        return fail("quorum", f"{said}; no majority, silent: {named(silent)}", remedy)
    if silent:
        return warning("quorum", f"{said}; silent: {named(silent)}", "start these voters again")
    return ok("quorum", said)


def _is_silent(voter: Any, now_ms: int) -> bool:
    """Return whether a voter has not been heard, or not at the log's end, for a while; not every leader tells times."""
    is_late = now_ms > 0 and now_ms - voter.last_caught_up_timestamp > SILENT_MS
    return bool(voter.log_end_offset < 0 or is_late)


def _clock(theirs_ms: int, before_ms: float, after_ms: float) -> Finding:
    """Compare clocks: the quorum's leader says its own time where it says when it was last caught up with itself."""
    if theirs_ms < 0:
        return ok("clock", "the broker does not tell its time")
    skew_ms = theirs_ms - (before_ms + after_ms) / 2
    uncertain_ms = (after_ms - before_ms) / 2
    direction = "ahead" if skew_ms > 0 else "behind"
    said = f"the controller's clock is {abs(skew_ms):.0f} ms {direction} (± {uncertain_ms:.0f} ms)"
    if abs(skew_ms) - uncertain_ms > CLOCK_SKEW_MS_MAX:
        remedy = "synchronise clocks (NTP): retention, look-ups by time and session timeouts depend on them"
        return warning("clock", said, remedy)
    return ok("clock", said)


def _factors(client: BlockingClient, cluster: Cluster) -> list[Finding]:
    values = _broker_configs(client, cluster, [*REPLICATION_KEYS, "min.insync.replicas"])
    alive = len(cluster.nodes)
    findings = []
    for key in REPLICATION_KEYS:
        wanted = int(values.get(key) or 1)
        if wanted > alive:
            remedy = f"start {wanted - alive} more, or lower {key}: topics that use it cannot be created"
            findings.append(
                fail(
                    "replication", f"{key} is {wanted}, and {counted(alive, 'broker is', 'brokers are')} alive", remedy
                )
            )
        elif alive >= SAFE_COPIES and wanted < SAFE_COPIES:
            remedy = f"set {key}={SAFE_COPIES}: with {wanted} a broken disk loses records"
            findings.append(warning("replication", f"{key} is {wanted} on {counted(alive, 'broker')}", remedy))
    if findings:
        return findings
    advice = "one copy of everything: a broken disk loses it" if alive < SAFE_COPIES else "as many as is usual"
    return [
        ok(
            "replication",
            f"default {values.get('default.replication.factor')} on {counted(alive, 'broker')} ({advice})",
        )
    ]


def _broker_configs(client: BlockingClient, cluster: Cluster, keys: list[str]) -> dict[str, str]:
    from ottla.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource

    node = min(cluster.nodes)
    resource = DescribeConfigsResource(resource_type=BROKER_RESOURCE, resource_name=str(node), configuration_keys=keys)
    (result,) = client.request(DescribeConfigsRequest(resources=[resource]), node=node, lowest=1).results
    if result.error_code:
        raise KafkaError(ErrorCode(result.error_code), result.error_message or "")
    return {each.name: each.value or "" for each in result.configs}


def _partitions(cluster: Cluster) -> list[Finding]:
    partitions = [(topic.name, each) for topic in cluster.topics.values() for each in topic.partitions.values()]
    offline = [f"{name}-{each.index}" for name, each in partitions if each.leader not in cluster.nodes]
    short = [f"{name}-{each.index}" for name, each in partitions if len(each.in_sync) < len(each.replicas)]
    findings = []
    if offline:
        remedy = (
            "start the brokers that hold their copies; `ottla topics --describe --unavailable-partitions` lists them"
        )
        findings.append(fail("partitions", f"{len(offline)} without a leader: {named(offline)}", remedy))
    if short := [each for each in short if each not in offline]:
        remedy = (
            "a broker is away or cannot keep up; `ottla topics --describe --under-replicated-partitions` lists them"
        )
        findings.append(warning("partitions", f"{len(short)} lack in-sync copies: {named(short)}", remedy))
    return findings or [
        ok("partitions", f"{len(partitions)} in {counted(len(cluster.topics), 'topic')}, all led and in sync")
    ]


def _internal(cluster: Cluster) -> list[Finding]:
    findings = []
    for name in sorted(INTERNAL_TOPICS):
        topic = cluster.topics.get(name)
        if topic is None:
            continue
        copies = min((len(each.replicas) for each in topic.partitions.values()), default=0)
        said = f"{name}: {counted(len(topic.partitions), 'partition')}, {counted(copies, 'copy', 'copies')}"
        if copies < min(SAFE_COPIES, len(cluster.nodes)):
            remedy = "it was made when fewer brokers were alive: give it more copies with reassign-partitions"
            findings.append(warning("internal", said, remedy))
        else:
            findings.append(ok("internal", said))
    return findings or [ok("internal", "no group or transaction was used yet, so there are no internal topics")]


def _disks(client: BlockingClient, cluster: Cluster) -> list[Finding]:
    from ottla.wire.messages.describe_log_dirs import DescribeLogDirsRequest

    findings = []
    for node in sorted(cluster.nodes):
        for result in client.request(DescribeLogDirsRequest(topics=None), node=node).results:
            where = f"broker {node}, {result.log_dir}"
            findings += [_disk(where, result), *_damage(where, result)]
    return findings


def _damage(where: str, result: Any) -> list[Finding]:
    """Name the partitions whose files a broker has found damaged or missing: it says so by a lag that it does not know."""
    found = [
        f"{topic.name}-{each.partition_index}"
        for topic in result.topics
        for each in topic.partitions
        if each.offset_lag < 0 and not each.is_future_key
    ]
    if not found:
        return []
    more = f" and {len(found) - NAMED_MAX} more" if len(found) > NAMED_MAX else ""
    remedy = "its log says what; with other copies, stop the broker, remove the partition's folder, and start it again"
    return [fail("damage", f"{where}: {', '.join(found[:NAMED_MAX])}{more} cannot be read whole", remedy)]


def _disk(where: str, result: Any) -> Finding:
    if result.error_code:
        remedy = "the disk failed: mend it and start the broker again"
        return fail("disk", f"{where}: {ErrorCode(result.error_code).name}", remedy)
    if result.total_bytes <= 0:
        return ok("disk", f"{where}: in use; its size is not told")
    share = result.usable_bytes / result.total_bytes
    said = f"{where}: {result.usable_bytes / 2**30:.1f} GiB of {result.total_bytes / 2**30:.1f} GiB free"
    remedy = "shorten retention.ms or retention.bytes of large topics (`ottla log-dirs --describe`), or add space"
    if share < DISK_SHARE_FULL:
        return fail("disk", said, f"writes fail when it is full: {remedy}")
    return warning("disk", said, remedy) if share < DISK_SHARE_LOW else ok("disk", said)
