"""Questions about workers' settings: what Kafka makes of properties, right and wrong."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from ottla.connect.worker_keys import distributed_def, standalone_def

Json = Any
KINDS = {"standalone.StandaloneConfig": standalone_def, "distributed.DistributedConfig": distributed_def}
VALUES = ["", " ", "x", "-1", "0", "1", "3", "true", "FALSE", "a,b", "a,,b", "a,a", "1.5", "99999999999", "compatible"]
COUNTS, COUNTED = ["-2", "-1", "0", "1", "3"], ("storage.partitions", "storage.replication.factor")
"""Kafka ends with an error of its own where these are no numbers."""
NOT_ASKED = (
    "connect.protocol",
    "listeners",
    "admin.listeners",
    "response.http.headers.config",
    "inter.worker.",
    "rest.extension",
    "ssl.",
)
"""What Kafka's own validators of URLs, headers and algorithms say: ours is said elsewhere, in other words."""


def workers(random: random.Random, count: int) -> Iterator[Json]:
    """What a worker's keys are, and what they make of some properties."""
    for number in range(count):
        kind = list(KINDS)[number % 2]
        keys = KINDS[kind](own=False).keys.values()
        chosen = {
            key.name: random.choice(COUNTS if key.name.endswith(COUNTED) else VALUES)
            for key in keys
            if random.random() < 0.5 and key.type.name != "CLASS" and not key.name.startswith(NOT_ASKED)
        }
        yield {"op": "worker_def", "class": kind, "config": chosen if number > 1 else {}}


PACKAGE = "org.apache.kafka.connect.connector.policy."
POLICIES = ("All", "None", "Principal", "Allowlist")
CLIENT_KEYS = {
    "producer": ["acks", "linger.ms", "max.request.size", "client.id", "bootstrap.servers", "retries"],
    "consumer": ["max.poll.records", "fetch.min.bytes", "group.id", "isolation.level", "client.rack"],
    "admin": ["request.timeout.ms", "retries", "default.api.timeout.ms", "client.id", "metadata.max.age.ms"],
}
ANY_KEYS = ["sasl.jaas.config", "sasl.mechanism", "security.protocol", "no.such.key"]


def overrides(random: random.Random, count: int) -> Iterator[Json]:
    """What a policy makes of a connector's keys for one kind of client."""
    for _ in range(count):
        kind = random.choice(list(CLIENT_KEYS))
        known = [each for each in [*CLIENT_KEYS[kind], *ANY_KEYS] if random.random() < 0.4]
        values = {
            each: "PLAINTEXT" if each == "security.protocol" else random.choice(["1", " 20", "3 "]) for each in known
        }
        yield {
            "op": "overrides",
            "class": f"{PACKAGE}{random.choice(POLICIES)}ConnectorClientConfigOverridePolicy",
            "allowlist": ",".join(each for each in known if random.random() < 0.5),
            "kind": kind,
            "config": {f"{kind}.override.{each}": value for each, value in values.items()},
        }
