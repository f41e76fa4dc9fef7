"""Who may do what, and how much of it: the rules alone, without sockets, clocks or files.

It holds the codes of ACLs (operations, resources, the access that a request needs), and quotas: rates measured over
windows as Kafka measures them, token buckets, the order in which the quotas of users and client ids are looked for, and
for how long whoever exceeds one has to wait. Time is an argument.
"""

from ottla.security.access import CLUSTER_NAME, NEEDS_NOTHING, Needs, Operation, Resource
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
    "ClientQuotas",
    "Entity",
    "MutationQuota",
    "Needs",
    "Operation",
    "QuotaKind",
    "QuotaTable",
    "QuotaUse",
    "Resource",
    "SampledRate",
    "TokenBucket",
    "Windows",
]
