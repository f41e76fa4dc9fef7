"""How a node reaches the others: brokers by the listener among brokers, controllers by the first controllers' listener.

It is a client there, with the keys, the trust and the login that the listener itself has: `ssl.*` and the JAAS entry of
`sasl.mechanism.inter.broker.protocol` or `sasl.mechanism.controller.protocol`. Its keys change with the listener's.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from ottla.base import ConfigError, KafkaError
from ottla.broker.requests.encryption import own_configuration
from ottla.broker.requests.store_renewals import StoreRenewals, read_in_time
from ottla.client import ClientSecurity, SecuredNetwork
from ottla.config import BROKER_KEYS, BrokerConfig, Listener
from ottla.metadata import Delta, Image
from ottla.net import Network
from ottla.security import JaasEntry, TlsSettings, jaas_text, server_entry

__all__ = ["Links"]

log = logging.getLogger(__name__)

PREFIX = "ssl."
JAAS = "sasl.jaas.config"
OF_MECHANISMS = ("sasl.oauthbearer.", "sasl.kerberos.")
AMONG_BROKERS, TO_CONTROLLERS = "sasl.mechanism.inter.broker.protocol", "sasl.mechanism.controller.protocol"


class Links:
    """The networks by which a node connects to the cluster's others."""

    def __init__(self, config: BrokerConfig, network: Network, *, jaas: Mapping[str, Sequence[JaasEntry]]) -> None:
        """Raises ConfigError where a link cannot be as it is configured; `jaas` are the sections of the JAAS file."""
        self._config = config
        self._secured: list[tuple[Listener, ClientSecurity]] = []
        self._renewals = StoreRenewals(self._renew, serves="links to other nodes")
        self.to_brokers = self.to_controllers = network
        """What reaches other brokers, and controllers."""
        if config.controller_listener_names:
            controllers = config.listener_named(config.controller_listener_names[0])
            brokers = config.listener_named(config.inter_broker_listener_name)
            self.to_controllers = self._link(controllers, TO_CONTROLLERS, network, jaas)
            self.to_brokers = self._link(brokers, AMONG_BROKERS, network, jaas)

    def _link(
        self, listener: Listener, mechanism_key: str, network: Network, jaas: Mapping[str, Sequence[JaasEntry]]
    ) -> Network:
        if not listener.protocol:
            return network
        values: dict[str, str] = self._config.listener_values(listener, PREFIX)
        values["security.protocol"] = listener.protocol.name
        mechanism = ""
        try:
            if listener.protocol.logs_in:
                mechanism = str(self._config.static.get(mechanism_key) or BROKER_KEYS[mechanism_key].default)
                own = self._config.listener_values(listener, "")
                inline = own.get(f"{mechanism.lower()}.{JAAS}")
                for prefix in ("", f"{mechanism.lower()}."):
                    begins = tuple(prefix + each for each in OF_MECHANISMS)
                    values |= {key.removeprefix(prefix): text for key, text in own.items() if key.startswith(begins)}
                values["sasl.mechanism"] = mechanism
                values[JAAS] = jaas_text([server_entry(inline, jaas, listener=listener.name, mechanism=mechanism)])
            security = ClientSecurity.of(values)
        except ConfigError as error:
            key = mechanism_key if error.key == "sasl.mechanism" else error.key
            by = f", {mechanism_key}={mechanism}" if mechanism else ""
            text = str(error).replace("sasl.mechanism:", f"{mechanism_key}:")
            text = f"the links to other nodes by listener {listener.name}{by}: {text}"
            raise ConfigError(key, error.value, error.allowed, text) from error
        self._secured.append((listener, security))
        return SecuredNetwork(security, network)

    def image_changed(self, old: Image, image: Image, delta: Delta) -> None:
        """Take in other stores, as the listeners do; what is refused is said, and leaves the old."""
        config = own_configuration(self._config, image, delta)
        if config is None:
            return
        if self._secured:
            self._renewals.want(config)

    async def _renew(self, config: BrokerConfig, is_latest: Callable[[], bool]) -> None:
        for listener, security in self._secured:
            if security.tls is None:
                continue
            values = dict(config.listener_values(listener, PREFIX))
            try:
                read = partial(security.tls.renewal, TlsSettings.of(values))
                found = await read_in_time(read, what=f"links by listener {listener.name}")
                if is_latest():
                    security.tls.take(found)
            except (ConfigError, KafkaError) as error:
                log.error("The links by listener %s keep the stores that they have: %s", listener.name, error)
