"""The classes that `….class` settings name: Kafka's own by their Java names, and Python classes of whoever runs the mirror.

A class of one's own is named as `package.module.Class` or `package.module:Class`. Its module is one that lies on the
worker's `plugin.path` (which is loaded when the worker starts), or one that Python finds (installed, or on PYTHONPATH).
"""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from collections.abc import Callable, Mapping
from typing import Any

from ottla.base import ConfigError
from ottla.client import BlockingClient
from ottla.mirror.filters import FILTERS, ConfigPropertyFilter, GroupFilter, TopicFilter
from ottla.mirror.forwarding_admin import ForwardingAdmin
from ottla.mirror.policies import POLICIES, ReplicationPolicy

__all__ = ["admin_class", "admin_of", "group_filter", "policy_of", "property_filter", "topic_filter"]

PACKAGE = "org.apache.kafka.connect.mirror."
ADMIN = "org.apache.kafka.clients.admin.ForwardingAdmin"
_NAME = re.compile(r"(?P<module>[^\W\d]\w*(?:\.[^\W\d]\w*)*)[.:](?P<cls>[^\W\d]\w*)")
Props = Mapping[str, str]


def policy_of(props: Props) -> ReplicationPolicy:
    """Return the policy of `replication.policy.class`; raises ConfigError for one that cannot be had or configured."""
    found: ReplicationPolicy = _configured(props, "replication.policy.class", ReplicationPolicy, POLICIES)
    return found


def topic_filter(props: Props) -> TopicFilter:
    """Return the filter of `topic.filter.class`; raises ConfigError."""
    found: TopicFilter = _configured(props, "topic.filter.class", TopicFilter, FILTERS)
    return found


def group_filter(props: Props) -> GroupFilter:
    """Return the filter of `group.filter.class`; raises ConfigError."""
    found: GroupFilter = _configured(props, "group.filter.class", GroupFilter, FILTERS)
    return found


def property_filter(props: Props) -> ConfigPropertyFilter:
    """Return the filter of `config.property.filter.class`; raises ConfigError."""
    found: ConfigPropertyFilter = _configured(props, "config.property.filter.class", ConfigPropertyFilter, FILTERS)
    return found


def admin_class(props: Props) -> type[ForwardingAdmin]:
    """Return the class of `forwarding.admin.class`; raises ConfigError."""
    return _class(props, "forwarding.admin.class", ForwardingAdmin, {ADMIN: ForwardingAdmin})


def admin_of(props: Props, configs: Props, client: BlockingClient) -> ForwardingAdmin:
    """Return an admin of `forwarding.admin.class` for a cluster's client and its properties; raises ConfigError."""
    cls = admin_class(props)
    made: ForwardingAdmin = _by_its_author("forwarding.admin.class", _shown(cls), lambda: cls(configs, client))
    return made


def _configured(props: Props, key: str, base: type[Any], stock: Mapping[str, type[Any]]) -> Any:
    cls = _class(props, key, base, {name: each for name, each in stock.items() if issubclass(each, base)})

    def made() -> Any:
        found = cls()
        found.configure(props)
        return found

    return _by_its_author(key, _shown(cls), made)


def _shown(cls: type[Any]) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


def _by_its_author(key: str, name: str, do: Callable[[], Any]) -> Any:
    """Return what a class of somebody else's makes; raises ConfigError with the reason where that fails."""
    try:
        return do()
    except ConfigError:
        raise
    except Exception as error:  # a class of one's own may raise anything, and so may its module
        raise _refused(key, name, f"it failed with {type(error).__name__}: {error}") from error


def _class(props: Props, key: str, base: type[Any], stock: Mapping[str, type[Any]]) -> type[Any]:
    name = (props.get(key) or next(iter(stock))).strip()
    simple = {each.rpartition(".")[2]: cls for each, cls in stock.items()}
    found = stock.get(name) or simple.get(name) or _imported(key, name, base, tuple(stock))
    if not (inspect.isclass(found) and issubclass(found, base)):
        raise _refused(key, name, f"it is no subclass of ottla.mirror.{base.__name__}")
    if missing := sorted(getattr(found, "__abstractmethods__", ())):
        raise _refused(key, name, f"it does not say {', '.join(missing)} of ottla.mirror.{base.__name__}")
    return found


def _imported(key: str, name: str, base: type[Any], stock: tuple[str, ...]) -> Any:
    parts = _NAME.fullmatch(name)
    if parts is None:
        raise _refused(key, name, f"expected package.module.Class, package.module:Class or {' or '.join(stock)}")
    if parts["module"].partition(".")[0] in sys.stdlib_module_names:
        raise _refused(key, name, "it is of Python's own library")
    module = _by_its_author(key, name, lambda: _module(key, name, parts["module"], base, stock))
    found = getattr(module, parts["cls"], None)
    if found is None:
        raise _refused(key, name, f"module {parts['module']} has no class {parts['cls']}")
    return found


def _module(key: str, name: str, module: str, base: type[Any], stock: tuple[str, ...]) -> Any:
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise  # of the author's imports
        raise _refused(
            key,
            name,
            f"there is no Python module {module} on plugin.path, installed, or on PYTHONPATH. A class of Java's cannot run "
            f"here: write it as a subclass of ottla.mirror.{base.__name__} in Python, or use {' or '.join(stock)}",
        ) from error


def _refused(key: str, name: str, why: str) -> ConfigError:
    return ConfigError(key, name, why)
