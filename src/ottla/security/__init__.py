"""Who may do what, and how much of it: the rules alone, without sockets, clocks or files.

So far it holds quotas: rates measured over windows as Kafka measures them, token buckets, the order in which the quotas
of users and client ids are looked for, and for how long whoever exceeds one has to wait. Time is an argument.
"""

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
    "IP_QUOTAS",
    "QUOTA_KINDS",
    "ClientQuotas",
    "Entity",
    "MutationQuota",
    "QuotaKind",
    "QuotaTable",
    "QuotaUse",
    "SampledRate",
    "TokenBucket",
    "Windows",
]
