"""The doctor's questions about a schema registry: the topic that it keeps everything in, and the instance that is named."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ottla.admin import RestError
from ottla.cli.doctor.findings import Finding, counted, fail, ok, warning

if TYPE_CHECKING:
    from ottla.admin import Worker
    from ottla.client import BlockingClient, Cluster

__all__ = ["instance_checks", "topic_checks"]

CHECK = "registry"
TOPIC = "_schemas"
SAFE_COPIES = 3
UNREADABLE = re.compile(r"^ottla_registry_records_unreadable_total (\d+)", re.MULTILINE)


def topic_checks(client: BlockingClient, cluster: Cluster) -> list[Finding]:
    """Judge the topic of the cluster's registry, where there is one: what deletes records from it deletes schemas."""
    from ottla.admin import ConfigEntity, describe_configs

    topic = cluster.topics.get(TOPIC)
    if topic is None:
        return []
    if len(topic.partitions) != 1:
        said = f"{TOPIC} has {len(topic.partitions)} partitions, and a registry reads the first one only"
        return [
            fail(
                CHECK, said, "make the topic again with one partition, and import what `ottla registry export` printed"
            )
        ]
    entity = ConfigEntity("topics", TOPIC)
    found = {each.name: each.value for each in describe_configs(client, [entity], keys=["cleanup.policy"])[entity]}
    policy = found.get("cleanup.policy") or ""
    if "delete" in policy or "compact" not in policy:
        said = f"{TOPIC} has cleanup.policy={policy}: schemas will be deleted"
        return [fail(CHECK, said, f"`ottla configs --alter --topic {TOPIC} --add-config cleanup.policy=compact`")]
    copies = len(topic.partitions[0].replicas)
    if copies < min(SAFE_COPIES, len(cluster.nodes)):
        said = f"{TOPIC} has {copies} of {counted(min(SAFE_COPIES, len(cluster.nodes)), 'copy', 'copies')}"
        return [
            warning(CHECK, said, "`ottla reassign-partitions` gives it more: what is lost with it cannot be made again")
        ]
    return [ok(CHECK, f"{TOPIC} is compacted, with {counted(copies, 'copy', 'copies')}")]


def instance_checks(registry: Worker) -> list[Finding]:
    """Judge an instance by what it says of itself."""
    try:
        health, metrics = _answered(registry, "/health"), registry.text("/metrics")
    except RestError as error:
        remedy = (
            "start it, or name another with --registry; a login goes into the address: http://name:password@host:8081"
        )
        return [fail(CHECK, f"{registry.url} does not answer: {error.reason}", remedy)]
    found = [_judged(registry.url, health)]
    unreadable = UNREADABLE.search(metrics)
    if unreadable is not None and unreadable[1] != "0":
        said = f"{registry.url} has passed over {unreadable[1]} records of its topic"
        found.append(
            warning(CHECK, said, "its log names them: they are damaged, or of a registry that knows more kinds")
        )
    return found


def _answered(registry: Worker, path: str) -> Any:
    """Return an answer's body, that of a refusal too."""
    return registry.ask("GET", path, take=(503,))


def _judged(url: str, health: dict[str, Any]) -> Finding:
    if not health.get("follows_topic"):
        remedy = "look into its log, and at the brokers; it answers from what it has read so far"
        return fail(CHECK, f"{url} does not follow its topic", remedy)
    if not health.get("primary_known"):
        remedy = "an instance with leader.eligibility=true has to be there; an election takes as long as a session"
        return fail(CHECK, f"{url} knows no primary: nothing can be registered", remedy)
    who = "is the primary" if health.get("is_primary") else "follows the primary"
    return ok(CHECK, f"{url} {who}")
