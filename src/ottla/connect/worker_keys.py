"""The keys of a worker's properties: Kafka's names, types, defaults and bounds, and the few that are ours.

Facts of Apache Kafka 4.3; `tests/connect/facts/worker_defs.json` holds the table against the real thing.
"""

from __future__ import annotations

from typing import Any

from ottla.config import ConfigType
from ottla.connect.config_def import REQUIRED, ConfigDef, Importance
from ottla.connect.validators import (
    CaseInsensitiveValidString,
    Lambda,
    Range,
    Validator,
    ValidList,
    ValidString,
    invalid,
)

__all__ = ["DISTRIBUTED_ONLY", "OWN_KEYS", "distributed_def", "standalone_def"]

_T, _I = ConfigType, Importance
_CLASS, _STRING, _LIST, _PASSWORD = _T.CLASS, _T.STRING, _T.LIST, _T.PASSWORD
_BOOLEAN, _INT, _LONG, _SHORT, _DOUBLE = _T.BOOLEAN, _T.INT, _T.LONG, _T.SHORT, _T.DOUBLE
_HIGH, _MEDIUM, _LOW = _I.HIGH, _I.MEDIUM, _I.LOW
_ANY, _NOT_NEGATIVE = ValidList(null=True), Range(0)
_OAUTH = "org.apache.kafka.common.security.oauthbearer."
_PARTITIONS = "Number of partitions must be positive"
_COPIES = "Replication factor must be positive and not larger than the number of brokers in the Kafka cluster"

Row = tuple[str, ConfigType, object, Importance, Validator | None]


def _positive_or_default(words: str) -> Validator:
    whole = f"{words}, or -1 to use the broker's default"

    def check(name: str, value: Any) -> None:
        if value is None or (value != -1 and value < 1):
            raise invalid(name, value, whole)

    return Lambda(check, whole)


_COMMON: tuple[Row, ...] = (
    ("bootstrap.servers", _LIST, REQUIRED, _HIGH, ValidList(empty=False)),
    (
        *("client.dns.lookup", _STRING, "use_all_dns_ips", _MEDIUM),
        ValidString("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only"),
    ),
    ("key.converter", _CLASS, REQUIRED, _HIGH, None),
    ("key.converter.plugin.version", _STRING, None, _LOW, None),
    ("value.converter", _CLASS, REQUIRED, _HIGH, None),
    ("value.converter.plugin.version", _STRING, None, _LOW, None),
    ("task.shutdown.graceful.timeout.ms", _LONG, 5000, _LOW, None),
    ("offset.flush.interval.ms", _LONG, 60000, _LOW, None),
    ("offset.flush.timeout.ms", _LONG, 5000, _LOW, None),
    ("plugin.path", _LIST, None, _LOW, ValidList(empty=False, null=True)),
    (
        *("plugin.discovery", _STRING, "hybrid_warn", _LOW),
        CaseInsensitiveValidString("ONLY_SCAN", "SERVICE_LOAD", "HYBRID_WARN", "HYBRID_FAIL"),
    ),
    ("metrics.sample.window.ms", _LONG, 30000, _LOW, _NOT_NEGATIVE),
    ("metrics.num.samples", _INT, 2, _LOW, Range(1)),
    ("metrics.recording.level", _STRING, "INFO", _LOW, ValidString("INFO", "DEBUG")),
    ("metric.reporters", _LIST, "org.apache.kafka.common.metrics.JmxReporter", _LOW, _ANY),
    ("header.converter", _CLASS, "org.apache.kafka.connect.storage.SimpleHeaderConverter", _LOW, None),
    ("header.converter.plugin.version", _STRING, None, _LOW, None),
    ("config.providers", _LIST, [], _LOW, _ANY),
    ("connector.client.config.override.policy", _STRING, "All", _MEDIUM, None),
    ("topic.creation.enable", _BOOLEAN, True, _LOW, None),
    ("ssl.protocol", _STRING, "TLSv1.3", _MEDIUM, None),
    ("ssl.provider", _STRING, None, _MEDIUM, None),
    ("ssl.cipher.suites", _LIST, [], _LOW, _ANY),
    ("ssl.enabled.protocols", _LIST, "TLSv1.2,TLSv1.3", _MEDIUM, _ANY),
    ("ssl.keystore.type", _STRING, "JKS", _MEDIUM, None),
    ("ssl.keystore.location", _STRING, None, _HIGH, None),
    ("ssl.keystore.password", _PASSWORD, None, _HIGH, None),
    ("ssl.key.password", _PASSWORD, None, _HIGH, None),
    ("ssl.keystore.key", _PASSWORD, None, _HIGH, None),
    ("ssl.keystore.certificate.chain", _PASSWORD, None, _HIGH, None),
    ("ssl.truststore.certificates", _PASSWORD, None, _HIGH, None),
    ("ssl.truststore.type", _STRING, "JKS", _MEDIUM, None),
    ("ssl.truststore.location", _STRING, None, _HIGH, None),
    ("ssl.truststore.password", _PASSWORD, None, _HIGH, None),
    ("ssl.keymanager.algorithm", _STRING, "SunX509", _LOW, None),
    ("ssl.trustmanager.algorithm", _STRING, "PKIX", _LOW, None),
    ("ssl.endpoint.identification.algorithm", _STRING, "https", _LOW, None),
    ("ssl.secure.random.implementation", _STRING, None, _LOW, None),
    ("ssl.engine.factory.class", _CLASS, None, _LOW, None),
    ("topic.tracking.enable", _BOOLEAN, True, _LOW, None),
    ("topic.tracking.allow.reset", _BOOLEAN, True, _LOW, None),
    ("listeners", _LIST, "http://localhost:8083", _LOW, None),
    ("rest.advertised.host.name", _STRING, None, _LOW, None),
    ("rest.advertised.port", _INT, None, _LOW, None),
    ("rest.advertised.listener", _STRING, None, _LOW, None),
    ("access.control.allow.origin", _STRING, "", _LOW, None),
    ("access.control.allow.methods", _STRING, "", _LOW, None),
    ("response.http.headers.config", _STRING, "", _LOW, None),
    ("ssl.client.auth", _STRING, "none", _LOW, ValidString("required", "requested", "none")),
    ("rest.extension.classes", _LIST, [], _LOW, None),
    ("admin.listeners", _LIST, None, _LOW, None),
)
"""What both kinds of worker have."""

