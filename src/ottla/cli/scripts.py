"""Kafka's script names (`kafka-topics`, `kafka-topics.sh`, …): each runs the noun that does its work.

pip installs every name twice, with and without `.sh`, and all of them call `main`, which looks at the name that it was
called by. The files of `home/bin` come through `python -m ottla.cli.scripts NAME …`.
"""

from __future__ import annotations

import os
import sys

from ottla.cli.main import NOUNS, run

__all__ = ["NO_ZOOKEEPER", "SCRIPTS", "main", "run_script"]

SCRIPTS: dict[str, tuple[str, ...]] = {
    "kafka-acls": ("acls",),
    "kafka-broker-api-versions": ("broker-api-versions",),
    "kafka-client-metrics": ("client-metrics",),
    "kafka-cluster": ("cluster",),
    "kafka-configs": ("configs",),
    "kafka-console-consumer": ("console-consumer",),
    "kafka-console-producer": ("console-producer",),
    "kafka-console-share-consumer": ("console-share-consumer",),
    "kafka-consumer-groups": ("consumer-groups",),
    "kafka-consumer-perf-test": ("consumer-perf-test",),
    "kafka-delegation-tokens": ("delegation-tokens",),
    "kafka-delete-records": ("delete-records",),
    "kafka-dump-log": ("dump-log",),
    "kafka-e2e-latency": ("e2e-latency",),
    "kafka-features": ("features",),
    "kafka-get-offsets": ("get-offsets",),
    "kafka-groups": ("groups",),
    "kafka-leader-election": ("leader-election",),
    "kafka-log-dirs": ("log-dirs",),
    "kafka-metadata-quorum": ("metadata-quorum",),
    "kafka-metadata-shell": ("metadata-shell",),
    "kafka-producer-perf-test": ("producer-perf-test",),
    "kafka-reassign-partitions": ("reassign-partitions",),
    "kafka-replica-verification": ("replica-verification",),
    "kafka-run-class": ("run-class",),
    "kafka-server-start": ("server", "start"),
    "kafka-server-stop": ("server", "stop"),
    "kafka-share-consumer-perf-test": ("share-consumer-perf-test",),
    "kafka-share-groups": ("share-groups",),
    "kafka-storage": ("storage",),
    "kafka-streams-application-reset": ("streams-application-reset",),
    "kafka-streams-groups": ("streams-groups",),
    "kafka-topics": ("topics",),
    "kafka-transactions": ("transactions",),
    "kafka-verifiable-consumer": ("verifiable-consumer",),
    "kafka-verifiable-producer": ("verifiable-producer",),
    "connect-distributed": ("connect-distributed",),
    "connect-standalone": ("connect-standalone",),
}
"""Script -> noun, with the action where the noun has several. A noun that is not there yet is said to be missing."""

NO_ZOOKEEPER = {
    "zookeeper-server-start": "There is no ZooKeeper to start: the broker keeps the cluster's metadata itself (KRaft). "
    "Go on with kafka-server-start.sh.",
    "zookeeper-server-stop": "There is no ZooKeeper to stop: the broker keeps the cluster's metadata itself (KRaft).",
}
"""What the two scripts of Kafka before 4.0 say; instructions that call them go on working."""


def main() -> int:
    """Run the script that this process was called as; returns the exit code."""
    return run_script(os.path.basename(sys.argv[0]), sys.argv[1:])


def run_script(name: str, args: list[str]) -> int:
    """Run one of Kafka's scripts by its name, with or without `.sh`; returns the exit code."""
    script = name.removesuffix(".sh")
    if script in NO_ZOOKEEPER:
        print(NO_ZOOKEEPER[script])
        return 0
    if script not in SCRIPTS:
        print(f"ottla: {name} is not one of Kafka's scripts", file=sys.stderr)
        return 1
    noun, *action = SCRIPTS[script]
    if noun not in NOUNS:
        print(f"{name}: not in this version of Ottla; `ottla --help` lists what is", file=sys.stderr)
        return 1
    return run(noun, [*action, *args])


if __name__ == "__main__":
    sys.exit(run_script(os.path.basename(sys.argv[1]), sys.argv[2:]))
