"""A broker's configuration: files, environment and overrides made into one frozen, typed value, with live layers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from ottla.base import ConfigError, NodeId
from ottla.config.authorization import AUTHORIZER_KEYS, Authorization
from ottla.config.broker_keys import BROKER_KEYS
from ottla.config.broker_settings import BrokerSettings
from ottla.config.entries import ConfigEntry, ConfigSource, Layer, synonym_chain
from ottla.config.gone import gone, gone_lines
from ottla.config.ineffective import ineffective
from ottla.config.listeners import (
    HttpListener,
    Listener,
    SecurityProtocol,
    Voter,
    parse_http_listeners,
    parse_listeners,
    parse_protocol_map,
    parse_voters,
)
from ottla.config.properties import (
    environment_properties,
    override_properties,
    parse_properties,
    system_properties,
)
from ottla.config.providers import PREFIX as PROVIDERS
from ottla.config.providers import Providers, found, providers_of
from ottla.config.secrets import hidden_text
from ottla.config.synonyms import BROKER_SYNONYMS
from ottla.config.types import ConfigKey, UpdateMode, Value, value_text

__all__ = ["BrokerConfig", "is_sensitive", "validate_broker_configs"]

_ALONE = (
    "offsets.topic.replication.factor",
    "transaction.state.log.replication.factor",
    "transaction.state.log.min.isr",
    "share.coordinator.state.topic.replication.factor",
    "share.coordinator.state.topic.min.isr",
)
"""Kafka's defaults of these need three brokers; unset on a quorum of one they mean 1."""

_FOLDERS = ("log.dirs", "log.dir", "metadata.log.dir")

REPLICA_SELECTORS = tuple(
    f"org.apache.kafka.common.replica.{name}" for name in ("LeaderSelector", "RackAwareReplicaSelector")
)
"""Kafka's own answers to the question which replica a consumer reads from (KIP-392), by their names there."""

_PLUGIN_PREFIXES = ("rsm.config.", "rlmm.config.", PROVIDERS)
"""Keys under these belong to plugins, which name them as they like."""


THROTTLES = frozenset(
    {
        "follower.replication.throttled.rate",
        "leader.replication.throttled.rate",
        "replica.alter.log.dirs.io.max.bytes.per.second",
    }
)
"""Keys that Kafka keeps apart: they are told where they are set, and without a default behind them."""
_ID_KEYS = ("broker.id", "node.id")


