"""Every metric that a node shows, by its name in Prometheus: what kind it is, and what it says.

Names are those that dashboards and alerts for Apache Kafka use: Kafka's MBeans in the lower-case form of the JMX exporter
(`kafka_<domain>_<type>_<name>`), of which meters are shown under a second name that ends in `_total`, since both are
common; consumer lag and partitions under the names of the usual Kafka exporter; the process under those of Prometheus'
clients. What none of them has begins with `ottla_`. `docs/metrics.md` is made from this table.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

__all__ = ["FAMILIES", "METER_ALIASES", "Family", "prometheus_name"]

COUNTER, GAUGE, SUMMARY, HISTOGRAM = "counter", "gauge", "summary", "histogram"

DOMAINS = {
    "ControllerStats": "controller",
    "GroupMetadataManager": "coordinator_group",
    "KafkaController": "controller",
    "Log": "log",
    "LogCleaner": "log",
    "LogCleanerManager": "log",
    "LogManager": "log",
    "RequestMetrics": "network",
    "SocketServer": "network",
    "TransactionCoordinator": "coordinator_transaction",
}
"""MBeans' domains by type, behind `kafka.`; `server` for the rest."""

TRAFFIC = {
    "bytesin": "Bytes of record batches that were appended",
    "bytesout": "Bytes of record batches that consumers were sent",
    "messagesin": "Records that were appended",
    "totalproducerequests": "Batches that somebody wanted to append",
    "totalfetchrequests": "Partitions that were read from, or looked at in vain",
    "failedproducerequests": "Batches that were refused",
    "failedfetchrequests": "Partitions that could not be read from",
}
TIMES = {
    "totaltimems": "Milliseconds from a request's arrival until its answer",
    "localtimems": "Milliseconds of it in which the request was worked on before it was answered or began to wait",
    "remotetimems": "Milliseconds of it that were spent waiting for copies, records, the metadata log or a disk",
    "requestqueuetimems": "Milliseconds that requests were held back until an earlier one of their connection was answered",
    "throttletimems": "Milliseconds that quotas kept clients waiting",
}
GROUP_STATES = ("stable", "preparingrebalance", "completingrebalance", "empty", "dead")


@dataclass(frozen=True, slots=True)
class Family:
    """What one metric is; `labels` tells its samples apart."""

    kind: str
    text: str
    labels: tuple[str, ...] = ()


def prometheus_name(kind: str, name: str) -> str:
    """Return the name of an MBean's value, such as `ReplicaManager` and `LeaderCount`."""
    return f"kafka_{DOMAINS.get(kind, 'server')}_{kind}_{name}".lower().replace("-", "_")


def _families() -> Iterator[tuple[str, Family]]:
    for name, text in TRAFFIC.items():
        about = f"{text}, of all topics and of each"
        yield f"kafka_server_brokertopicmetrics_{name}persec", Family(COUNTER, about, ("topic",))
    yield "kafka_network_requestmetrics_requestspersec", Family(COUNTER, "Requests that came", ("request",))
    yield (
        "kafka_network_requestmetrics_errorspersec",
        Family(COUNTER, "Errors in answers, without NONE", ("request", "error")),
    )
    for name, text in TIMES.items():
        labels = ("request", "quantile")
        yield f"kafka_network_requestmetrics_{name}", Family(SUMMARY, f"{text}; of the last minutes", labels)
    yield (
        "ottla_request_duration_seconds",
        Family(HISTOGRAM, "Seconds from a request's arrival until its answer", ("request",)),
    )
    yield from _of_the_node()
    yield from _of_clients()
    yield from _of_partitions()
    yield from _of_the_cluster()
    yield from _of_groups()
    yield from _of_the_process()


