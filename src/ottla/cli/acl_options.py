"""What `ottla acls` is told, as entries and filters: which resources, who, from where, what, in Kafka's words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from ottla.base import OttlaError
from ottla.cli.options import UsageError, check_invalid

if TYPE_CHECKING:
    from argparse import Namespace

    from ottla.security import Acl, AclFilter, Operation, PatternType

__all__ = ["Wanted", "asked_acls", "asked_filters", "check", "parse_principals"]

ACTIONS = ("list", "add", "remove")
NEEDS_RESOURCE = (
    "You must provide at least one resource: --topic <topic> or --cluster or --group <group> or "
    "--delegation-token <Delegation Token ID>"
)
SUPPORTED: Mapping[str, tuple[str, ...]] = {
    "TOPIC": ("READ", "WRITE", "CREATE", "DESCRIBE", "DELETE", "ALTER", "DESCRIBE_CONFIGS", "ALTER_CONFIGS"),
    "GROUP": ("READ", "DESCRIBE", "DELETE", "DESCRIBE_CONFIGS", "ALTER_CONFIGS"),
    "CLUSTER": (
        *("CREATE", "CLUSTER_ACTION", "DESCRIBE_CONFIGS", "ALTER_CONFIGS", "IDEMPOTENT_WRITE"),
        *("ALTER", "DESCRIBE"),
    ),
    "TRANSACTIONAL_ID": ("DESCRIBE", "WRITE", "TWO_PHASE_COMMIT"),
    "DELEGATION_TOKEN": ("DESCRIBE",),
    "USER": ("CREATE_TOKENS", "DESCRIBE_TOKENS"),
}
"""The operations that entries for a kind of resource may name, beside ALL."""
Wanted = dict["AclFilter", list["Acl"]]
"""A resource, and the entries for it; none stands for whatever entries there are."""


def check(args: Namespace) -> str:
    """Return the action; raises UsageError, in Kafka's words and order, for options that do not go together."""
    if (args.bootstrap_server is None) == (args.bootstrap_controller is None):
        word = "One" if args.bootstrap_server is None else "Only one"
        raise UsageError(f"{word} of --bootstrap-server or --bootstrap-controller must be specified")
    actions = [each for each in ACTIONS if getattr(args, each)]
    if len(actions) != 1:
        raise UsageError("Command must include exactly one action: --list, --add, --remove. ")
    inferred = ("producer", "consumer", "allow-host", "allow-principal", "deny-host", "deny-principal")
    check_invalid(args, "list", inferred)
    for kind in ("producer", "consumer"):
        check_invalid(args, kind, ("operation", "deny-principal", "deny-host"))
    if args.principal and not args.list:
        raise UsageError("The --principal option is only available if --list is set")
    if args.producer and not args.topic:
        raise UsageError("With --producer you must specify a --topic")
    if args.idempotent and not args.producer:
        raise UsageError("The --idempotent option is only available if --producer is set")
    others = not args.producer and (args.cluster or args.transactional_id)
    if args.consumer and (not args.topic or not args.group or others):
        raise UsageError(
            "With --consumer you must specify a --topic and a --group and no --cluster or --transactional-id option "
            "should be specified."
        )
    return actions[0]


def asked_filters(args: Namespace, *, is_needed: bool) -> list[AclFilter]:
    """Return the resources that are named; raises UsageError where there is none and one is needed."""
    from ottla.security import CLUSTER_NAME, AclFilter, PatternType, Resource

    pattern = _pattern(args)
    kinds = {
        Resource.TOPIC: args.topic,
        Resource.GROUP: args.group,
        Resource.TRANSACTIONAL_ID: args.transactional_id,
        Resource.DELEGATION_TOKEN: args.delegation_token,
        Resource.USER: args.user_principal,
    }
    found = [AclFilter(kind, name.strip(), pattern) for kind, names in kinds.items() for name in names]
    if pattern is PatternType.LITERAL and (args.cluster or args.idempotent):
        found.append(AclFilter(Resource.CLUSTER, CLUSTER_NAME, PatternType.LITERAL))
    if is_needed and not found:
        raise UsageError(NEEDS_RESOURCE)
    return list(dict.fromkeys(found))