@dataclass(frozen=True)
class BrokerConfig:
    """What one node was told, read once at start; `with_dynamic` gives the value after a live change.

    `settings` holds every key's typed value; the properties beside it hold what Kafka derives from several keys.
    """

    static: Mapping[str, str]
    dynamic_default: Mapping[str, str] = field(default_factory=dict)
    dynamic: Mapping[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    system_properties: Mapping[str, str] = field(default_factory=dict)
    """What Kafka takes from the process and from no configuration: the `-Dkey=value` of KAFKA_OPTS."""
    providers: Providers = field(default=Providers({}), compare=False)
    """Where the `${…}` of its values are looked up (KIP-421)."""
    looked_up: frozenset[str] = frozenset()
    """The keys whose values in `static` were; these nobody is shown."""

    @classmethod
    def load(
        cls, text: str = "", *, environment: Mapping[str, str] | None = None, overrides: Iterable[str] = ()
    ) -> BrokerConfig:
        """Build from `server.properties` text, then `KAFKA_…` variables, then `key=value` pairs; the later win.

        A data folder's `~/` stands for the environment's HOME. Raises ConfigError for a bad value; unknown keys only make
        warnings, each with the closest known key, and so do those that are set to other than their defaults in vain.
        """
        given = parse_properties(text) | override_properties(overrides)
        variables = environment_properties(environment or {})
        known = {name: value for name, value in variables.items() if _is_known(name) or name.startswith(PROVIDERS)}
        static = _with_both_ids(parse_properties(text) | known | override_properties(overrides))
        providers = providers_of(static, environment or {})
        elsewhere = found(static, providers)
        static |= elsewhere
        static |= _under_home(static, (environment or {}).get("HOME", ""))
        strange = [(name, name) for name in given if not _is_known(name) and not name.startswith(_PLUGIN_PREFIXES)]
        strange += [(name, _variable(name)) for name in variables if name not in known]
        warnings = gone_lines(strange) + [_unknown(*each) for each in strange if _is_told(*each)]
        properties = system_properties(environment or {})
        config = cls(
            static=static,
            warnings=tuple(warnings),
            system_properties=properties,
            providers=providers,
            looked_up=frozenset(elsewhere),
        )
        try:
            for name in (each for each in _ID_KEYS if each in given or each in known):
                BROKER_KEYS[name].parse(static[name])  # the one that was given is named where it is wrong
            config.validate()
        except ConfigError as error:
            raise _without_secret(error, elsewhere) from None
        return replace(config, warnings=(*warnings, *ineffective(static)))

    def with_dynamic(self, *, default: Mapping[str, str], own: Mapping[str, str]) -> BrokerConfig:
        """Return the configuration under the cluster's dynamic values (`default` for all brokers, `own` for this one).

        Values that no longer parse, or of keys that cannot change live, are left out with a warning: they come from a
        replayed log, and a broker must start even so.
        """
        warnings: list[str] = []
        given = ((self._dynamic(values, warnings), per) for values, per in ((default, False), (own, True)))
        layers = [_usable(values, per_broker=per, warnings=warnings) for values, per in given]
        changed = replace(self, dynamic_default=layers[0], dynamic=layers[1], warnings=tuple(warnings))
        try:
            changed.validate()
        except ConfigError as error:
            return replace(self, warnings=(*warnings, f"dynamic broker configuration ignored: {error}"))
        return changed

    def look_up(self, dynamic: Mapping[str, str], *, anew: bool = True) -> dict[str, str]:
        """Return dynamic values with what their `${…}` stand for; raises ConfigError for one that is not there.

        Files are read, so the event loop does not call it; without `anew` only for what was not looked up before.

        Only a password may stand elsewhere: who sees any other value would read the broker's files by it.
        """
        elsewhere = found(
            {name: text for name, text in dynamic.items() if is_sensitive(name)}, self.providers, anew=anew
        )
        return {**dynamic, **elsewhere}

    def _dynamic(self, values: Mapping[str, str], warnings: list[str]) -> dict[str, str]:
        usable: dict[str, str] = {}
        for name, text in values.items():
            try:
                usable |= self.look_up({name: text}, anew=False)
            except ConfigError as error:
                warnings.append(f"dynamic broker configuration ignored: {error}")
        return usable

    def is_shown(self, name: str) -> bool:
        """Return whether a key's value may be seen: it is no secret, and was not looked up."""
        return not is_sensitive(name) and not self.looked_up.intersection(BROKER_SYNONYMS.get(name, (name,)))

    @cached_property
    def settings(self) -> BrokerSettings:
        """Every key's typed value: dynamic for this broker, then dynamic for all, then static, then default."""
        values: dict[str, Value] = {}
        merged = {**self.static, **self.dynamic_default, **self.dynamic}
        for name, key in BROKER_KEYS.items():
            text = merged.get(name)
            values[name] = key.parse(text) if text is not None else self._default(key)
        return BrokerSettings(values)

    def _default(self, key: ConfigKey) -> Value:
        if key.name in _ALONE and self.is_quorum_of_one:
            return 1
        return key.default_value

    # ---- what is derived from several keys ------------------------------------------------------------------------

    @property
    def node_id(self) -> NodeId:
        """This node's id (`node.id`, or its old name `broker.id`)."""
        return NodeId(self.settings.node_id)

    @cached_property
    def roles(self) -> frozenset[str]:
        """`broker`, `controller` or both."""
        return frozenset(self.settings.process_roles)

    @cached_property
    def log_dirs(self) -> tuple[str, ...]:
        """Data folders: `log.dirs`, else `log.dir`."""
        return self.settings.log_dirs or self.settings.log_dir

    @property
    def metadata_log_dir(self) -> str:
        """Folder of the cluster metadata log: `metadata.log.dir`, else the first data folder."""
        return self.settings.metadata_log_dir or self.log_dirs[0]

    @cached_property
    def voters(self) -> tuple[Voter, ...]:
        """The static quorum, empty where none is configured."""
        entries = BROKER_KEYS["controller.quorum.voters"].parse(self._static("controller.quorum.voters"))
        assert isinstance(entries, tuple)
        return parse_voters(entries)

    @cached_property
    def is_quorum_of_one(self) -> bool:
        """True where this node alone is the metadata quorum: no voters are named, or only itself."""
        roles = BROKER_KEYS["process.roles"].parse(self._static("process.roles"))
        assert isinstance(roles, tuple)
        own_id = BROKER_KEYS["node.id"].parse(self._static("node.id"))
        alone = all(voter.node_id == own_id for voter in self.voters)
        joins = self._static("controller.quorum.bootstrap.servers") and not self.voters and "controller" not in roles
        return "controller" in roles and alone and not joins

    def _static(self, name: str) -> str:
        return self.static.get(name, BROKER_KEYS[name].default or "")

    @cached_property
    def listeners(self) -> tuple[Listener, ...]:
        """Where the node listens, controller listeners included."""
        return parse_listeners("listeners", self.settings.listeners, self._protocols, distinct_ports=True)

    @cached_property
    def _protocols(self) -> dict[str, SecurityProtocol]:
        protocols = parse_protocol_map(self.settings.listener_security_protocol_map)
        if "listener.security.protocol.map" not in self.static:  # KIP-691: controller listeners default to PLAINTEXT
            for name in self.controller_listener_names:
                protocols.setdefault(name, protocols["PLAINTEXT"])
        return protocols

    def listener_named(self, name: str) -> Listener:
        """Return a listener as far as this node knows it, be it its own or another node's; raises ConfigError."""
        own = next((each for each in self.listeners if each.name == name), None)
        if own is None and name not in self._protocols:
            text = f"No security protocol defined for listener {name}"
            raise ConfigError("listener.security.protocol.map", name, text, text)
        return own or Listener(name, "", 0, self._protocols[name])

    @cached_property
    def controller_listener_names(self) -> tuple[str, ...]:
        """Listeners that serve the metadata quorum; none means that it is reached inside the process only."""
        return tuple(name.upper() for name in self.settings.controller_listener_names)

    @cached_property
    def client_listeners(self) -> tuple[Listener, ...]:
        """Where clients and other brokers are served."""
        return tuple(each for each in self.listeners if each.name not in self.controller_listener_names)

    @cached_property
    def advertised_listeners(self) -> tuple[Listener, ...]:
        """What clients are told; an empty host stands for the machine's own name, port 0 for the one bound."""
        return tuple(each for each in self.all_advertised_listeners if each.name not in self.controller_listener_names)

    @cached_property
    def all_advertised_listeners(self) -> tuple[Listener, ...]:
        """What clients are told, and other controllers: Kafka's own `server.properties` names both."""
        given = self.settings.advertised_listeners
        if given is None:
            return self.client_listeners
        protocols = {each.name: each.protocol for each in self.listeners}
        protocols = parse_protocol_map(self.settings.listener_security_protocol_map) | protocols
        return parse_listeners("advertised.listeners", given, protocols, distinct_ports=False)

    @cached_property
    def http_listeners(self) -> tuple[HttpListener, ...]:
        """Where metrics and health are served (`ottla.http.listeners`); nowhere by default."""
        return parse_http_listeners("ottla.http.listeners", self.settings.ottla_http_listeners)

    def listener_values(self, listener: Listener, prefix: str) -> dict[str, str]:
        """Return the texts of the keys that begin with `prefix`, as they hold for one listener.

        `listener.name.NAME.KEY`, with the listener's name in small letters, is stronger than KEY.
        """
        given = {**self.static, **self.dynamic_default, **self.dynamic}
        own = listener.own_prefix
        found = {name: text for name, text in given.items() if name.startswith(prefix)}
        return found | {name.removeprefix(own): text for name, text in given.items() if name.startswith(own + prefix)}

    @property
    def listens_on_default_only(self) -> bool:
        """True until a listener is configured: then the node is reached on loopback only."""
        return "listeners" not in self.static

    @cached_property
    def inter_broker_listener_name(self) -> str:
        """The listener that brokers use among themselves."""
        named = self.settings.inter_broker_listener_name
        return named.upper() if named else self.settings.security_inter_broker_protocol

    @cached_property
    def authorization(self) -> Authorization:
        """What the authorizer is told, in keys of its own."""
        return Authorization.of(self.static)

    @cached_property
    def early_start_listeners(self) -> frozenset[str]:
        """Listeners that are open before the authorizer has its entries; by default those of controllers (KIP-801)."""
        named = self.settings.early_start_listeners
        if named is None:
            return frozenset(self.controller_listener_names)
        return frozenset(each.strip().upper() for each in named if each.strip())

    # ---- checks and reports ---------------------------------------------------------------------------------------

    def validate(self) -> None:
        """Raise ConfigError for the first value, or combination of values, that is not allowed."""
        settings = self.settings
        _validate_node(self)
        _validate_listeners(self)
        _validate_groups(settings)
        _ = self.authorization
        for text, milliseconds in (
            ("log.retention", first_set(settings, "log.retention.ms")),
            ("log.roll", first_set(settings, "log.roll.ms")),
        ):
            if milliseconds == 0:
                raise ConfigError(f"{text}.ms", 0, "must be unlimited (-1) or, equal or greater than 1")
        if settings.replica_selector_class not in (None, "", *REPLICA_SELECTORS):
            allowed = f"must be one of {', '.join(REPLICA_SELECTORS)}"
            raise ConfigError("replica.selector.class", settings.replica_selector_class, allowed)
        if 0 < settings.queued_max_request_bytes < settings.socket_request_max_bytes:
            raise ConfigError(
                "queued.max.request.bytes",
                settings.queued_max_request_bytes,
                "must be larger or equal to socket.request.max.bytes",
            )
        if settings.replica_fetch_wait_max_ms > settings.replica_lag_time_max_ms:
            raise ConfigError(
                "replica.fetch.wait.max.ms",
                settings.replica_fetch_wait_max_ms,
                "should always be less than or equal to replica.lag.time.max.ms to prevent frequent changes in ISR",
            )

    @cached_property
    def layers(self) -> tuple[Layer, ...]:
        """The text of what is set, strongest source first, with the defaults last."""
        defaults = {name: value_text(self._default(key)) for name, key in BROKER_KEYS.items()}
        return (
            (ConfigSource.DYNAMIC_BROKER_CONFIG, self.dynamic),
            (ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG, self.dynamic_default),
            (ConfigSource.STATIC_BROKER_CONFIG, self.static),
            (ConfigSource.DEFAULT_CONFIG, defaults),
        )

    def entries(self, names: Iterable[str] | None = None) -> list[ConfigEntry]:
        """Return every key, or those named, as DescribeConfigs reports this broker."""
        places = self._places
        wanted = places if names is None else sorted(places.keys() & set(names), key=places.__getitem__)
        return [self._kept_entry(name) for name in wanted]

    @cached_property
    def _places(self) -> Mapping[str, int]:
        """The keys that are told of, each with its place among them."""
        unknown = [name for name in self.static if name not in BROKER_KEYS]
        given = {**self.static, **self.dynamic_default, **self.dynamic}
        public = [name for name, key in BROKER_KEYS.items() if not key.internal or name in given]
        return {name: at for at, name in enumerate([*public, *unknown])}

    def _kept_entry(self, name: str) -> ConfigEntry:
        found = self._entries.get(name)
        if found is None:
            found = self._entries[name] = self._entry(name, self.layers)
        return found

    @cached_property
    def _entries(self) -> dict[str, ConfigEntry]:
        """What was told of so far: one request may name this broker a hundred thousand times."""
        return {}

    def _entry(self, name: str, layers: tuple[Layer, ...]) -> ConfigEntry:
        key = _key_of(name)
        sensitive = not self.is_shown(name)
        known = layers[:-1] if name in THROTTLES else layers
        chain = synonym_chain(name, BROKER_SYNONYMS.get(name, (name,)), known, sensitive=sensitive)
        value = None
        if not sensitive:
            own = getattr(self.settings, name.replace(".", "_"), None)
            value = value_text(own) if name in BROKER_KEYS else self.static.get(name)
            if any(each.value is not None and hidden_text(each.value) != each.value for each in chain):
                sensitive, value = True, None  # an address with a login, say
                chain = synonym_chain(name, BROKER_SYNONYMS.get(name, (name,)), known, sensitive=True)
        return ConfigEntry(
            name=name,
            value=value,
            source=chain[0].source if chain else ConfigSource.DEFAULT_CONFIG,
            synonyms=chain,
            type=key.type if key else None,
            read_only=key is None or key.mode is UpdateMode.READ_ONLY,
            sensitive=sensitive,
            doc=key.doc if key else "",
        )

    def default_entries(self, names: Iterable[str] | None = None) -> list[ConfigEntry]:
        """Return what is set for all brokers dynamically, as DescribeConfigs reports the default broker."""
        layers = self.layers[1:]
        wanted = set(self.dynamic_default if names is None else names)
        return [
            replace(
                self._entry(name, layers),
                value=self.dynamic_default[name] if self.is_shown(name) else None,
                source=ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG,
            )
            for name in sorted(wanted & self.dynamic_default.keys())
        ]


def first_set(settings: BrokerSettings, name: str) -> int | None:
    """Return the value, in milliseconds, of a duration that Kafka spells in several units; negative ones are -1."""
    units = {"ms": 1, "minutes": 60_000, "hours": 3_600_000}
    for each in BROKER_SYNONYMS[name]:
        value = getattr(settings, each.replace(".", "_"))
        if value is not None:
            return -1 if value < 0 else int(value) * units[each.rpartition(".")[2]]
    return None


def validate_broker_configs(configs: Mapping[str, str], *, per_broker: bool) -> None:
    """Raise ConfigError where a dynamic change of broker keys is not allowed (KIP-226).

    `per_broker` is False for a change for all brokers (the default entity).
    """
    modes = {name: key.mode if (key := _key_of(name)) else UpdateMode.PER_BROKER for name in configs}
    fixed = [name for name, mode in modes.items() if mode is UpdateMode.READ_ONLY]
    if fixed:
        raise _refused(configs, fixed, "Cannot update these configs dynamically: ")
    unbound = [name for name in modes if name.startswith("ssl.")]
    if unbound:
        text = "These security configs can be dynamically updated only per-listener using the listener prefix: "
        raise _refused(configs, unbound, text)
    own = [name for name, mode in modes.items() if mode is UpdateMode.PER_BROKER and _key_of(name)]
    if own and not per_broker:
        raise _refused(
            configs, own, "Cannot update these configs at default cluster level, broker id must be specified: "
        )
    for name, text in configs.items():
        if key := _key_of(name):
            key.parse(text)


def _refused(configs: Mapping[str, str], names: list[str], reason: str) -> ConfigError:
    listed = f"[{', '.join(names)}]"
    return ConfigError(names[0], configs[names[0]], reason + listed, reason + listed)


def _with_both_ids(static: dict[str, str]) -> dict[str, str]:
    """Let `node.id` and its old name `broker.id` stand for each other where only one is given."""
    ids = {name: static[name] for name in _ID_KEYS if name in static}
    return static | dict.fromkeys(_ID_KEYS, *ids.values()) if len(ids) == 1 else static


def _under_home(static: Mapping[str, str], home: str) -> dict[str, str]:
    """Return the data folders that begin with `~/`, with the home folder put there."""
    if not home:
        return {}
    begun = {name: static[name] for name in _FOLDERS if "~/" in static.get(name, "")}
    return {
        name: re.sub(r"(^|,)\s*~/", lambda found: f"{found[1]}{home.rstrip('/')}/", text)
        for name, text in begun.items()
    }


def _usable(values: Mapping[str, str], *, per_broker: bool, warnings: list[str]) -> dict[str, str]:
    found = {}
    for name, text in values.items():
        try:
            validate_broker_configs({name: text}, per_broker=per_broker)
            found[name] = text
        except ConfigError as error:
            warnings.append(f"dynamic broker configuration ignored: {error}")
    return found


def _key_of(name: str) -> ConfigKey | None:
    """Return what is known of a key, looking behind `listener.name.NAME.` and a SASL mechanism."""
    if name.startswith("listener.name."):
        name = name.removeprefix("listener.name.").partition(".")[2]
        return BROKER_KEYS.get(name) or BROKER_KEYS.get(name.partition(".")[2])
    return BROKER_KEYS.get(name)


def _without_secret(error: ConfigError, elsewhere: Mapping[str, str]) -> ConfigError:
    """Return an error that shows nothing of what was looked up."""
    if not any(value and value in f"{error} {error.value}" for value in elsewhere.values()):
        return error
    text = f"{error.key}: what its ${{…}} stands for cannot be its value"
    return ConfigError(error.key, "[hidden]", "", text)


def _is_known(name: str) -> bool:
    """Return whether a key is Kafka's, or its authorizer's own."""
    return _key_of(name) is not None or name in AUTHORIZER_KEYS


def is_sensitive(name: str) -> bool:
    """Return whether a broker's value may be a secret: of a password's key, or of one that is not known."""
    key = _key_of(name)
    return key is None or key.sensitive


def _closest(name: str, cutoff: float) -> str | None:
    from difflib import get_close_matches  # only where something is misspelt

    return next(iter(get_close_matches(name, BROKER_KEYS, n=1, cutoff=cutoff)), None)


def _variable(name: str) -> str:
    return f"KAFKA_{name.replace('_', '__').replace('-', '___').replace('.', '_').upper()}"


def _is_told(name: str, shown: str) -> bool:
    """Return whether a key that is none looks like one that was meant; in the environment much begins with KAFKA_."""
    if gone(name):
        return False
    return name == shown or _closest(name, 0.85) is not None


def _unknown(name: str, shown: str) -> str:
    closest = _closest(name, 0.6)
    return f"unknown configuration {shown} is ignored" + (f"; did you mean {closest}?" if closest else "")


def _validate_node(config: BrokerConfig) -> None:
    node_id, broker_id = (config.static.get(name, "") for name in ("node.id", "broker.id"))
    if node_id.strip() != broker_id.strip():
        raise ConfigError("broker.id", broker_id, "must be the same as node.id, or left out")
    own = [voter for voter in config.voters if voter.node_id == config.node_id]
    if config.voters and "controller" in config.roles and not own:
        text = config.static["controller.quorum.voters"]
        raise ConfigError("controller.quorum.voters", text, f"must contain this controller's own id, {config.node_id}")


def _validate_listeners(config: BrokerConfig) -> None:
    _ = config.http_listeners
    if config.settings.inter_broker_listener_name and "security.inter.broker.protocol" in config.static:
        only_one = "Only one of inter.broker.listener.name and security.inter.broker.protocol should be set."
        raise ConfigError("inter.broker.listener.name", config.settings.inter_broker_listener_name, only_one, only_one)
    names = {each.name for each in config.listeners}
    for name in config.controller_listener_names:
        if "controller" in config.roles and name not in names:
            raise ConfigError("controller.listener.names", name, "must be one of the names in listeners")
    named = {each.name for each in config.all_advertised_listeners}
    if (reserved := named & set(config.controller_listener_names)) and "controller" not in config.roles:
        raise ConfigError("advertised.listeners", min(reserved), "must not contain a controller listener")
    if strange := config.early_start_listeners - names - set(config.controller_listener_names):
        allowed = "must be contained in listeners or controller.listener.names"
        raise ConfigError("early.start.listeners", min(strange), allowed)
    if "broker" not in config.roles:
        return
    if not config.client_listeners:
        raise ConfigError("listeners", config.static.get("listeners"), "a broker needs a listener for clients")
    if missing := named - names:
        raise ConfigError("advertised.listeners", min(missing), "must be one of the names in listeners")
    advertised = {each.name for each in config.advertised_listeners}
    if config.inter_broker_listener_name not in advertised:
        key = "inter.broker.listener.name"
        allowed = f"must be one of the advertised listeners: {', '.join(sorted(advertised))}"
        raise ConfigError(key, config.inter_broker_listener_name, allowed)


def _validate_groups(settings: BrokerSettings) -> None:
    """Hold what groups are given by default within what they may ask for, and a heartbeat within a session."""
    for kind in ("consumer", "share", "streams"):
        for name in ("session_timeout", "heartbeat_interval", "assignment_interval"):
            lowest, value, highest = (
                (f"group_{kind}_{bound}{name}_ms", getattr(settings, f"group_{kind}_{bound}{name}_ms"))
                for bound in ("min_", "", "max_")
            )
            _validate_order(highest, lowest)
            _validate_order(value, lowest)
            _validate_order(highest, value)
        session = getattr(settings, f"group_{kind}_session_timeout_ms")
        heartbeat = getattr(settings, f"group_{kind}_heartbeat_interval_ms")
        if heartbeat >= session:
            text = f"must be less than group.{kind}.session.timeout.ms, which is {session}"
            raise ConfigError(f"group.{kind}.heartbeat.interval.ms", heartbeat, text)


def _validate_order(larger: tuple[str, int], smaller: tuple[str, int]) -> None:
    (key, value), (other, bound) = ((name.replace("_", "."), each) for name, each in (larger, smaller))
    if value < bound:
        raise ConfigError(key, value, f"must be greater than or equal to {other}, which is {bound}")