_STANDALONE: tuple[Row, ...] = (("offset.storage.file.filename", _STRING, REQUIRED, _HIGH, None),)

_GROUP: tuple[Row, ...] = (
    ("group.id", _STRING, REQUIRED, _HIGH, None),
    ("session.timeout.ms", _INT, 10000, _HIGH, None),
    ("rebalance.timeout.ms", _INT, 60000, _HIGH, None),
    ("heartbeat.interval.ms", _INT, 3000, _HIGH, None),
    (
        *("exactly.once.source.support", _STRING, "disabled", _HIGH),
        CaseInsensitiveValidString("DISABLED", "ENABLED", "PREPARING"),
    ),
    ("metadata.max.age.ms", _LONG, 300000, _LOW, _NOT_NEGATIVE),
    ("client.id", _STRING, "", _LOW, None),
    ("send.buffer.bytes", _INT, 131072, _MEDIUM, Range(-1)),
    ("receive.buffer.bytes", _INT, 32768, _MEDIUM, Range(-1)),
    ("reconnect.backoff.ms", _LONG, 50, _LOW, _NOT_NEGATIVE),
    ("reconnect.backoff.max.ms", _LONG, 1000, _LOW, _NOT_NEGATIVE),
    ("socket.connection.setup.timeout.ms", _LONG, 10000, _LOW, _NOT_NEGATIVE),
    ("socket.connection.setup.timeout.max.ms", _LONG, 30000, _LOW, _NOT_NEGATIVE),
    ("retry.backoff.ms", _LONG, 100, _LOW, _NOT_NEGATIVE),
    ("retry.backoff.max.ms", _LONG, 1000, _LOW, _NOT_NEGATIVE),
    ("request.timeout.ms", _INT, 40000, _MEDIUM, _NOT_NEGATIVE),
    ("connections.max.idle.ms", _LONG, 540000, _MEDIUM, None),
    (
        *("security.protocol", _STRING, "PLAINTEXT", _MEDIUM),
        CaseInsensitiveValidString("SASL_SSL", "PLAINTEXT", "SSL", "SASL_PLAINTEXT"),
    ),
)

