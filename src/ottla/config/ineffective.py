"""Settings of Kafka's brokers that are read and validated here and change nothing.

A configuration that comes from Kafka starts; what somebody set on purpose and would miss is named, with why.
"""

from __future__ import annotations

from collections.abc import Mapping

from ottla.config.authorization import AUTHORIZER_KEYS
from ottla.config.broker_keys import BROKER_KEYS

__all__ = ["EFFECTIVE", "INEFFECTIVE", "ineffective"]

EFFECTIVE = tuple(
    f"share.coordinator.state.topic.{each}"
    for each in ("num.partitions", "replication.factor", "min.isr", "segment.bytes")
)
"""How a topic of Kafka's would be made that a client can ask for; the samples of Kafka set two of these."""

INEFFECTIVE: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("share groups are not served", ("group.share.", "share.")),
    ("groups of the streams protocol are not served", ("group.streams.",)),
    ("nothing is tiered", ("remote.", "log.local.retention.", "follower.fetch.last.tiered.offset.enable")),
    (
        "Kerberos' library asks for tickets by itself, and in half of their lifetime for new ones",
        ("sasl.kerberos.kinit.cmd", "sasl.kerberos.min.time.before.relogin", "sasl.kerberos.ticket."),
    ),
    (
        "it tunes how Kafka's own clients ask for tokens",
        ("sasl.login.",),
    ),
    (
        "it chooses among Java's own parts of TLS, and OpenSSL does it here",
        (
            *("ssl.provider", "ssl.secure.random.implementation", "ssl.keymanager.algorithm"),
            *("ssl.trustmanager.algorithm", "security.providers"),
        ),
    ),
    (
        "metrics are served over HTTP instead (http.listeners)",
        ("metric.reporters", "kafka.metrics.", "metrics.", "telemetry.max.bytes"),
    ),
    (
        "one event loop serves, with threads and processes of its own count beside it",
        (
            *("num.io.threads", "num.network.threads", "background.threads", "num.recovery.threads.per.data.dir"),
            *("group.coordinator.threads", "group.coordinator.background.threads"),
        ),
    ),
    ("a request is handled when it is read, so none is queued", ("queued.max.requests",)),
    (
        "nothing reads it here",
        (
            *("log.dir.failure.timeout.ms", "metadata.max.idle.interval.ms", "transaction.two.phase.commit.enable"),
            "unstable.",
        ),
    ),
    (
        "it tunes what only Kafka's own broker has inside",
        (
            *(
                "delete.records.purgatory.",
                "fetch.purgatory.",
                "producer.purgatory.",
                "group.coordinator.append.linger.ms",
            ),
            *("group.coordinator.cached.buffer.max.bytes", "controller.performance.", "socket.connection.setup."),
            *(
                "controller.quorum.append.linger.ms",
                "controller.quorum.retry.backoff.ms",
                "controller.socket.timeout.ms",
            ),
            *("internal.metadata.delete.delay.millis", "internal.metadata.max.batch.size.in.bytes"),
            *("log.initial.task.delay.ms", "num.replica.alter.log.dirs.threads", "server.max.startup.time.ms"),
            *("producer.id.expiration.check.interval.ms", "replica.socket.receive.buffer.bytes"),
        ),
    ),
)
"""Why a setting changes nothing, and the keys, or how they begin."""


def ineffective(static: Mapping[str, str]) -> list[str]:
    """Return a line for each reason that keys set to other than their defaults change nothing."""
    found: dict[str, list[str]] = {}
    if not _has_authorizer(static) and (alone := sorted(AUTHORIZER_KEYS & static.keys())):
        found["authorizer.class.name is not set, so everyone may do everything"] = alone
    for name, text in sorted(static.items()):
        why = _why(name)
        if why is not None and not _is_default(name, text):
            found.setdefault(why, []).append(name)
    return [f"without effect: {', '.join(names)} ({why})" for why, names in found.items()]


def _has_authorizer(static: Mapping[str, str]) -> bool:
    return bool(static.get("authorizer.class.name", "").strip())


def _why(name: str) -> str | None:
    if name.startswith(EFFECTIVE):
        return None
    return next((why for why, begins in INEFFECTIVE if name.startswith(begins)), None)


def _is_default(name: str, text: str) -> bool:
    key = BROKER_KEYS.get(name)
    return key is not None and key.parse(text) == key.default_value