def _pattern(args: Namespace) -> PatternType:
    from ottla.security import PatternType

    name = args.resource_pattern_type.strip().upper()
    known = {each.name: each for each in PatternType if each is not PatternType.UNKNOWN}
    if name not in known:
        raise OttlaError(f"Cannot parse argument '{args.resource_pattern_type}' of option resource-pattern-type")
    return known[name]


def asked_acls(args: Namespace) -> Wanted:
    """Return the entries that are asked for, by resource; raises UsageError for what entries of Kafka's do not say."""
    from ottla.security import CLUSTER_NAME, AclFilter, Operation, PatternType, Resource

    resources = asked_filters(args, is_needed=True)
    found: Wanted = {}

    def want(resource: AclFilter, *operations: Operation) -> None:
        entries = found.setdefault(resource, [])
        entries += [each for each in _acls(args, resource, operations) if each not in entries]

    if not args.producer and not args.consumer:
        operations = [_operation(each) for each in args.operation or ["All"]]
        for each in resources:
            want(each, *operations)
    if args.producer:
        for each in resources:
            if each.resource_type is Resource.TOPIC:
                want(each, Operation.WRITE, Operation.DESCRIBE, Operation.CREATE)
            elif each.resource_type is Resource.TRANSACTIONAL_ID:
                want(each, Operation.WRITE, Operation.DESCRIBE)
        if args.idempotent:
            cluster = AclFilter(Resource.CLUSTER, CLUSTER_NAME, PatternType.LITERAL)
            want(cluster, Operation.IDEMPOTENT_WRITE)
    if args.consumer:
        for each in resources:
            if each.resource_type is Resource.TOPIC:
                want(each, Operation.READ, Operation.DESCRIBE)
            elif each.resource_type is Resource.GROUP:
                want(each, Operation.READ)
    _check_operations(found)
    return found


def _operation(text: str) -> Operation:
    """Return an operation by its name, `DescribeConfigs` or `describe_configs`; UNKNOWN where there is none."""
    from ottla.security import Operation

    known = {each.name.replace("_", ""): each for each in Operation}
    return known.get(text.strip().upper().replace("_", ""), Operation.UNKNOWN)


def _acls(args: Namespace, resource: AclFilter, operations: Iterable[Operation]) -> list[Acl]:
    from ottla.security import Acl, PermissionType

    found: list[Acl] = []
    for names, hosts, permission in (
        (args.allow_principal, args.allow_host, PermissionType.ALLOW),
        (args.deny_principal, args.deny_host, PermissionType.DENY),
    ):
        principals = parse_principals(names)
        for principal in principals:
            for host in dict.fromkeys(each.strip() for each in hosts or ["*"]):
                for operation in dict.fromkeys(operations):
                    assert resource.resource_name is not None
                    what = resource.resource_type, resource.resource_name, resource.pattern_type
                    found.append(Acl(*what, principal, host, operation, permission))
    return found


def parse_principals(names: Iterable[str]) -> list[str]:
    """Return the principals, each once; raises OttlaError for one without a type."""
    found = list(dict.fromkeys(each.strip() for each in names))
    for name in found:
        if ":" not in name:
            raise OttlaError(f"expected a string in format principalType:principalName but got {name}")
    return found


def _check_operations(wanted: Wanted) -> None:
    for resource, entries in wanted.items():
        kind = resource.resource_type.name
        supported = ("ALL", *SUPPORTED[kind])
        if any(each.operation.name not in supported for each in entries):
            raise UsageError(f"ResourceType {kind} only supports operations [{', '.join(supported)}]")