def _of_the_node() -> Iterator[tuple[str, Family]]:
    server, log = "kafka_server_", "kafka_log_"
    for name, text in {
        "kafkaserver_brokerstate": "1 starting, 2 recovering logs, 3 running, 6 shutting down",
        "replicamanager_partitioncount": "Partitions that are held",
        "replicamanager_leadercount": "Partitions that are led",
        "replicamanager_offlinereplicacount": "Partitions whose log directory or files are offline, or that were not opened",
        "replicamanager_underreplicatedpartitions": "Led partitions with a replica that is not in sync",
        "replicamanager_underminisrpartitioncount": "Led partitions with fewer in-sync replicas than min.insync.replicas",
        "replicamanager_atminisrpartitioncount": "Led partitions with exactly min.insync.replicas in-sync replicas",
        "replicamanager_reassigningpartitions": "Led partitions whose replicas are being moved",
        "replicafetchermanager_maxlag": "Largest lag of a followed partition, in records below its leader's high watermark",
        "replicafetchermanager_failedpartitionscount": "Followed partitions that are not fetched until metadata changes",
        "leaderreplication_byte_rate": "Bytes per second that are sent of replicas with a limit",
        "followerreplication_byte_rate": "Bytes per second that are fetched of replicas with a limit",
        "replicafetchermanager_deadthreadcount": "Fetchers that have ended; always 0",
        "delayedoperationpurgatory_numdelayedoperations": "Produce and Fetch requests that wait",
        "fetchsessioncache_numincrementalfetchsessions": "Fetch sessions",
        "fetchsessioncache_numincrementalfetchpartitionscached": "Partitions in fetch sessions",
        "kafkarequesthandlerpool_requesthandleravgidlepercent": "Idle share of the event loop's thread, from 0 to 1",
    }.items():
        yield server + name, Family(GAUGE, text)
    for name, text in {
        "isrshrinkspersec": "Changes of an ISR to fewer copies that this broker's leaders have made",
        "isrexpandspersec": "Changes of an ISR to more copies",
        "failedisrupdatespersec": "Changes of an ISR that the controller has refused",
    }.items():
        yield f"{server}replicamanager_{name}", Family(COUNTER, text)
    yield (
        f"{server}brokertopicmetrics_replicationbytesinpersec",
        Family(COUNTER, "Bytes that were appended as a follower"),
    )
    yield (
        f"{server}brokertopicmetrics_replicationbytesoutpersec",
        Family(COUNTER, "Bytes of record batches that followers were sent"),
    )
    idle = "The same: one thread is both"
    yield "kafka_network_socketserver_networkprocessoravgidlepercent", Family(GAUGE, idle)
    sockets = f"{server}socket_server_metrics_"
    yield f"{sockets}connection_count", Family(GAUGE, "Open connections", ("listener",))
    yield f"{sockets}connection_creation_total", Family(COUNTER, "Connections ever served", ("listener",))
    yield from _of_logins(sockets)
    yield from _of_authorizer()
    ends = "When the first certificate that a listener shows ends, in seconds since 1970"
    yield "ottla_tls_certificate_end_seconds", Family(GAUGE, ends, ("listener",))
    yield f"{sockets}incoming_byte_total", Family(COUNTER, "Bytes of requests")
    yield f"{sockets}outgoing_byte_total", Family(COUNTER, "Bytes of answers")
    yield f"{log}logmanager_offlinelogdirectorycount", Family(GAUGE, "Log directories that have failed")
    for name, text in {
        "logcleanermanager_max_dirty_percent": "Dirtiest log's share of bytes that compaction has not seen",
        "logcleanermanager_time_since_last_run_ms": "Milliseconds since a log was compacted",
        "logcleaner_cleaner_recopy_percent": "Share of the bytes read that the last compaction has kept",
        "logcleaner_max_buffer_utilization_percent": "How full the last compaction's table of keys was",
        "logcleaner_max_clean_time_secs": "Seconds that the last compaction took",
        "logcleaner_max_compaction_delay_secs": "How late the latest compaction is by max.compaction.lag.ms",
        "logcleaner_deadthreadcount": "1 where the cleaner has ended",
    }.items():
        yield log + name, Family(GAUGE, text)
    directory = ("logDirectory",)
    yield f"{log}logcleanermanager_uncleanable_partitions_count", Family(GAUGE, "Damaged compacted logs", directory)
    yield f"{log}logcleanermanager_uncleanable_bytes", Family(GAUGE, "Bytes in damaged compacted logs", directory)
    for name, text in {
        "disk_total_bytes": "Size of a log directory's file system",
        "disk_free_bytes": "Bytes free in it",
        "damaged_partitions": "Its partitions with damaged or missing files",
    }.items():
        yield f"ottla_storage_{name}", Family(GAUGE, text, ("log_dir",))


def _of_authorizer() -> Iterator[tuple[str, Family]]:
    plugins = "kafka_server_plugins_"
    yield f"{plugins}acls_total_count", Family(GAUGE, "Access control entries in force; where an authorizer is set")
    yield f"{plugins}authorization_allowed_total", Family(COUNTER, "Decisions of the authorizer that allowed something")
    yield f"{plugins}authorization_denied_total", Family(COUNTER, "Decisions of the authorizer that denied something")
    yield (
        "ottla_audit_lines_left_out_total",
        Family(COUNTER, "Lines that the audit log had no room for in their second"),
    )


