"""The TLS of a node's listeners: their contexts, and whom clients' certificates stand for.

A listener whose configuration cannot be honoured does not start. What its stores hold may change while it is open
(KIP-226), by a dynamic configuration of this broker or because a file has changed; a store that is refused leaves the old
one in place, and open connections keep what they began with.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from ottla.base import ConfigError, ErrorCode, KafkaError, WireError
from ottla.broker.requests.store_renewals import StoreRenewals, read_in_time
from ottla.config import BrokerConfig, Listener, SecurityProtocol
from ottla.metadata import Delta, Image, ResourceType
from ottla.security import STORE_KEYS, NoRuleError, Renewal, SslRules, Tls, TlsSettings, certificate_name

__all__ = ["HTTPS", "Encryption", "ListenerTls", "own_configuration"]

log = logging.getLogger(__name__)

PREFIX = "ssl."
PLACEHOLDER = "${"
"""What begins the name of a value that stands elsewhere, in a file as it may be."""
HTTPS = Listener("HTTPS", "", 0, SecurityProtocol.SSL)
"""What stands for the pages of metrics and health: their keys are `listener.name.https.ssl.…`, over `ssl.…`."""
CLIENT_AUTH = "ssl.client.auth"
RULES = "ssl.principal.mapping.rules"


class ListenerRenewal(NamedTuple):
    """What was read for a listener that is to change."""

    values: Mapping[str, str | None]
    tls: Renewal


class ListenerTls:
    """What protects one listener."""

    def __init__(self, listener: Listener, config: BrokerConfig) -> None:
        """Raises ConfigError where something cannot be honoured."""
        self.listener = listener
        self._must_meet_itself = listener.name == config.inter_broker_listener_name
        """True where brokers connect: those with the old stores and those with new ones must understand each other."""
        values = _values(listener, config)
        self._values: Mapping[str, str | None] = values
        self._rules = SslRules(values.get(RULES) or "DEFAULT")
        self._tls = Tls(TlsSettings.of(values), server=True)

    @property
    def context(self) -> ssl.SSLContext:
        """The context of the next connection."""
        return self._tls.context

    @property
    def ends_s(self) -> float:
        """When the first certificate that it shows ends, in seconds since 1970."""
        return self._tls.ends_s

    def principal(self, session: ssl.SSLObject) -> str | None:
        """Return whom a client's certificate stands for, None without one; raises WireError where no rule applies."""
        certificate = session.getpeercert(binary_form=True)
        if certificate is None:
            return None
        try:
            return f"User:{self._rules.user(certificate_name(certificate))}"
        except (NoRuleError, ConfigError) as error:
            raise WireError(f"the client's certificate stands for nobody: {error}") from error

    def renewal(self, config: BrokerConfig) -> ListenerRenewal:
        """Read what the listener would become by this configuration, or by files that have changed, and change nothing.

        May run on a thread. Raises INVALID_REQUEST where it could not become that.
        """
        found = self._tls.renewal(self._changed(config), must_meet_itself=self._must_meet_itself)
        return ListenerRenewal(_values(self.listener, config), found)

    def take(self, renewal: ListenerRenewal) -> None:
        """Use what was read from the next connection on; raises INVALID_REQUEST where it was changed meanwhile."""
        has_changed = self._tls.take(renewal.tls)
        self._values = renewal.values
        if has_changed:
            log.info("Listener %s uses new stores from the next connection on", self.listener.name)

    def is_configured_alike(self, config: BrokerConfig) -> bool:
        """Return whether a configuration says the same of the listener's TLS as the one that it uses."""
        return _values(self.listener, config) == self._values

    def _changed(self, config: BrokerConfig) -> TlsSettings:
        values = _values(self.listener, config)
        names = self._values.keys() | values.keys()
        fixed = sorted(each for each in names - STORE_KEYS if self._values.get(each) != values.get(each))
        if fixed:
            text = f"{', '.join(fixed)} of listener {self.listener.name} cannot be updated while it is open: "
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"{text}restart the broker with it in its properties")
        try:
            return TlsSettings.of(values)
        except ConfigError as error:
            raise KafkaError(ErrorCode.INVALID_REQUEST, str(error)) from error


