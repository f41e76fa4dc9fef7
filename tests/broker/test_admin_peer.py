"""The same administrative requests to Apache Kafka and to a node of ours, answer by answer; Kafka's tools on our files."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from ottla.wire import Message
from ottla.wire.messages import alter_configs as ac
from ottla.wire.messages import create_partitions as cp
from ottla.wire.messages import create_topics as ct
from ottla.wire.messages import delete_topics as dt
from ottla.wire.messages import describe_configs as dc
from ottla.wire.messages import describe_topic_partitions as dtp
from ottla.wire.messages import incremental_alter_configs as ia
from ottla.wire.messages.describe_cluster import DescribeClusterRequest
from ottla.wire.messages.describe_quorum import DescribeQuorumRequest, RequestPartitionData, RequestTopicData
from ottla.wire.messages.init_producer_id import InitProducerIdRequest
from ottla.wire.messages.list_config_resources import ListConfigResourcesRequest
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests import peer
from tests.broker.node_client import NodeClient, running_node, start_node
from tests.ports import free_port

# Kafka's broker starts beside ours, and only a change of these APIs breaks it: with `make compat`.
pytestmark = [pytest.mark.peer, pytest.mark.slow]

TIMEOUT_MS = 20_000
COORDINATOR_LOAD_IN_PROGRESS = 14
METADATA_ASKED_MAX = 20_000
VOLATILE = re.compile(
    r"\.port$|cluster_id$|topic_id$|timestamp$|high_watermark$|leader_epoch$|log_end_offset$|producer_id$|documentation$"
    r"|directory_id$|\.nodes"
)
"""What no two clusters share; the listeners of `nodes`, since a node of ours needs no controller listener."""

Asked = tuple[str, Message, int]


def topic(name: str, partitions: int = 1, replicas: int = 1, *assigned: tuple[int, list[int]], **configs: Any) -> Any:
    return ct.CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replicas,
        assignments=[ct.CreatableReplicaAssignment(partition_index=at, broker_ids=ids) for at, ids in assigned],
        configs=[ct.CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()],
    )


def create(*topics: Any, validate_only: bool = False) -> Message:
    return ct.CreateTopicsRequest(topics=list(topics), timeout_ms=TIMEOUT_MS, validate_only=validate_only)


def resource(kind: int, name: str, *operations: tuple[str, int, str | None]) -> Any:
    return ia.AlterConfigsResource(
        resource_type=kind,
        resource_name=name,
        configs=[ia.AlterableConfig(name=key, config_operation=op, value=value) for key, op, value in operations],
    )


def altered(*resources: Any, validate_only: bool = True) -> Message:
    return ia.IncrementalAlterConfigsRequest(resources=list(resources), validate_only=validate_only)


def described(kind: int, name: str, *keys: str) -> Message:
    wanted = dc.DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=list(keys) if keys else None
    )
    return dc.DescribeConfigsRequest(resources=[wanted], include_synonyms=True)


def grown(name: str, count: int, *assigned: list[int]) -> Any:
    given = [cp.CreatePartitionsAssignment(broker_ids=ids) for ids in assigned] if assigned else None
    return cp.CreatePartitionsTopic(name=name, count=count, assignments=given)


def metadata(*names: str, **fields: Any) -> Message:
    return MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in names], **fields)


def making() -> Iterator[Asked]:
    """What both clusters hold before they are compared."""
    yield "make topics", create(topic("alpha", 3, retention_ms="1000", cleanup_policy="compact"), topic("beta")), 7
    yield "grow", cp.CreatePartitionsRequest(topics=[grown("beta", 4)], timeout_ms=TIMEOUT_MS), 3
    yield "make more", create(topic("x.y"), topic("gone")), 7
    yield "delete", dt.DeleteTopicsRequest(topics=[dt.DeleteTopicState(name="gone")], timeout_ms=TIMEOUT_MS), 6
    yield (
        "alter",
        altered(
            resource(2, "alpha", ("cleanup.policy", 2, "delete"), ("retention.ms", 1, None)),
            resource(4, "1", ("log.cleaner.threads", 0, "2")),
            resource(32, "g", ("consumer.session.timeout.ms", 0, "50000")),
            resource(16, "m", ("interval.ms", 0, "1000"), ("match", 0, "client_id=x")),
            validate_only=False,
        ),
        1,
    )


def topics_asked() -> Iterator[Asked]:
    for version in range(14):
        yield "metadata of all", MetadataRequest(topics=[] if version == 0 else None), version
    for version in (4, 8, 10, 12, 13):
        request = metadata(
            *("alpha", "a b", "missing", ""),
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=version >= 8,
        )
        yield "metadata of some", request, version
    by_id = MetadataRequest(topics=[MetadataRequestTopic(name=None, topic_id=b"x" * 16)])
    yield "metadata by id", by_id, 12
    yield "metadata by id too early", by_id, 10
    for version in (2, 5, 7):
        yield (
            "create",
            create(
                *(topic("v1"), topic("alpha"), topic(""), topic("x_y"), topic("."), topic("z" * 250)),
                *(topic("m1", 1, 1, (0, [1])), topic("m2", -1, 1, (0, [1])), topic("m3", 1, -1, (0, [1]))),
                *(topic("m4", -1, -1, (0, [1]), (0, [1])), topic("m5", -1, -1, (0, [1]), (2, [1]))),
                *(topic("m6", -1, -1, (0, [9])), topic("m7", -1, -1, (0, [])), topic("m8", -1, -1, (0, [1, 1]))),
                *(topic("m9", -1, -1, (0, [1])), topic("twice"), topic("twice"), topic("default", -1, -1)),
                *(topic("__cluster_metadata"), topic("r0", 1, 0), topic("r2", 1, 2), topic("p0", 0)),
                *(topic("c1", retention_ms=None), topic("c2", retention_ms="x"), topic("c3", none_such="1")),
                validate_only=True,
            ),
            version,
        )
    yield "create too many", create(topic("big", 10_001), validate_only=True), 7
    states = [
        *(dt.DeleteTopicState(name="missing"), dt.DeleteTopicState(name=None, topic_id=b"x" * 16)),
        *(dt.DeleteTopicState(name=None), dt.DeleteTopicState(name="both", topic_id=b"x" * 16)),
        *(dt.DeleteTopicState(name="twice"), dt.DeleteTopicState(name="twice")),
    ]
    yield "delete", dt.DeleteTopicsRequest(topics=states, timeout_ms=TIMEOUT_MS), 6
    for version in (1, 5):
        names = ["missing", "twice", "twice"]
        yield "delete by name", dt.DeleteTopicsRequest(topic_names=names, timeout_ms=TIMEOUT_MS), version
    growing = [
        *(grown("alpha", 5, [1]), grown("beta", 5, [1, 1]), grown("missing", 5), grown("x.y", 0)),
        *(grown("twice", 5), grown("twice", 5)),
    ]
    for version in range(4):
        request = cp.CreatePartitionsRequest(topics=growing, timeout_ms=TIMEOUT_MS, validate_only=True)
        yield "grow", request, version


def pages_asked() -> Iterator[Asked]:
    for names, limit, cursor in (
        (("alpha", "beta", "missing", "a b"), 5, None),
        (("alpha", "beta"), 2, None),
        (("alpha", "beta"), 2, dtp.Cursor(topic_name="alpha", partition_index=2)),
        (("alpha", "beta"), 3, None),
        (("alpha",), 0, None),
        (("alpha",), 5, dtp.Cursor(topic_name="alpha", partition_index=-2)),
        ((), 3, None),
    ):
        topics = [dtp.TopicRequest(name=name) for name in names]
        yield (
            f"page {names} {limit}",
            dtp.DescribeTopicPartitionsRequest(topics=topics, response_partition_limit=limit, cursor=cursor),
            0,
        )


def configs_asked() -> Iterator[Asked]:
    for version in (1, 4):
        for kind, name in ((2, "alpha"), (2, "missing"), (4, "9"), (4, "x"), (4, ""), (8, ""), (8, "7")):
            yield f"describe {kind} {name}", described(kind, name), version
        for kind, name in ((16, "m"), (16, "none"), (32, "g"), (32, "none"), (32, "")):
            yield f"describe {kind} {name}", described(kind, name), version
        yield "describe keys", described(2, "alpha", "retention.ms", "cleanup.policy", "none.such"), version
    for version in (0, 1):
        yield (
            "alter",
            altered(
                *(resource(2, "alpha", ("retention.ms", 0, "5")), resource(2, "missing", ("retention.ms", 0, "5"))),
                *(resource(2, "", ("retention.ms", 0, "5")), resource(2, "beta", ("none.such", 0, "5"))),
                *(resource(2, "x.y", ("retention.ms", 2, "5")), resource(4, "", ("listeners", 0, "x"))),
                *(resource(4, "1", ("node.id", 0, "5")), resource(32, "g", ("consumer.session.timeout.ms", 0, "5"))),
                *(resource(32, "g2", ("none", 0, "5")), resource(32, "", ("none", 0, "5"))),
                *(resource(16, "m", ("match", 0, "none=1")), resource(16, "m2", ("interval.ms", 0, "1"))),
                *(resource(16, "m3", ("none", 0, "1")), resource(8, "9", ("root", 0, "DEBUG"))),
            ),
            version,
        )
    twice = resource(2, "alpha", ("retention.ms", 0, "5"), ("retention.ms", 0, "6"))
    yield "alter oddly", altered(twice, resource(2, "beta", ("retention.ms", 0, None))), 1
    replaced = [
        ac.AlterConfigsResource(
            resource_type=kind, resource_name=name, configs=[ac.AlterableConfig(name=key, value=value)]
        )
        for kind, name, key, value in (
            *((2, "alpha", "retention.ms", None), (2, "missing", "retention.ms", "1")),
            *((8, "1", "root", "INFO"), (4, "1", "log.cleaner.threads", "1")),
        )
    ]
    for version in range(3):
        yield "replace", ac.AlterConfigsRequest(resources=replaced, validate_only=True), version


def cluster_asked() -> Iterator[Asked]:
    for version in range(3):
        for kind in (1,) if version == 0 else (1, 2, 3):
            request = DescribeClusterRequest(endpoint_type=kind, include_cluster_authorized_operations=True)
            yield f"cluster {kind}", request, version
    for version in range(3):
        for name in ("__cluster_metadata", "alpha"):
            partitions = [RequestPartitionData(partition_index=0)]
            request = DescribeQuorumRequest(topics=[RequestTopicData(topic_name=name, partitions=partitions)])
            yield f"quorum {name}", request, version
    for version, kinds in ((0, []), (1, []), (1, [2, 4]), (1, [16]), (1, [77]), (1, [2, 77])):
        yield f"list {kinds}", ListConfigResourcesRequest(resource_types=kinds), version
    for transactional_id, producer_id, epoch in (("", -1, -1), (None, 5, -1), (None, -1, -1), (None, 5, 2)):
        request = InitProducerIdRequest(
            transactional_id=transactional_id, producer_id=producer_id, producer_epoch=epoch
        )
        yield f"init {transactional_id} {producer_id} {epoch}", request, 4


def flat(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every leaf with its path; elements of lists are named rather than numbered, since order is nobody's promise."""
    if isinstance(value, Message):
        for each in value.FIELDS:
            yield from flat(getattr(value, each.name), f"{path}.{each.name}")
    elif isinstance(value, list | tuple):
        if not value:
            yield path, "none"
        for at, each in enumerate(sorted(value, key=str) if value and not isinstance(value[0], Message) else value):
            names = [str(getattr(each, name, "")) for name in ("resource_type", "resource_name", "name", "topic_name")]
            index = getattr(each, "partition_index", getattr(each, "source", ""))
            # what has no name may have an id: an error about one of these must not stand in the other's place
            id_kind = (
                "by id" if getattr(each, "name", "") is None and any(bytes(getattr(each, "topic_id", b""))) else ""
            )
            label = "/".join([*names, str(index), id_kind]).strip("/") or str(at)
            yield from flat(each, f"{path}[{label}]")
    else:
        yield path, value