def _of_logins(sockets: str) -> Iterator[tuple[str, Family]]:
    shown = "Times that somebody has shown who he is, by certificate or by login"
    yield f"{sockets}successful_authentication_total", Family(COUNTER, shown, ("listener",))
    refused = "TLS handshakes and logins that have failed"
    yield f"{sockets}failed_authentication_total", Family(COUNTER, refused, ("listener",))
    renewed = "Logins that were renewed on their open connection"
    yield f"{sockets}successful_reauthentication_total", Family(COUNTER, renewed, ("listener",))
    not_renewed = "Renewals of logins that have failed"
    yield f"{sockets}failed_reauthentication_total", Family(COUNTER, not_renewed, ("listener",))
    yield (
        f"{sockets}reauthentication_latency_avg",
        Family(GAUGE, "Milliseconds that renewing a login takes, on average"),
    )
    yield f"{sockets}reauthentication_latency_max", Family(GAUGE, "The longest of them since the start")
    killed = "Connections closed because they went on after the end of their login"
    yield "kafka_network_socketserver_expiredconnectionskilledcount", Family(COUNTER, killed)
    yield "ottla_logins_pending_connections", Family(GAUGE, "Connections that have yet to log in")
    pushed_out = "Connections closed before their login because there were too many such"
    yield "ottla_logins_pushed_out_connections_total", Family(COUNTER, pushed_out)


def _of_clients() -> Iterator[tuple[str, Family]]:
    limit, user = "Quotas that somebody has used lately; an address stands in `user`", ("quota", "user", "client_id")
    yield "ottla_quota_limit", Family(GAUGE, limit, user)
    yield "ottla_quota_rate", Family(GAUGE, "What is used of them, per second", user)
    yield "ottla_quota_throttled_total", Family(COUNTER, "How often a quota made a client wait", ("quota",))
    yield "ottla_answers_held_bytes", Family(GAUGE, "Memory of answers that clients have not read yet")
    yield "ottla_answers_waiting_requests", Family(GAUGE, "Requests that wait because too many answers are not read")
    yield (
        "ottla_answers_cut_off_connections_total",
        Family(COUNTER, "Connections closed because they read nothing of their answers while others waited"),
    )
    pool = "kafka_network_socketserver_memorypool"
    yield f"{pool}used", Family(GAUGE, "Memory of requests that are being received or wait to be handled")
    yield f"{pool}available", Family(GAUGE, "What is left of queued.max.request.bytes")
    yield "ottla_requests_waiting_connections", Family(GAUGE, "Connections not read from because none is left")


def _of_partitions() -> Iterator[tuple[str, Family]]:
    labels = ("topic", "partition")
    for name, text in {
        "size": "Bytes of a partition's log",
        "logendoffset": "Offset that the next record gets",
        "logstartoffset": "First offset that is kept",
        "numlogsegments": "Segments of a partition's log",
    }.items():
        yield f"kafka_log_log_{name}", Family(GAUGE, text, labels)
    lag = "Records of a followed partition below its leader's high watermark that are not here yet"
    yield "kafka_server_fetcherlagmetrics_consumerlag", Family(GAUGE, lag, labels)
    for name, text in {
        "current_offset": "High watermark of a partition that is led here",
        "oldest_offset": "First offset of a partition that is led here",
        "in_sync_replica": "In-sync replicas",
        "leader": "Node that leads",
        "leader_is_preferred": "1 where the first replica leads",
        "replicas": "Copies that there are to be",
        "under_replicated_partition": "1 where a replica is not in sync",
    }.items():
        yield f"kafka_topic_partition_{name}", Family(GAUGE, text, labels)
    yield "kafka_topic_partitions", Family(GAUGE, "Partitions of a topic", ("topic",))


