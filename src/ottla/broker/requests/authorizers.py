"""Which authorizer a node has, from its configuration; one that cannot be had is an error, never no authorizer."""

from __future__ import annotations

from collections.abc import Callable

from ottla.base import Clock
from ottla.broker.plugins import plugin
from ottla.broker.requests.authorizer import AclAuthorizer, AllowAll, Authorizer
from ottla.broker.requests.connected import Connected
from ottla.config import BrokerConfig
from ottla.security import ANYTHING, AuditLog, Operation, Resource, StandardAuthorizer, super_users

__all__ = ["GROUP", "STANDARD", "PluginAuthorizer", "authorizer_of"]

KEY = "authorizer.class.name"
GROUP = "ottla.authorizers"
"""The group of entry points: each names a class with a method `authorize`."""
STANDARD = ("org.apache.kafka.metadata.authorizer.StandardAuthorizer", "ottla.security.StandardAuthorizer")
"""The names of the one that keeps its entries in the cluster's metadata: Kafka's and ours."""


Authorize = Callable[[str, str, str, str, str], bool]
"""Principal, address, operation, type of resource, and its name: `User:ann`, `192.0.2.7`, `READ`, `TOPIC`, `orders`."""


class PluginAuthorizer:
    """Asks a class of somebody else's; what that raises refuses, as an error of this node's."""

    has_acls = False

    def __init__(self, authorize: Authorize, super_users: frozenset[str]) -> None:
        self._authorize = authorize
        self._super_users = super_users

    def allows(
        self,
        peer: Connected,
        operation: Operation,
        resource: Resource,
        name: str,
        api_key: int = -1,
        is_asked_for: bool = True,
        references: int = 1,
    ) -> bool:
        """Return whether the class, and nothing less than True, allows it."""
        if peer.is_this_node or peer.principal in self._super_users:
            return True
        return self._authorize(peer.principal, peer.client_host, operation.name, resource.name, name) is True

    def grants(
        self, peer: Connected, operation: Operation, resource: Resource, name: str, api_key: int, times: int
    ) -> bool:
        """Return False: what the class decides it may decide differently the next time."""
        return False

    def allows_on_some(self, peer: Connected, operation: Operation, resource: Resource, api_key: int = -1) -> bool:
        """Return whether the class allows it on the name `*`, which stands for some resource."""
        return self.allows(peer, operation, resource, ANYTHING, api_key)


def authorizer_of(config: BrokerConfig, clock: Clock) -> Authorizer:
    """Return what decides on this node; raises ConfigError for what cannot be honoured."""
    name = config.settings.authorizer_class_name
    if not name:
        return AllowAll()
    authorization = config.authorization
    if name not in STANDARD:
        own = plugin(config, KEY, name, GROUP, "authorize")
        return PluginAuthorizer(own.authorize, super_users(authorization.super_users))
    standard = StandardAuthorizer(
        super_users=super_users(authorization.super_users),
        allow_everyone_if_no_acl_is_found=authorization.allows_everyone_by_default,
    )
    return AclAuthorizer(standard, AuditLog(), clock)
