"""Access control entries of a cluster: made, found and removed (KIP-140)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ottla.admin.errors import raise_code

if TYPE_CHECKING:
    from ottla.client import BlockingClient
    from ottla.security import Acl, AclFilter

__all__ = ["create_acls", "delete_acls", "describe_acls"]


def describe_acls(client: BlockingClient, wanted: AclFilter) -> list[Acl]:
    """Return the entries that a filter finds, sorted; raises KafkaError, SECURITY_DISABLED where nobody keeps any."""
    from ottla.security import acl_of
    from ottla.wire.messages.access_control_entry_record import AccessControlEntryRecord
    from ottla.wire.messages.describe_acls import DescribeAclsRequest

    response = client.request(DescribeAclsRequest(**_fields(wanted)))
    raise_code(response.error_code, response.error_message)
    return sorted(
        (
            acl_of(
                AccessControlEntryRecord(
                    resource_type=resource.resource_type,
                    resource_name=resource.resource_name,
                    pattern_type=resource.pattern_type,
                    principal=each.principal,
                    host=each.host,
                    operation=each.operation,
                    permission_type=each.permission_type,
                )
            )
            for resource in response.resources
            for each in resource.acls
        ),
        key=_in_order,
    )


def _in_order(acl: Acl) -> tuple[object, ...]:
    what = acl.resource_type, acl.resource_name, acl.pattern_type
    return *what, acl.principal, acl.host, acl.permission_type, acl.operation


def create_acls(client: BlockingClient, acls: Iterable[Acl]) -> None:
    """Make entries; raises KafkaError in the controller's words for the first that it refuses: the others are made."""
    from ottla.wire.messages.create_acls import AclCreation, CreateAclsRequest

    creations = [
        AclCreation(
            resource_type=int(each.resource_type),
            resource_name=each.resource_name,
            resource_pattern_type=int(each.pattern_type),
            principal=each.principal,
            host=each.host,
            operation=int(each.operation),
            permission_type=int(each.permission_type),
        )
        for each in acls
    ]
    response = client.request(CreateAclsRequest(creations=creations))
    for result in response.results:
        raise_code(result.error_code, result.error_message)


def delete_acls(client: BlockingClient, filters: Iterable[AclFilter]) -> int:
    """Remove what filters find, and return how many entries each found, together.

    Raises KafkaError in the controller's words for the first filter that it refuses.
    """
    from ottla.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest

    response = client.request(DeleteAclsRequest(filters=[DeleteAclsFilter(**_fields(each)) for each in filters]))
    for result in response.filter_results:
        raise_code(result.error_code, result.error_message)
    return sum(len(result.matching_acls) for result in response.filter_results)


def _fields(wanted: AclFilter) -> dict[str, Any]:
    return {
        "resource_type_filter": int(wanted.resource_type),
        "resource_name_filter": wanted.resource_name,
        "pattern_type_filter": int(wanted.pattern_type),
        "principal_filter": wanted.principal,
        "host_filter": wanted.host,
        "operation": int(wanted.operation),
        "permission_type": int(wanted.permission_type),
    }