_SASL: tuple[Row, ...] = (
    ("sasl.kerberos.service.name", _STRING, None, _MEDIUM, None),
    ("sasl.kerberos.kinit.cmd", _STRING, "/usr/bin/kinit", _LOW, None),
    ("sasl.kerberos.ticket.renew.window.factor", _DOUBLE, 0.8, _LOW, None),
    ("sasl.kerberos.ticket.renew.jitter", _DOUBLE, 0.05, _LOW, None),
    ("sasl.kerberos.min.time.before.relogin", _LONG, 60000, _LOW, None),
    ("sasl.login.refresh.window.factor", _DOUBLE, 0.8, _LOW, Range(0.5, 1.0)),
    ("sasl.login.refresh.window.jitter", _DOUBLE, 0.05, _LOW, Range(0.0, 0.25)),
    ("sasl.login.refresh.min.period.seconds", _SHORT, 60, _LOW, Range(0, 900)),
    ("sasl.login.refresh.buffer.seconds", _SHORT, 300, _LOW, Range(0, 3600)),
    ("sasl.mechanism", _STRING, "GSSAPI", _MEDIUM, None),
    ("sasl.jaas.config", _PASSWORD, None, _MEDIUM, None),
    ("sasl.client.callback.handler.class", _CLASS, None, _MEDIUM, None),
    ("sasl.login.callback.handler.class", _CLASS, None, _MEDIUM, None),
    ("sasl.login.class", _CLASS, None, _MEDIUM, None),
    ("sasl.login.connect.timeout.ms", _INT, None, _LOW, None),
    ("sasl.login.read.timeout.ms", _INT, None, _LOW, None),
    ("sasl.login.retry.backoff.max.ms", _LONG, 10000, _LOW, None),
    ("sasl.login.retry.backoff.ms", _LONG, 100, _LOW, None),
    ("sasl.oauthbearer.jwt.retriever.class", _CLASS, _OAUTH + "DefaultJwtRetriever", _MEDIUM, None),
    ("sasl.oauthbearer.jwt.validator.class", _CLASS, _OAUTH + "DefaultJwtValidator", _MEDIUM, None),
    ("sasl.oauthbearer.scope", _STRING, None, _MEDIUM, None),
    ("sasl.oauthbearer.client.credentials.client.id", _STRING, None, _MEDIUM, None),
    ("sasl.oauthbearer.client.credentials.client.secret", _PASSWORD, None, _MEDIUM, None),
    (
        *("sasl.oauthbearer.assertion.algorithm", _STRING, "RS256", _MEDIUM),
        CaseInsensitiveValidString("ES256", "RS256"),
    ),
    ("sasl.oauthbearer.assertion.claim.aud", _STRING, None, _MEDIUM, None),
    ("sasl.oauthbearer.assertion.claim.exp.seconds", _INT, 300, _LOW, Range(0, 86400)),
    ("sasl.oauthbearer.assertion.claim.iss", _STRING, None, _MEDIUM, None),
    ("sasl.oauthbearer.assertion.claim.jti.include", _BOOLEAN, False, _MEDIUM, None),
    ("sasl.oauthbearer.assertion.claim.nbf.seconds", _INT, 60, _LOW, Range(0, 3600)),
    ("sasl.oauthbearer.assertion.claim.sub", _STRING, None, _MEDIUM, None),
    ("sasl.oauthbearer.assertion.file", _STRING, None, _MEDIUM, None),
    ("sasl.oauthbearer.assertion.private.key.file", _STRING, None, _MEDIUM, None),
    ("sasl.oauthbearer.assertion.private.key.passphrase", _PASSWORD, None, _MEDIUM, None),
    ("sasl.oauthbearer.assertion.template.file", _STRING, None, _MEDIUM, None),
    ("sasl.oauthbearer.scope.claim.name", _STRING, "scope", _LOW, None),
    ("sasl.oauthbearer.sub.claim.name", _STRING, "sub", _LOW, None),
    ("sasl.oauthbearer.token.endpoint.url", _STRING, None, _MEDIUM, None),
    ("sasl.oauthbearer.jwks.endpoint.url", _STRING, None, _MEDIUM, None),
    ("sasl.oauthbearer.jwks.endpoint.refresh.ms", _LONG, 3600000, _LOW, None),
    ("sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms", _LONG, 10000, _LOW, None),
    ("sasl.oauthbearer.jwks.endpoint.retry.backoff.ms", _LONG, 100, _LOW, None),
    ("sasl.oauthbearer.clock.skew.seconds", _INT, 30, _LOW, None),
    ("sasl.oauthbearer.expected.audience", _LIST, [], _LOW, _ANY),
    ("sasl.oauthbearer.expected.issuer", _STRING, None, _LOW, None),
    ("sasl.oauthbearer.header.urlencode", _BOOLEAN, False, _LOW, None),
)