async def answer(client: NodeClient, request: Message, version: int) -> dict[str, Any]:
    """Return the answer's leaves; a broker that is still loading is asked again."""
    while getattr(found := await client.ask(request, version), "error_code", 0) == COORDINATOR_LOAD_IN_PROGRESS:
        pass
    return dict(flat(found))


async def made_is_known(client: NodeClient) -> None:
    """Return when the broker's own view has what was made: Kafka's controller answers before its broker has heard."""
    for _ in range(METADATA_ASKED_MAX):
        found = await client.ask(MetadataRequest(topics=None), 12)
        if {each.name: len(each.partitions) for each in found.topics} == {"alpha": 3, "beta": 4, "x.y": 1}:
            return
    raise AssertionError(f"what was made was not known after {METADATA_ASKED_MAX} questions")


async def answers(client: NodeClient, asked: list[Asked]) -> list[dict[str, Any]]:
    return [await answer(client, request, version) for _, request, version in asked]


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, tuple[dict[str, Any], dict[str, Any]]]]:
    """Return both answers to everything, by what was asked."""
    asked = [*topics_asked(), *pages_asked(), *configs_asked(), *cluster_asked()]
    port = free_port()

    async def ours() -> list[dict[str, Any]]:
        async with running_node(tmp_path_factory.mktemp("ottla"), "node.id=1") as client:
            await answers(client, list(making()))
            return await answers(client, asked)

    async def theirs() -> list[dict[str, Any]]:
        client = NodeClient(cast(Any, None), *await asyncio.open_connection("127.0.0.1", port))
        await answers(client, list(making()))
        await made_is_known(client)
        try:
            return await answers(client, asked)
        finally:
            client.close()

    with peer.running_broker(tmp_path_factory.mktemp("kafka"), port, heap="400m"):
        kafka = asyncio.run(asyncio.wait_for(theirs(), 100))
    ottla = asyncio.run(asyncio.wait_for(ours(), 100))
    names = [f"{at}: {name} v{version}" for at, (name, _, version) in enumerate(asked)]
    yield {name: pair for name, *pair in zip(names, ottla, kafka, strict=True)}  # type: ignore[misc]