def _of_the_cluster() -> Iterator[tuple[str, Family]]:
    yield "kafka_brokers", Family(GAUGE, "Brokers that are registered")
    for name, text in {
        "activecontrollercount": "1 where this node leads the metadata quorum",
        "timedoutbrokerheartbeatcount": "Brokers that this controller has fenced because they were silent, or gone",
        "activebrokercount": "Brokers that serve",
        "fencedbrokercount": "Brokers that do not",
        "globaltopiccount": "Topics",
        "globalpartitioncount": "Partitions",
        "offlinepartitionscount": "Partitions without a leader",
        "preferredreplicaimbalancecount": "Partitions that another than their first replica leads",
        "reassigningpartitionscount": "Partitions whose replicas are being moved",
        "lastappliedrecordoffset": "Offset of the last metadata record that this node knows to be committed",
        "lastcommittedrecordoffset": "Offset of the last metadata record that the quorum's node here has as committed",
    }.items():
        yield f"kafka_controller_kafkacontroller_{name}", Family(GAUGE, text)
    for name, text in {
        "uncleanleaderelectionspersec": "Leaders that were elected although they may lack records",
        "electionfromeligibleleaderreplicaspersec": "Leaders that were elected because they were eligible (KIP-966)",
    }.items():
        yield f"kafka_controller_controllerstats_{name}", Family(COUNTER, text)
    for name, text in {
        "current_leader": "Node that leads the metadata quorum, -1 where none is known",
        "current_epoch": "Epoch of the metadata quorum",
        "current_vote": "Node that this one voted for in the epoch, -1 where for none",
        "commit_latency_avg": "Milliseconds from a metadata record's append at its leader until it is committed, of late",
        "commit_latency_max": "The longest of them",
        "election_latency_avg": "Milliseconds from a campaign until a leader is known, of late",
        "election_latency_max": "The longest of them",
        "high_watermark": "Committed end of the metadata log",
        "log_end_offset": "End of the metadata log",
        "number_of_voters": "Nodes that vote in the metadata quorum",
        "number_of_observers": "Other nodes that fetch metadata from this one, where it leads the quorum",
    }.items():
        yield f"kafka_server_raft_metrics_{name}", Family(GAUGE, text)
    state = "1 for what this node is in the metadata quorum: leader, follower, observer, candidate, prospective, …"
    yield "kafka_server_raft_metrics_current_state", Family(GAUGE, state, ("state",))
    applied = "Offset of the last metadata record that this broker serves by"
    yield "kafka_server_broker_metadata_metrics_last_applied_record_offset", Family(GAUGE, applied)


def _of_groups() -> Iterator[tuple[str, Family]]:
    place = ("consumergroup", "topic", "partition")
    yield "kafka_consumergroup_current_offset", Family(GAUGE, "Offset that a group has committed", place)
    yield "kafka_consumergroup_lag", Family(GAUGE, "Records between it and the high watermark", place)
    yield "kafka_consumergroup_current_offset_sum", Family(GAUGE, "Sum over a topic's partitions", place[:2])
    yield "kafka_consumergroup_lag_sum", Family(GAUGE, "Sum over a topic's partitions", place[:2])
    yield "kafka_consumergroup_members", Family(GAUGE, "Members of a group", place[:1])
    manager = "kafka_coordinator_group_groupmetadatamanager_"
    yield f"{manager}numgroups", Family(GAUGE, "Groups that are coordinated here")
    yield f"{manager}numoffsets", Family(GAUGE, "Offsets that they have committed")
    for state in GROUP_STATES:
        yield f"{manager}numgroups{state}", Family(GAUGE, f"Groups in the state {state}")


def _of_the_process() -> Iterator[tuple[str, Family]]:
    yield "process_cpu_seconds_total", Family(COUNTER, "Processor seconds, of child processes too")
    yield "process_resident_memory_bytes", Family(GAUGE, "Memory in use")
    yield "process_virtual_memory_bytes", Family(GAUGE, "Addresses in use")
    yield "process_open_fds", Family(GAUGE, "Open file descriptors")
    yield "process_max_fds", Family(GAUGE, "File descriptors that may be open")
    yield "process_start_time_seconds", Family(GAUGE, "When the node was started, in seconds since 1970")
    yield "ottla_build_info", Family(GAUGE, "Always 1; the labels say what runs", ("version", "build", "node_id"))
    failed = "Mistakes of Ottla's own that its log tells: requests, and what runs in the background"
    yield "ottla_own_failures_total", Family(COUNTER, failed)
    yield "ottla_scrape_seconds", Family(GAUGE, "How long the page before this one took to make")


FAMILIES: dict[str, Family] = dict(_families())
METER_ALIASES = {name: f"{name.removesuffix('persec')}_total" for name in FAMILIES if name.endswith("persec")}
"""The second name of each meter, as the JMX exporter's example rules give it."""
FAMILIES |= {alias: FAMILIES[name] for name, alias in METER_ALIASES.items()}
