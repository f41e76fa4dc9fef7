"""Which authorizer a node has, from its configuration; one that cannot be had is an error, never no authorizer."""

from __future__ import annotations

from ottla.base import Clock, ConfigError
from ottla.broker.requests.authorizer import AclAuthorizer, AllowAll, Authorizer
from ottla.config import BrokerConfig
from ottla.security import AuditLog, StandardAuthorizer, super_users

__all__ = ["STANDARD", "authorizer_of"]

KEY = "authorizer.class.name"
STANDARD = ("org.apache.kafka.metadata.authorizer.StandardAuthorizer", "ottla.security.StandardAuthorizer")
"""The names of the one that keeps its entries in the cluster's metadata: Kafka's and ours."""


def authorizer_of(config: BrokerConfig, clock: Clock) -> Authorizer:
    """Return what decides on this node; raises ConfigError for what cannot be honoured."""
    name = config.settings.authorizer_class_name
    if not name:
        return AllowAll()
    if name not in STANDARD:
        raise ConfigError(KEY, name, f"is not known; choose {STANDARD[0]}, or leave it unset")
    authorization = config.authorization
    standard = StandardAuthorizer(
        super_users=super_users(authorization.super_users),
        allow_everyone_if_no_acl_is_found=authorization.allows_everyone_by_default,
    )
    return AclAuthorizer(standard, AuditLog(), clock)