def test_answers_are_kafkas(both: dict[str, tuple[dict[str, Any], dict[str, Any]]]) -> None:
    wrong = []
    for name, (ottla, kafka) in both.items():
        for path in sorted(ottla.keys() | kafka.keys()):
            one, other = ottla.get(path, "absent"), kafka.get(path, "absent")
            if one != other and not VOLATILE.search(path):
                wrong.append(f"{name} {path}: ours {one!r}, Kafka's {other!r}")
    assert not wrong, f"{len(wrong)} differences\n" + "\n".join(wrong[:60])


def test_kafkas_dump_tool_reads_the_metadata_log_and_its_snapshots(tmp_path: Path) -> None:
    async def make() -> None:
        node = await start_node(tmp_path, "metadata.log.max.record.bytes.between.snapshots=3000")
        client = await NodeClient.connect(node)
        for index in range(20):
            await client.create(f"topic-{index}", 3, retention_ms="5000")
        client.close()
        await node.stop()

    asyncio.run(asyncio.wait_for(make(), 100))
    folder = tmp_path / "__cluster_metadata-0"
    snapshots = sorted(folder.glob("*.checkpoint"))
    assert len(snapshots) > 1
    files = [folder / "00000000000000000000.log", snapshots[0], snapshots[-1], tmp_path / "bootstrap.checkpoint"]
    for file in files:
        done = peer.tool("dump-log", "--cluster-metadata-decoder", "--files", str(file))
        text = done.stdout + done.stderr
        assert done.returncode == 0 and "isvalid: true" in text, text
        assert not re.search(r"exception|error|isvalid: false|mismatch", text, re.IGNORECASE), text
    assert (
        '"type":"TOPIC_RECORD"'
        in peer.tool("dump-log", "--cluster-metadata-decoder", "--files", str(snapshots[-1])).stdout
    )
