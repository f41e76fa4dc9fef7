"""Who it is, who may do what, and how much of it: the rules alone, without sockets, clocks or files but for two doors.

It holds logging in (`sasl`), TLS contexts made of key stores (`tls`), what is kept of passwords (`scram_credentials`),
ACLs (entries, filters, StandardAuthorizer's decisions, the access that a request needs), and quotas: rates measured over
windows as Kafka measures them, token buckets, the order in which the quotas of users and client ids are looked for, and
for how long whoever exceeds one has to wait. Time is an argument.
"""

from typing import TYPE_CHECKING

from ottla.base import late_imports

if TYPE_CHECKING:
    from ottla.security.access import CLUSTER_NAME, NEEDS_NOTHING, Needs, Operation, Resource
    from ottla.security.acls import (
        ANYTHING,
        Acl,
        AclFields,
        AclFilter,
        PatternType,
        PermissionType,
        acl_of,
        check_acl,
        check_filter,
    )
    from ottla.security.audit import AuditedRequest, AuditLog
    from ottla.security.authority import Authority, Issued
    from ottla.security.authorizer import AuthorizerNotReadyError, StandardAuthorizer, super_users
    from ottla.security.delegation_tokens import (
        DelegationTokens,
        TokenInfo,
        TokenLimits,
        new_token,
        renewed_token,
        shortened_token,
    )
    from ottla.security.jaas import JaasEntry, client_entry, jaas_text, parse_jaas_file, plain_users, server_entry
    from ottla.security.kept_decisions import Decision
    from ottla.security.kerberos_entry import KerberosEntry
    from ottla.security.key_file import read_file
    from ottla.security.principal_rules import KerberosRules, NoRuleError, SslRules
    from ottla.security.quota_callback import CalledBack, QuotaCallback
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
    from ottla.security.scram_credentials import (
        SCRAM_ITERATIONS_MAX,
        SCRAM_ITERATIONS_MIN,
        ScramCredential,
        ScramKind,
        ScramMechanism,
        check_new_credential,
        credential_of,
        credential_of_salted,
    )
    from ottla.security.tls import Renewal, Tls, certificate_name, pem_stores
    from ottla.security.tls_settings import STORE_KEYS, TlsSettings, openssl_cipher

__all__ = [
    "ANYTHING",
    "CLIENT_QUOTAS",
    "CLUSTER_NAME",
    "IP_QUOTAS",
    "NEEDS_NOTHING",
    "QUOTA_KINDS",
    "SCRAM_ITERATIONS_MAX",
    "SCRAM_ITERATIONS_MIN",
    "STORE_KEYS",
    "Acl",
    "AclFields",
    "AclFilter",
    "AuditLog",
    "AuditedRequest",
    "Authority",
    "AuthorizerNotReadyError",
    "CalledBack",
    "ClientQuotas",
    "Decision",
    "DelegationTokens",
    "Entity",
    "Issued",
    "JaasEntry",
    "KerberosEntry",
    "KerberosRules",
    "MutationQuota",
    "Needs",
    "NoRuleError",
    "Operation",
    "PatternType",
    "PermissionType",
    "QuotaCallback",
    "QuotaKind",
    "QuotaTable",
    "QuotaUse",
    "Renewal",
    "Resource",
    "SampledRate",
    "ScramCredential",
    "ScramKind",
    "ScramMechanism",
    "SslRules",
    "StandardAuthorizer",
    "Tls",
    "TlsSettings",
    "TokenBucket",
    "TokenInfo",
    "TokenLimits",
    "Windows",
    "acl_of",
    "certificate_name",
    "check_acl",
    "check_filter",
    "check_new_credential",
    "client_entry",
    "credential_of",
    "credential_of_salted",
    "jaas_text",
    "new_token",
    "openssl_cipher",
    "parse_jaas_file",
    "pem_stores",
    "plain_users",
    "read_file",
    "renewed_token",
    "server_entry",
    "shortened_token",
    "super_users",
]

_LATE = {
    **dict.fromkeys(("CLUSTER_NAME", "NEEDS_NOTHING", "Needs", "Operation", "Resource"), "ottla.security.access"),
    **dict.fromkeys(
        (
            "ANYTHING",
            "Acl",
            "AclFields",
            "AclFilter",
            "PatternType",
            "PermissionType",
            "acl_of",
            "check_acl",
            "check_filter",
        ),
        "ottla.security.acls",
    ),
    **dict.fromkeys(("AuditedRequest", "AuditLog"), "ottla.security.audit"),
    **dict.fromkeys(("AuthorizerNotReadyError", "StandardAuthorizer", "super_users"), "ottla.security.authorizer"),
    "Decision": "ottla.security.kept_decisions",
    **dict.fromkeys(("CalledBack", "QuotaCallback"), "ottla.security.quota_callback"),
    **dict.fromkeys(
        (
            "CLIENT_QUOTAS",
            "IP_QUOTAS",
            "QUOTA_KINDS",
            "ClientQuotas",
            "Entity",
            "MutationQuota",
            "QuotaKind",
            "QuotaTable",
            "QuotaUse",
        ),
        "ottla.security.quotas",
    ),
    **dict.fromkeys(("SampledRate", "TokenBucket", "Windows"), "ottla.security.rates"),
    **dict.fromkeys(
        (
            "SCRAM_ITERATIONS_MAX",
            "SCRAM_ITERATIONS_MIN",
            "ScramCredential",
            "ScramKind",
            "ScramMechanism",
            "check_new_credential",
            "credential_of",
            "credential_of_salted",
        ),
        "ottla.security.scram_credentials",
    ),
    **dict.fromkeys(
        ("DelegationTokens", "TokenInfo", "TokenLimits", "new_token", "renewed_token", "shortened_token"),
        "ottla.security.delegation_tokens",
    ),
    "JaasEntry": "ottla.security.jaas",
    "KerberosEntry": "ottla.security.kerberos_entry",
    "KerberosRules": "ottla.security.principal_rules",
    "NoRuleError": "ottla.security.principal_rules",
    "STORE_KEYS": "ottla.security.tls_settings",
    "SslRules": "ottla.security.principal_rules",
    "Renewal": "ottla.security.tls",
    "Tls": "ottla.security.tls",
    "TlsSettings": "ottla.security.tls_settings",
    "certificate_name": "ottla.security.tls",
    "client_entry": "ottla.security.jaas",
    "jaas_text": "ottla.security.jaas",
    "openssl_cipher": "ottla.security.tls_settings",
    "parse_jaas_file": "ottla.security.jaas",
    "pem_stores": "ottla.security.tls",
    "plain_users": "ottla.security.jaas",
    "read_file": "ottla.security.key_file",
    "server_entry": "ottla.security.jaas",
    **dict.fromkeys(("Authority", "Issued"), "ottla.security.authority"),
}

__getattr__ = late_imports(__name__, _LATE)
"""Imports each part when it is first asked for: a command that uses none of them waits for none."""
