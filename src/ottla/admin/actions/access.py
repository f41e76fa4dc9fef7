"""Who may do what, and how much: entries of access, users' SCRAM credentials, quotas."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ottla.admin.acls import create_acls, delete_acls, describe_acls
from ottla.admin.actions.plan import ActionPlan, Arguments, Difference, Planner, Reach, Undo, command, number, text
from ottla.admin.credentials import (
    MECHANISMS,
    CredentialChange,
    NewPassword,
    alter_credentials,
    describe_credentials,
    plan_credential_change,
)
from ottla.admin.errors import AdminError
from ottla.admin.quotas import CLIENT_QUOTAS, CONNECTION_QUOTAS, QuotaChange, alter_quotas, describe_quotas

if TYPE_CHECKING:
    from ottla.security import Acl, AclFilter

__all__ = ["ACCESS", "acl_fields"]

ENTRIES_MAX = 500
KINDS = ("user", "client-id", "ip")
OPTIONS = {
    "TOPIC": "--topic",
    "GROUP": "--group",
    "TRANSACTIONAL_ID": "--transactional-id",
    "DELEGATION_TOKEN": "--delegation-token",
    "USER": "--user-principal",
}
"""The option by which `ottla acls` names a resource of each kind; the cluster has none to name."""


def acl_fields(acl: Acl) -> dict[str, str]:
    """Return an entry in JSON's terms, which actions take as well."""
    return {
        "resource_type": acl.resource_type.name,
        "resource": acl.resource_name,
        "pattern": acl.pattern_type.name,
        "principal": acl.principal,
        "host": acl.host,
        "operation": acl.operation.name,
        "permission": acl.permission_type.name,
    }


def _entries(arguments: Arguments) -> list[Acl]:
    given = arguments.get("entries")
    if not isinstance(given, Sequence) or isinstance(given, str) or not given or len(given) > ENTRIES_MAX:
        raise AdminError(f"entries is a list of 1 to {ENTRIES_MAX}")
    return list(dict.fromkeys(_entry(each) for each in given))


def _entry(given: object) -> Acl:
    from ottla.security import Acl, Operation, PatternType, PermissionType, Resource

    if not isinstance(given, Mapping):
        raise AdminError("an entry is an object")
    kinds = {"resource_type": Resource, "pattern": PatternType, "operation": Operation, "permission": PermissionType}
    found: dict[str, Any] = {}
    for name, kind in kinds.items():
        value = str(given.get(name) or ("LITERAL" if name == "pattern" else "ALLOW" if name == "permission" else ""))
        known = {each.name: each for each in kind if each.name not in ("UNKNOWN", "ANY", "MATCH")}
        if value not in known:
            raise AdminError(f"{name} is one of {', '.join(known)}, not {value!r}")
        found[name] = known[value]
    principal = text(given, "principal")
    if ":" not in principal:
        raise AdminError(f"principal is TYPE:NAME, such as User:ann, not {principal!r}")
    return Acl(
        found["resource_type"],
        text(given, "resource"),
        found["pattern"],
        principal,
        str(given.get("host") or "*"),
        found["operation"],
        found["permission"],
    )


def _exactly(acl: Acl) -> AclFilter:
    from ottla.security import AclFilter

    return AclFilter(
        *(acl.resource_type, acl.resource_name, acl.pattern_type, acl.principal, acl.host),
        *(acl.operation, acl.permission_type),
    )


def _there(reach: Reach) -> set[Acl]:
    from ottla.security import AclFilter

    return set(describe_acls(reach.client, AclFilter()))


def _path(acl: Acl) -> str:
    star = "*" if acl.pattern_type.name == "PREFIXED" else ""
    return f"{acl.principal} from {acl.host}: {acl.operation.name} {acl.resource_type.name} {acl.resource_name}{star}"


