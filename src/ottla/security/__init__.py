"""Who it is, who may do what, and how much of it: the rules alone, without sockets, clocks or files but for two doors.

It holds logging in (`sasl`), TLS contexts made of key stores (`tls`), what is kept of passwords (`scram_credentials`),
ACLs (entries, filters, StandardAuthorizer's decisions, the access that a request needs), and quotas: rates measured over
windows as Kafka measures them, token buckets, the order in which the quotas of users and client ids are looked for, and
for how long whoever exceeds one has to wait. Time is an argument.
"""

from ottla.security.access import CLUSTER_NAME, NEEDS_NOTHING, Needs, Operation, Resource
from ottla.security.acls import (
    Acl,
    AclFields,
    AclFilter,
    PatternType,
    PermissionType,
    acl_of,
    check_acl,
    check_filter,
)
from ottla.security.authorizer import AuthorizerNotReadyError, Decision, StandardAuthorizer, super_users
from ottla.security.quotas import (
    CLIENT_QUOTAS,
    IP_QUOTAS,
    QUOTA_KINDS,
    ClientQuotas,
    Entity,
    MutationQuota,
    QuotaKind,
    QuotaTable,
    QuotaUse,
)
from ottla.security.rates import SampledRate, TokenBucket, Windows

__all__ = [
    "CLIENT_QUOTAS",
    "CLUSTER_NAME",
    "IP_QUOTAS",
    "NEEDS_NOTHING",
    "QUOTA_KINDS",
    "Acl",
    "AclFields",
    "AclFilter",
    "AuthorizerNotReadyError",
    "ClientQuotas",
    "Decision",
    "Entity",
    "MutationQuota",
    "Needs",
    "Operation",
    "PatternType",
    "PermissionType",
    "QuotaKind",
    "QuotaTable",
    "QuotaUse",
    "Resource",
    "SampledRate",
    "StandardAuthorizer",
    "TokenBucket",
    "Windows",
    "acl_of",
    "check_acl",
    "check_filter",
    "super_users",
]
