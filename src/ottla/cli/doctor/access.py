"""The doctor's questions about who may do what: listeners that are open, authorizers that differ, ACLs that never hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from ipaddress import ip_address
from typing import TYPE_CHECKING

from ottla.admin import describe_acls
from ottla.base import ErrorCode, KafkaError, NodeId
from ottla.cli.doctor.findings import Finding, fail, named, ok, warning

if TYPE_CHECKING:
    from ottla.client import BlockingClient, Cluster
    from ottla.security import Acl

__all__ = ["acl_findings", "acls", "authorizers", "listener_findings", "listeners"]

BROKER_RESOURCE = 4
LOOPBACK = ("127.", "localhost", "::1", "[::1]")
CLIENT_AUTH = "ssl.client.auth"
NEEDS_ALL = "set the same authorizer.class.name on every broker and controller: who is refused by one asks the other"


def _settings(client: BlockingClient, cluster: Cluster) -> dict[NodeId, dict[str, str]]:
    from ottla.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource

    found = {}
    for node in sorted(cluster.nodes):
        resource = DescribeConfigsResource(
            resource_type=BROKER_RESOURCE, resource_name=str(node), configuration_keys=None
        )
        (result,) = client.request(DescribeConfigsRequest(resources=[resource]), node=node, lowest=1).results
        if result.error_code:
            raise KafkaError(ErrorCode(result.error_code), result.error_message or "")
        found[node] = {each.name: each.value or "" for each in result.configs}
    return found


def authorizers(client: BlockingClient, cluster: Cluster) -> list[Finding]:
    """Say whether every broker asks the same authorizer."""
    by_class: dict[str, list[NodeId]] = {}
    for node, settings in _settings(client, cluster).items():
        by_class.setdefault(settings["authorizer.class.name"], []).append(node)
    if len(by_class) > 1:
        said = "; ".join(f"{name or 'none'} on {named(nodes)}" for name, nodes in sorted(by_class.items()))
        return [fail("authorizer", f"brokers differ: {said}", NEEDS_ALL)]
    (name,) = by_class
    return [
        ok("authorizer", name.rpartition(".")[2] if name else "none: everyone who reaches a broker may do everything")
    ]


def listeners(client: BlockingClient, cluster: Cluster) -> list[Finding]:
    """Say which listener is open to whom."""
    found: list[Finding] = []
    for node, settings in _settings(client, cluster).items():
        found += listener_findings(node, settings)
    return list(dict.fromkeys(found))


def listener_findings(node: NodeId, settings: Mapping[str, str]) -> list[Finding]:
    """Judge one broker's listeners by its configuration."""
    protocols = dict(_pairs(settings["listener.security.protocol.map"]))
    found = []
    for text in filter(None, settings["listeners"].split(",")):
        name, _, address = text.strip().partition("://")
        protocol = protocols.get(name.upper(), name.upper())
        asks = settings.get(f"listener.name.{name.lower()}.{CLIENT_AUTH}", settings.get(CLIENT_AUTH))
        needs_certificate = protocol == "SSL" and asks == "required"
        said = f"{name} of broker {node} ({address}): {_open_to(protocol, settings, needs_certificate)}"
        is_local = address.startswith(LOOPBACK)
        is_open = protocol in ("PLAINTEXT", "SASL_PLAINTEXT")
        if is_local or not is_open:
            found.append(ok("listeners", said + (", from this machine only" if is_local else "")))
        else:
            remedy = "keep it on a network that you trust, or serve SSL or SASL_SSL (docs/security.md)"
            found.append(warning("listeners", said, remedy))
    return found


def _pairs(text: str) -> list[tuple[str, str]]:
    pairs = (each.strip().partition(":") for each in text.split(",") if each.strip())
    return [(name.strip().upper(), protocol.strip().upper()) for name, _, protocol in pairs]


def _open_to(protocol: str, settings: Mapping[str, str], needs_certificate: bool) -> str:
    has_authorizer = bool(settings["authorizer.class.name"])
    nobody_in_particular = "User:ANONYMOUS, as far as ACLs allow" if has_authorizer else "everyone, for everything"
    rights = "as far as ACLs allow" if has_authorizer else "for everything"
    if protocol == "PLAINTEXT":
        return f"open to {nobody_in_particular}; what travels can be read"
    if needs_certificate:
        return f"open to who has a certificate, {rights}; encrypted"
    if protocol == "SSL":
        return f"open to {nobody_in_particular}; encrypted"
    words = "what travels can be read" if protocol == "SASL_PLAINTEXT" else "encrypted"
    return f"open to who logs in, {rights}; {words}"


def acls(client: BlockingClient) -> list[Finding]:
    """Judge the entries, where somebody keeps any."""
    from ottla.security import AclFilter

    try:
        found = describe_acls(client, AclFilter())
    except KafkaError as error:
        if error.code is ErrorCode.SECURITY_DISABLED:
            return []
        raise
    return acl_findings(found)


def acl_findings(acls: Sequence[Acl]) -> list[Finding]:
    """Say which entries never hold, which hold for everybody, and whether any lets brokers be brokers."""
    from ottla.security import Operation, PermissionType, Resource

    found = []
    never = [each for each in acls if each.host != "*" and not _is_address(each.host)]
    if never:
        remedy = "write one address, or * for all: names and networks such as 10.0.0.0/8 are never met"
        found.append(warning("acls", f"{named(sorted({each.host for each in never}))} is no address", remedy))
    open_to_all = [
        each
        for each in acls
        if each.principal == "User:*"
        and each.permission_type is PermissionType.ALLOW
        and each.operation not in (Operation.READ, Operation.DESCRIBE)
    ]
    if open_to_all:
        shown = named(
            [f"{each.operation.name} on {each.resource_type.name} {each.resource_name}" for each in open_to_all]
        )
        found.append(warning("acls", f"everyone may {shown}", "name principals in place of User:*"))
    brokers = [
        each
        for each in acls
        if each.resource_type is Resource.CLUSTER and each.operation in (Operation.CLUSTER_ACTION, Operation.ALL)
    ]
    by = f"{named(sorted({each.principal for each in brokers}))} and super users" if brokers else "super users only"
    said = f"{len(acls)} entries; brokers have to be {by} (CLUSTER_ACTION), else none registers"
    return [*found, ok("acls", said)]


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True