def _acl_commands(acls: Sequence[Acl], verb: str) -> str:
    """Return the commands that do the same: those that differ in their operations alone are one."""
    alike: dict[tuple[object, ...], list[str]] = {}
    for each in acls:
        key = each.resource_type, each.resource_name, each.pattern_type, each.principal, each.host, each.permission_type
        alike.setdefault(key, []).append(each.operation.name)
    found = []
    for (kind, name, pattern, principal, host, permission), operations in alike.items():
        who = "allow" if permission.name == "ALLOW" else "deny"  # type: ignore[attr-defined]
        option = OPTIONS.get(kind.name)  # type: ignore[attr-defined]
        words = ["acls", verb, *([option, str(name)] if option else ["--cluster"])]
        words += ["--resource-pattern-type", "prefixed"] if pattern.name == "PREFIXED" else []  # type: ignore[attr-defined]
        words += [f"--{who}-principal", str(principal), f"--{who}-host", str(host)]
        words += [word for each in operations for word in ("--operation", each)]
        found.append(command(*words, *(["--force"] if verb == "--remove" else [])))
    return " && ".join(found)


def _create_acls(reach: Reach, arguments: Arguments) -> ActionPlan:
    there = _there(reach)
    fresh = [each for each in _entries(arguments) if each not in there]
    touched = sorted(
        {
            f"{each.resource_type.name.lower()} {each.resource_name}"
            for each in fresh
            if not any(
                (one.resource_type, one.resource_name) == (each.resource_type, each.resource_name) for one in there
            )
        }
    )
    denied = [each for each in fresh if each.permission_type.name == "DENY"]
    effects = ["They hold at once, for connections that are open, too."] if fresh else []
    return ActionPlan(
        "create-acls",
        dict(arguments),
        tuple(Difference(_path(each), None, each.permission_type.name) for each in fresh),
        _acl_commands(fresh, "--add"),
        effects=tuple(effects),
        warnings=(
            *(("They are all there already.",) if not fresh else ()),
            *(
                (
                    f"The first entries for {', '.join(touched[:5])}: where allow.everyone.if.no.acl.found is on, "
                    "everybody else may do nothing there from then on.",
                )
                if touched
                else ()
            ),
            *(("What is denied is denied, whatever else allows it.",) if denied else ()),
        ),
        undo=Undo("delete-acls", {"entries": [acl_fields(each) for each in fresh]}),
        run=lambda each: create_acls(each.client, fresh),
    )


def _delete_acls(reach: Reach, arguments: Arguments) -> ActionPlan:
    there = _there(reach)
    gone = [each for each in _entries(arguments) if each in there]
    if not gone:
        raise AdminError("There are no such entries (any more)")

    def run(each: Reach) -> None:
        delete_acls(each.client, [_exactly(acl) for acl in gone])

    return ActionPlan(
        "delete-acls",
        dict(arguments),
        tuple(Difference(_path(each), each.permission_type.name, None) for each in gone),
        _acl_commands(gone, "--remove"),
        effects=("They hold no more at once, for connections that are open, too.",),
        undo=Undo("create-acls", {"entries": [acl_fields(each) for each in gone]}),
        run=run,
    )


def _set_password(reach: Reach, arguments: Arguments) -> ActionPlan:
    """The password is salted at once; neither the plan's arguments nor its difference holds it."""
    user, mechanism = text(arguments, "user"), str(arguments.get("mechanism") or "SCRAM-SHA-512")
    if mechanism not in MECHANISMS:
        raise AdminError(f"mechanism is one of {', '.join(MECHANISMS)}")
    known = describe_credentials(reach.client, user).get(user, {})
    change = arguments.get("change")
    if not isinstance(change, CredentialChange):
        new = NewPassword(text(arguments, "password"), number(arguments, "iterations"))
        change = plan_credential_change(user, {mechanism: new}, ())
    iterations = change.added[mechanism].iterations
    before = f"{known[mechanism]} iterations" if mechanism in known else None
    words = ("configs", "--alter", "--entity-type", "users", "--entity-name", user, "--add-config")
    kept = {"user": user, "mechanism": mechanism}
    return ActionPlan(
        "set-password",
        kept,
        (Difference(f"user {user}/{mechanism}", before, f"{iterations} iterations, a new password"),),
        command(*words, f"{mechanism}=[iterations={iterations},password=…]"),
        effects=("Who logs in from now on needs it; connections that are open stay open.",),
        warnings=("The password that there was cannot be brought back.",) if before else (),
        pinned={**kept, "change": change},
        run=lambda each: alter_credentials(each.client, change),
    )