class Encryption:
    """The TLS of all listeners of a node that have it."""

    def __init__(self, config: BrokerConfig) -> None:
        """Raises ConfigError, which names the listener, where one cannot be as it is configured."""
        self._config = config
        self._by_name: dict[str, ListenerTls] = {}
        self._read: dict[str, ListenerRenewal] = {}
        """What `check` has found good, until the metadata says it."""
        self._renewals = StoreRenewals(self._renew, serves="listeners with TLS")
        pages = [HTTPS] if any(each.is_secure for each in config.http_listeners) else []
        for listener in (*config.listeners, *pages):
            if listener.protocol in (SecurityProtocol.SSL, SecurityProtocol.SASL_SSL):
                try:
                    self._by_name[listener.name] = ListenerTls(listener, config)
                except ConfigError as error:
                    text = f"listener {listener.name}: {error}"
                    raise ConfigError(error.key, error.value, error.allowed, text) from error

    def __iter__(self) -> Iterator[ListenerTls]:
        return iter(self._by_name.values())

    def of(self, listener: Listener) -> ListenerTls | None:
        """Return what protects a listener; None where nothing does."""
        return self._by_name.get(listener.name)

    async def check(self, image: Image, own: Mapping[str, str], *, names: frozenset[str], applies: bool) -> None:
        """Look at a wanted dynamic configuration of this broker, which differs in `names` or asks for them again.

        With `applies` what is configured alike is read again, for its files may have changed: no record of the metadata
        will say so. Files are read by a thread. Raises INVALID_REQUEST where a listener could not become what it says.
        """
        if any(PLACEHOLDER in value for value in own.values()):  # it may stand in a file
            wanted = await read_in_time(partial(self._wanted, image, own), what="configuration")
        else:
            wanted = self._wanted(image, own)
        before = image.broker_config(self._config.node_id)
        for each in self._by_name.values():
            named = [name for name in names if name.startswith(each.listener.own_prefix + PREFIX)]
            if named:
                found = await read_in_time(partial(each.renewal, wanted), what=f"listener {each.listener.name}")
                is_said_already = all(own.get(name) == before.get(name) for name in named)
                if applies and (is_said_already or each.is_configured_alike(wanted)):
                    each.take(found)
                elif applies:
                    self._read[each.listener.name] = found

    def _wanted(self, image: Image, own: Mapping[str, str]) -> BrokerConfig:
        try:
            self._config.look_up(own)
        except ConfigError as error:
            raise KafkaError(ErrorCode.INVALID_REQUEST, str(error)) from error
        return self._config.with_dynamic(default=image.default_broker_config(), own=own)

    def image_changed(self, old: Image, image: Image, delta: Delta) -> None:
        """Take in what the cluster's metadata says of this broker's stores; what is refused is said, and leaves the old.

        What `check` has read counts at once, anything else when it has been read.
        """
        config = own_configuration(self._config, image, delta)
        if config is None:
            return
        read, self._read = self._read, {}
        for name, each in self._by_name.items():
            found = read.get(name)
            if found is not None and found.values == _values(each.listener, config):
                with suppress(KafkaError):  # another change has come first: it is read again
                    each.take(found)
        if not all(each.is_configured_alike(config) for each in self._by_name.values()):
            self._renewals.want(config)

    async def _renew(self, config: BrokerConfig, is_latest: Callable[[], bool]) -> None:
        for each in self._by_name.values():
            if each.is_configured_alike(config):
                continue
            try:
                found = await read_in_time(partial(each.renewal, config), what=f"listener {each.listener.name}")
                if is_latest():
                    each.take(found)
            except KafkaError as error:
                log.error("Listener %s keeps the stores that it has: %s", each.listener.name, error.message)

    async def settled(self) -> None:
        """Return when what the metadata has said is in use, or was refused."""
        await self._renewals.settled()


def own_configuration(config: BrokerConfig, image: Image, delta: Delta) -> BrokerConfig | None:
    """Return this node's configuration with its dynamic values; None where these have not changed."""
    own = str(config.node_id)
    if not any(each.type == ResourceType.BROKER and each.name == own for each in delta.configs_changed):
        return None
    return config.with_dynamic(default=image.default_broker_config(), own=image.broker_config(config.node_id))


def _values(listener: Listener, config: BrokerConfig) -> dict[str, str | None]:
    values: dict[str, str | None] = {**config.listener_values(listener, PREFIX)}
    if listener.protocol is SecurityProtocol.SASL_SSL and f"{listener.own_prefix}{CLIENT_AUTH}" not in config.static:
        values.pop(CLIENT_AUTH, None)  # who logs in need not show a certificate, unless this very listener asks for it
    return values
