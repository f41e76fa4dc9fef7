"""Files of `ottla reassign-partitions`: JSON that names each partition's replicas and where on their disks they lie."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from ottla.admin import ReassignmentPlan, TopicPartitionReplica, duplicates, invalid_request
from ottla.base import TopicPartition
from ottla.cli.json_files import entries, parsed, topic_partition, value
from ottla.cli.json_files import field as field_of

__all__ = ["parse_plan", "parse_topics", "plan_json"]

ANY_LOG_DIR = "any"
VERSION = 1


def parse_plan(text: str | bytes) -> ReassignmentPlan:
    """Read a plan; raises KafkaError for what is missing in it, or of a wrong kind."""
    document = parsed(text)
    check_version(document)
    targets = []
    log_dirs = {}
    for each in entries(document, "partitions"):
        partition = topic_partition(each)
        replicas = [value(broker, int) for broker in field_of(each, "replicas", list)]
        wanted = [value(path, str) for path in entries(each, "log_dirs")] if "log_dirs" in each else None
        if wanted is not None and len(wanted) != len(replicas):
            raise invalid_request(
                f"Size of replicas list {_listed(replicas)} is different from size of log dirs list {_listed(wanted)} "
                f"for partition {partition}"
            )
        targets.append((partition, replicas))
        for broker, path in zip(replicas, wanted or [], strict=False):
            if path != ANY_LOG_DIR:
                log_dirs[TopicPartitionReplica(broker, *partition)] = path
    return ReassignmentPlan(targets, log_dirs)


def parse_topics(text: str | bytes) -> list[str]:
    """Read which topics shall move; raises KafkaError for a file that does not say so."""
    document = parsed(text)
    check_version(document)
    found = [str(field_of(each, "topic", str)) for each in entries(document, "topics")]
    if twice := duplicates(found):
        raise invalid_request(f"List of topics to reassign contains duplicate entries: {_listed(twice)}")
    return found


def check_version(document: Mapping[str, object]) -> None:
    """Raise KafkaError for a file of a version that is not known."""
    version = value(document.get("version", VERSION), int)
    if version != VERSION:
        raise invalid_request(f"Not supported version field value {version}")


def _listed(values: Sequence[object]) -> str:
    return f"[{', '.join(map(str, values))}]"


def plan_json(assignment: Mapping[TopicPartition, Sequence[int]], log_dirs: Mapping[TopicPartitionReplica, str]) -> str:
    """Return a plan as one line of JSON."""
    partitions = [
        {
            "topic": partition.topic,
            "partition": partition.partition,
            "replicas": list(replicas),
            "log_dirs": [log_dirs.get(TopicPartitionReplica(broker, *partition), ANY_LOG_DIR) for broker in replicas],
        }
        for partition, replicas in sorted(assignment.items())
    ]
    return json.dumps({"version": VERSION, "partitions": partitions}, separators=(",", ":"), ensure_ascii=False)