_TOPICS: tuple[Row, ...] = (
    ("worker.sync.timeout.ms", _INT, 3000, _MEDIUM, None),
    ("worker.unsync.backoff.ms", _INT, 300000, _MEDIUM, None),
    ("offset.storage.topic", _STRING, REQUIRED, _HIGH, None),
    ("offset.storage.partitions", _INT, 25, _LOW, _positive_or_default(_PARTITIONS)),
    ("offset.storage.replication.factor", _SHORT, 3, _LOW, _positive_or_default(_COPIES)),
    ("config.storage.topic", _STRING, REQUIRED, _HIGH, None),
    ("config.storage.replication.factor", _SHORT, 3, _LOW, _positive_or_default(_COPIES)),
    ("status.storage.topic", _STRING, REQUIRED, _HIGH, None),
    ("status.storage.partitions", _INT, 5, _LOW, _positive_or_default(_PARTITIONS)),
    ("status.storage.replication.factor", _SHORT, 3, _LOW, _positive_or_default(_COPIES)),
    ("connect.protocol", _STRING, "sessioned", _LOW, ValidString("eager", "compatible", "sessioned")),
    ("scheduled.rebalance.max.delay.ms", _INT, 300000, _LOW, Range(0, 2147483647)),
    ("inter.worker.key.ttl.ms", _INT, 3600000, _LOW, Range(0, 2147483647)),
    ("inter.worker.key.generation.algorithm", _STRING, "HmacSHA256", _LOW, None),
    ("inter.worker.key.size", _INT, None, _LOW, None),
    ("inter.worker.signature.algorithm", _STRING, "HmacSHA256", _LOW, None),
    ("inter.worker.verification.algorithms", _LIST, "HmacSHA256", _LOW, None),
    (
        *("metadata.recovery.strategy", _STRING, "rebootstrap", _LOW),
        CaseInsensitiveValidString("REBOOTSTRAP", "NONE"),
    ),
    ("metadata.recovery.rebootstrap.trigger.ms", _LONG, 300000, _LOW, _NOT_NEGATIVE),
)

OWN_KEYS: tuple[Row, ...] = (
    ("connector.client.config.override.allowlist", _LIST, [], _MEDIUM, _ANY),
    ("java.security.auth.login.config", _STRING, None, _LOW, None),
    ("ottla.http.listeners", _LIST, [], _LOW, _ANY),
    ("ottla.http.hosts", _LIST, [], _LOW, _ANY),
    ("ottla.executor.secrets.allowed", _LIST, [], _LOW, _ANY),
    ("ottla.inter.worker.hosts", _LIST, [], _LOW, _ANY),
    ("tasks.slots", _INT, 64, _LOW, Range(1)),
    ("task.restart.max", _INT, 10, _LOW, _NOT_NEGATIVE),
    ("task.restart.backoff.ms", _LONG, 1000, _LOW, _NOT_NEGATIVE),
    ("task.restart.backoff.max.ms", _LONG, 60000, _LOW, _NOT_NEGATIVE),
    ("ottla.task.stall.ms", _LONG, 300000, _LOW, _NOT_NEGATIVE),
)
"""Keys that are not in Kafka's tables: of its override policy and of the JVM's logins, and Ottla's own for metrics, secrets
of executors, other workers, slots of tasks, restarts of failed ones and warnings of those that stand still. What begins with
`spark.` is a key, too."""

DISTRIBUTED_ONLY = frozenset(row[0] for row in (*_GROUP, *_SASL, *_TOPICS))


def _definition(*tables: tuple[Row, ...]) -> ConfigDef:
    made = ConfigDef()
    for table in tables:
        for name, type_, default, importance, validator in table:
            made.define(name, type_, default, importance=importance, doc="", validator=validator)
    return made


def standalone_def(*, own: bool = True) -> ConfigDef:
    """Return the keys of a standalone worker, with Ottla's own or only Kafka's."""
    return _definition(_COMMON, _STANDALONE, OWN_KEYS if own else ())


def distributed_def(*, own: bool = True) -> ConfigDef:
    """Return the keys of a distributed worker, with Ottla's own or only Kafka's."""
    return _definition(_COMMON, _GROUP, _SASL, _TOPICS, OWN_KEYS if own else ())
