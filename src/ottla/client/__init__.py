"""The asking side of Kafka's protocol.

A `Client` starts from a bootstrap list, negotiates versions with each broker, learns who leads what, and sends any request
to the node that must answer it, again where Kafka says that it may be sent again. Whole record batches go in and out as
bytes (`produce`, `fetch`), several requests in flight at once. `BlockingClient` is the same code on a private event loop,
for programs that have none: the command line and Spark's workers.
"""

from typing import TYPE_CHECKING

from ottla.base import late_imports
from ottla.client.addresses import Address, parse_bootstrap
from ottla.client.batches import Appended, Fetched, FetchPosition, Isolation
from ottla.client.blocking import BlockingClient, Pending
from ottla.client.client import Client, Limits
from ottla.client.cluster import Cluster, Node, Partition, Topic
from ottla.client.connection import Answering, Connection
from ottla.client.coordinators import Coordinated, CoordinatorKind
from ottla.client.offsets import EARLIEST, LATEST, MAX_TIMESTAMP, ListedOffset

if TYPE_CHECKING:
    from ottla.client.group_member import Assign, GroupMember, JoinedGeneration, JoinedMember, JoinRefusedError
    from ottla.client.group_offsets import (
        CommittedOffset,
        ConsumerGroupMetadata,
        commit_offsets,
        committed_offsets,
        delete_group,
        delete_offsets,
    )
    from ottla.client.issuer_keys import IssuerKeys
    from ottla.client.librdkafka import librdkafka_security
    from ottla.client.partition_counts import PartitionCounts
    from ottla.client.partitioning import partition_of
    from ottla.client.producer import (
        IN_FLIGHT_MAX,
        Encoded,
        EncodedRecords,
        Producer,
        ProducerOptions,
        RecordTooLargeError,
        SettledBatch,
        encode_records,
    )
    from ottla.client.record_size import SizeLimit, larger_than_client_sends, larger_than_topic_takes, size_limit
    from ottla.client.security import (
        PROTOCOLS,
        ClientSecurity,
        SecuredNetwork,
        client_network,
        security_of,
        unused_security,
    )
    from ottla.client.topic_log import TopicLog, batch_of
    from ottla.client.topic_scan import OutOfRange, TopicScan
    from ottla.client.topics import DeletedRecords, NewTopic, create_topics, delete_records
    from ottla.client.transactions import TransactionalProducer, init_producer_id
    from ottla.client.web import bounded, web_answer

__all__ = [
    "EARLIEST",
    "IN_FLIGHT_MAX",
    "LATEST",
    "MAX_TIMESTAMP",
    "PROTOCOLS",
    "Address",
    "Answering",
    "Appended",
    "Assign",
    "BlockingClient",
    "Client",
    "ClientSecurity",
    "Cluster",
    "CommittedOffset",
    "Connection",
    "ConsumerGroupMetadata",
    "Coordinated",
    "CoordinatorKind",
    "DeletedRecords",
    "Encoded",
    "EncodedRecords",
    "FetchPosition",
    "Fetched",
    "GroupMember",
    "Isolation",
    "IssuerKeys",
    "JoinRefusedError",
    "JoinedGeneration",
    "JoinedMember",
    "Limits",
    "ListedOffset",
    "NewTopic",
    "Node",
    "OutOfRange",
    "Partition",
    "PartitionCounts",
    "Pending",
    "Producer",
    "ProducerOptions",
    "RecordTooLargeError",
    "SecuredNetwork",
    "SettledBatch",
    "SizeLimit",
    "Topic",
    "TopicLog",
    "TopicScan",
    "TransactionalProducer",
    "batch_of",
    "bounded",
    "client_network",
    "commit_offsets",
    "committed_offsets",
    "create_topics",
    "delete_group",
    "delete_offsets",
    "delete_records",
    "encode_records",
    "init_producer_id",
    "larger_than_client_sends",
    "larger_than_topic_takes",
    "librdkafka_security",
    "parse_bootstrap",
    "partition_of",
    "security_of",
    "size_limit",
    "unused_security",
    "web_answer",
]

_LATE = {
    **dict.fromkeys(
        ("Assign", "GroupMember", "JoinedGeneration", "JoinedMember", "JoinRefusedError"), "ottla.client.group_member"
    ),
    **dict.fromkeys(
        (
            "CommittedOffset",
            "ConsumerGroupMetadata",
            "commit_offsets",
            "committed_offsets",
            "delete_group",
            "delete_offsets",
        ),
        "ottla.client.group_offsets",
    ),
    "IssuerKeys": "ottla.client.issuer_keys",
    "librdkafka_security": "ottla.client.librdkafka",
    "PartitionCounts": "ottla.client.partition_counts",
    "partition_of": "ottla.client.partitioning",
    **dict.fromkeys(
        ("SizeLimit", "larger_than_client_sends", "larger_than_topic_takes", "size_limit"), "ottla.client.record_size"
    ),
    **dict.fromkeys(
        ("PROTOCOLS", "ClientSecurity", "SecuredNetwork", "client_network", "security_of", "unused_security"),
        "ottla.client.security",
    ),
    **dict.fromkeys(("TopicLog", "batch_of"), "ottla.client.topic_log"),
    **dict.fromkeys(("OutOfRange", "TopicScan"), "ottla.client.topic_scan"),
    **dict.fromkeys(("DeletedRecords", "NewTopic", "create_topics", "delete_records"), "ottla.client.topics"),
    **dict.fromkeys(("TransactionalProducer", "init_producer_id"), "ottla.client.transactions"),
    "IN_FLIGHT_MAX": "ottla.client.producer",
    "Encoded": "ottla.client.producer",
    "EncodedRecords": "ottla.client.producer",
    "Producer": "ottla.client.producer",
    "ProducerOptions": "ottla.client.producer",
    "RecordTooLargeError": "ottla.client.producer",
    "SettledBatch": "ottla.client.producer",
    "encode_records": "ottla.client.producer",
    "bounded": "ottla.client.web",
    "web_answer": "ottla.client.web",
}

__getattr__ = late_imports(__name__, _LATE)
"""Imports what packs batches, and with it numpy, and what few ask for, when it is first asked for."""
