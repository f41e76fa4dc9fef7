"""What a SASL listener is configured with: its mechanisms, and what each needs. What cannot be honoured is refused."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ottla.base import ConfigError
from ottla.config import BROKER_KEYS, BrokerConfig, Listener, Value
from ottla.security import JaasEntry, KerberosEntry, parse_jaas_file, plain_users, read_file, server_entry
from ottla.security.sasl import PlainUsers, check_mechanisms

__all__ = ["ListenerMechanisms", "check_prefixes", "jaas_file", "mechanisms_of"]

JAAS_FILE = "java.security.auth.login.config"
CALLBACKS = "sasl.server.callback.handler.class"
ENABLED, JAAS, MAX_REAUTH = "sasl.enabled.mechanisms", "sasl.jaas.config", "connections.max.reauth.ms"
KERBEROS_SERVICE = "sasl.kerberos.service.name"
SCRAM = ("SCRAM-SHA-256", "SCRAM-SHA-512")
CLASSES = {
    "principal.builder.class": "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder",
    "sasl.login.class": "",
    "sasl.login.callback.handler.class": "",
    "sasl.client.callback.handler.class": "",
}
"""Keys of classes of one's own, and the only one that is built in."""


class ListenerMechanisms:
    """The mechanisms of one listener."""

    def __init__(self, listener: Listener, config: BrokerConfig, *, jaas: Mapping[str, Sequence[JaasEntry]]) -> None:
        """Raises ConfigError where something cannot be honoured; `jaas` are the sections of the process's JAAS file."""
        self.listener = listener
        self._values = config.listener_values(listener, "")
        self._jaas = jaas
        self.names = _texts(self.value(ENABLED))
        check_mechanisms(f"{listener.own_prefix}{ENABLED}", self.names)
        if listener.name in config.controller_listener_names:
            self._check_controllers()
        self._check_classes()
        self.plain = PlainUsers(self._plain_users()) if "PLAIN" in self.names else None
        for name in self.names:
            self.entry(name)
        self.kerberos = self._kerberos() if "GSSAPI" in self.names else None
        self.max_reauth_ms = {name: _whole(self.value(MAX_REAUTH, name)) for name in self.names}
        self.frame_bytes_max = config.settings.sasl_server_max_receive_size

    def _check_controllers(self) -> None:
        """Refuse SCRAM where the records that hold its credentials come through the listener itself (KIP-900)."""
        for name in self.names:
            if name in SCRAM:
                text = "a controller listener cannot use SCRAM: its credentials are in the log that comes through it"
                raise ConfigError(f"{self.listener.own_prefix}{ENABLED}", name, text)

    def _check_classes(self) -> None:
        for key, built_in in CLASSES.items():
            found = self.value(key)
            if found not in (None, "", built_in):
                raise ConfigError(key, found, "classes of one's own are not supported here; leave it unset")
        if self.value(CALLBACKS):
            example = f"{self.listener.own_prefix}{self.names[0].lower()}.{CALLBACKS}"
            raise ConfigError(CALLBACKS, self.value(CALLBACKS), f"must be prefixed with a mechanism: {example}")
        for name in self.names:
            found = self.value(CALLBACKS, name)
            if found and name != "OAUTHBEARER":
                key = f"{self.listener.own_prefix}{name.lower()}.{CALLBACKS}"
                raise ConfigError(key, found, "callback handlers of one's own are not supported here; leave it unset")

    def _plain_users(self) -> Mapping[str, str]:
        """Return PLAIN's users and passwords; a listener without any lets nobody in, as in Kafka."""
        entry = self.entry("PLAIN")
        if entry is None:
            key = f"{self.listener.own_prefix}plain.{JAAS}"
            own = f"'KafkaServer' or '{self.listener.name.lower()}.KafkaServer'"
            text = f"Could not find a {own} entry in the JAAS configuration, and {key} is not set"
            raise ConfigError(key, "", text, text)
        return plain_users(entry)

    def _kerberos(self) -> KerberosEntry:
        """Return whose key checks tickets."""
        entry, service = self.entry("GSSAPI"), self.value(KERBEROS_SERVICE, "GSSAPI")
        if entry is None:
            key = self.entry_key("GSSAPI")
            text = (
                f"{ENABLED} has GSSAPI (Kerberos), which is Kafka's default: name others, such as PLAIN, or give it a JAAS "
                f"entry of Krb5LoginModule ({key})"
            )
            raise ConfigError(key, "", text, text)
        assert service is None or isinstance(service, str)
        found = KerberosEntry.of(entry.options, service)
        found.check_server()
        return found

    def entry_key(self, mechanism: str) -> str:
        """Return where a mechanism's JAAS entry belongs."""
        return f"{self.listener.own_prefix}{mechanism.lower()}.{JAAS}"

    def entry(self, mechanism: str) -> JaasEntry | None:
        """Return a mechanism's JAAS entry, None where there is no JAAS configuration at all."""
        key = self.entry_key(mechanism)
        inline = self._values.get(f"{mechanism.lower()}.{JAAS}")
        if inline is None and self._values.get(JAAS) is not None:
            raise ConfigError(JAAS, "[hidden]", "", f"{JAAS} of a listener must be prefixed with its mechanism: {key}")
        own = f"{self.listener.name.lower()}.KafkaServer"
        if inline is None and own not in self._jaas and "KafkaServer" not in self._jaas:
            return None
        return server_entry(inline, self._jaas, listener=self.listener.name, mechanism=mechanism)

    def value(self, key: str, mechanism: str | None = None) -> Value:
        """Return a key's value for this listener; with a mechanism, what is set for that is stronger."""
        text = None if mechanism is None else self._values.get(f"{mechanism.lower()}.{key}")
        if text is None:
            if key == CALLBACKS and mechanism is not None:
                return None
            text = self._values.get(key)
        return BROKER_KEYS[key].default_value if text is None else BROKER_KEYS[key].parse(text)