def _delete_password(reach: Reach, arguments: Arguments) -> ActionPlan:
    user, mechanism = text(arguments, "user"), text(arguments, "mechanism")
    known = describe_credentials(reach.client, user).get(user, {})
    if mechanism not in known:
        raise AdminError(f"{user} has no password by {mechanism}")
    words = ("configs", "--alter", "--entity-type", "users", "--entity-name", user, "--delete-config", mechanism)
    return ActionPlan(
        "delete-password",
        dict(arguments),
        (Difference(f"user {user}/{mechanism}", f"{known[mechanism]} iterations", None),),
        command(*words),
        effects=(f"{user} cannot log in by {mechanism} any more; connections that are open stay open.",),
        warnings=("Entries of access for this user stay.",),
        typed=user,
        run=lambda each: alter_credentials(each.client, CredentialChange(user, {}, (mechanism,))),
    )


def _alter_quotas(reach: Reach, arguments: Arguments) -> ActionPlan:
    given = arguments.get("entity")
    if not isinstance(given, Mapping) or not given or not set(given) <= set(KINDS):
        raise AdminError(f"entity maps {', '.join(KINDS)} to names, or to null for the default")
    entity = {kind: None if given[kind] is None else str(given[kind]) for kind in KINDS if kind in given}
    added, dropped = arguments.get("set") or {}, list(arguments.get("delete") or ())
    known = CONNECTION_QUOTAS if "ip" in entity else CLIENT_QUOTAS
    if not isinstance(added, Mapping) or not (added or dropped):
        raise AdminError("set maps quotas to numbers, delete lists some: one of them is needed")
    for name in (*added, *dropped):
        if name not in known:
            raise AdminError(f"{name} is no quota of these: there are {', '.join(known)}")
    values: dict[str, float] = {}
    for name, value in added.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
            raise AdminError(f"{name} is a number above 0, not {value!r}")
        values[name] = float(value)
    change = QuotaChange(entity, values, tuple(dropped))
    alter_quotas(reach.client, change, validate_only=True)
    wanted = {kind: "" if name is None else name for kind, name in entity.items()}
    before: dict[str, float] = {}
    for found in describe_quotas(reach.client, wanted):
        if dict(found.entity) == entity:
            before = dict(found.values)
    said = ", ".join(f"{kind} {name or '(default)'}" for kind, name in entity.items())
    names = (*values, *(each for each in dropped if each not in values))
    return ActionPlan(
        "alter-quotas",
        dict(arguments),
        tuple(
            Difference(f"{said}/{name}", before.get(name), values.get(name))
            for name in names
            if before.get(name) != values.get(name)
        ),
        command(*_quota_words(entity, values, dropped)),
        effects=("Brokers hold clients to it from now on: who is above it waits, and nothing is refused.",),
        undo=Undo(
            "alter-quotas",
            {
                "entity": entity,
                "set": {name: before[name] for name in names if name in before},
                "delete": [name for name in names if name not in before],
            },
        ),
        run=lambda each: alter_quotas(each.client, change),
    )


def _quota_words(entity: Mapping[str, str | None], values: Mapping[str, float], dropped: Sequence[str]) -> list[str]:
    words = ["configs", "--alter"]
    for kind, name in entity.items():
        words += ["--entity-type", {"user": "users", "client-id": "clients", "ip": "ips"}[kind]]
        words += ["--entity-default"] if name is None else ["--entity-name", name]
    words += ["--add-config", ",".join(f"{key}={value:g}" for key, value in values.items())] if values else []
    return words + (["--delete-config", ",".join(dropped)] if dropped else [])


ACCESS: Mapping[str, Planner] = {
    "create-acls": _create_acls,
    "delete-acls": _delete_acls,
    "set-password": _set_password,
    "delete-password": _delete_password,
    "alter-quotas": _alter_quotas,
}