def jaas_file(system_properties: Mapping[str, str]) -> Mapping[str, Sequence[JaasEntry]]:
    """Return the sections of the file that `java.security.auth.login.config` names; raises ConfigError."""
    path = system_properties.get(JAAS_FILE)
    if path is None:
        return {}
    try:
        text = read_file(path).decode()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(JAAS_FILE, path, f"cannot be read: {error}") from error
    return parse_jaas_file(text)


def mechanisms_of(
    config: BrokerConfig, jaas: Mapping[str, Sequence[JaasEntry]] | None = None
) -> Mapping[str, ListenerMechanisms]:
    """Return what each SASL listener is configured with, by its name; raises ConfigError, which names the listener.

    `jaas` are the sections of the JAAS file, which a broker reads once, at its start, as Java does; without them it is read.
    """
    found = {}
    jaas = jaas_file(config.system_properties) if jaas is None else jaas
    for listener in config.listeners:
        if listener.protocol.logs_in:
            try:
                found[listener.name] = ListenerMechanisms(listener, config, jaas=jaas)
            except ConfigError as error:
                text = f"listener {listener.name}: {error}"
                raise ConfigError(error.key, error.value, error.allowed, text) from error
    return found


def check_prefixes(names: Iterable[str], own: Mapping[str, str]) -> None:
    """Raise ConfigError for a login of a listener that names no mechanism, and would be passed over."""
    for name in names:
        bare = name == JAAS or (name.startswith("listener.name.") and name.count(".") == JAAS.count(".") + 3)
        if bare and name in own and name.endswith(JAAS):
            example = f"listener.name.NAME.MECHANISM.{JAAS}"
            raise ConfigError(
                name, "[hidden]", "", f"{name} must be prefixed with a listener and its mechanism: {example}"
            )


def _texts(value: Value) -> tuple[str, ...]:
    assert isinstance(value, tuple)
    return value


def _whole(value: Value) -> int:
    assert isinstance(value, int)
    return value
