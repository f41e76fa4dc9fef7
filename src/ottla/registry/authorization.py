"""What a caller may do, where the cluster's ACLs decide it: a subject is the business of who may use its topic.

Confluent's operations, by the rights that its Topic ACL Authorizer asks for, with two differences: a schema may be read by
who may DESCRIBE the topic (Kafka implies that by READ and by WRITE: a producer that registers nothing has to look its schema
up), and what is about everything takes rights on the cluster, where Confluent's takes super users.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from ottla.background import end, keep_running
from ottla.base import ConfigError, ErrorCode, KafkaError, OttlaError
from ottla.client import Client
from ottla.registry.access import AUTHORIZER
from ottla.registry.core import RegistryError
from ottla.registry.core.names import DEFAULT_CONTEXT, Subject
from ottla.security import CLUSTER_NAME, Acl, Operation, PatternType, PermissionType, Resource, StandardAuthorizer
from ottla.security import AuthorizerNotReadyError as NotReadyError
from ottla.wire.messages.describe_acls import DescribeAclsRequest

__all__ = ["Authorization", "Caller", "Right", "resource_name"]

log = logging.getLogger(__name__)
REFRESH_S, RETRY_S = 10.0, 1.0
"""How often the cluster is asked for its entries."""
SUFFIXES = ("-key", "-value")
DENIED = 40301


class Right(StrEnum):
    """Confluent's operations; on everything where no subject is named."""

    SUBJECT_READ = "SUBJECT_READ"
    SUBJECT_WRITE = "SUBJECT_WRITE"
    SUBJECT_DELETE = "SUBJECT_DELETE"
    SUBJECT_COMPATIBILITY_READ = "SUBJECT_COMPATIBILITY_READ"
    SUBJECT_COMPATIBILITY_WRITE = "SUBJECT_COMPATIBILITY_WRITE"
    GLOBAL_COMPATIBILITY_READ = "GLOBAL_COMPATIBILITY_READ"
    GLOBAL_COMPATIBILITY_WRITE = "GLOBAL_COMPATIBILITY_WRITE"


_ON_TOPIC: Mapping[Right, Operation] = {
    Right.SUBJECT_READ: Operation.DESCRIBE,
    Right.SUBJECT_WRITE: Operation.WRITE,
    Right.SUBJECT_DELETE: Operation.WRITE,
    Right.SUBJECT_COMPATIBILITY_READ: Operation.DESCRIBE,
    Right.SUBJECT_COMPATIBILITY_WRITE: Operation.WRITE,
}
_ON_CLUSTER: Mapping[Right, Operation] = {
    Right.GLOBAL_COMPATIBILITY_READ: Operation.DESCRIBE_CONFIGS,
    Right.GLOBAL_COMPATIBILITY_WRITE: Operation.ALTER_CONFIGS,
}


def resource_name(subject: str) -> str:
    """Return the topic whose entries count for a subject: its name without `-key` or `-value`.

    Subjects of other contexts keep that in front (`:.ctx:orders`): no right on a topic reaches them by itself.
    """
    found = Subject.of(subject)
    name = next((found.name.removesuffix(each) for each in SUFFIXES if found.name.endswith(each)), found.name)
    return name if found.context == DEFAULT_CONTEXT else f":{found.context}:{name}"


@dataclass(frozen=True)
class Caller:
    """Who asks, and what that one may do; everything without an authorizer."""

    principal: str
    host: str = ""
    authorizer: StandardAuthorizer | None = None

    def may(self, right: Right, subject: str | None = None) -> bool:
        """Return whether it is allowed, on a subject or on everything; raises RegistryError while nothing is known."""
        if self.authorizer is None:
            return True
        if right in _ON_CLUSTER:
            operation, resource, name = _ON_CLUSTER[right], Resource.CLUSTER, CLUSTER_NAME
        else:
            assert subject is not None, "whoever asks names a subject"
            operation, resource, name = _ON_TOPIC[right], Resource.TOPIC, resource_name(subject)
        try:
            return self.authorizer.allows(self.principal, self.host, operation, resource, name)
        except NotReadyError as error:
            raise RegistryError(50301, "The cluster's ACLs are not known yet") from error

    def check(self, right: Right, subject: str | None = None) -> None:
        """Raise RegistryError 40301 where it is not allowed."""
        if not self.may(right, subject):
            where = "" if subject is None else f" on Subject: {subject}"
            raise RegistryError(DENIED, f"User is denied operation {right}{where}")

    def readable(self, subjects: Iterable[str]) -> list[str]:
        """Return those of some subjects that may be read."""
        return [each for each in subjects if self.may(Right.SUBJECT_READ, each)]


class Authorization:
    """Follows the cluster's entries; what was known last goes on to hold while no broker answers."""

    def __init__(self, make_client: Callable[[str], Client], super_users: frozenset[str]) -> None:
        self.authorizer = StandardAuthorizer(super_users=super_users)
        self._client = make_client("acls")
        self._known: dict[bytes, Acl] | None = None
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Read the entries; raises ConfigError where they are kept by nobody, or not shown."""
        try:
            await self._read()
        except KafkaError as error:
            missing = {
                ErrorCode.SECURITY_DISABLED: "an authorizer in the cluster, which has none",
                ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "the right to DESCRIBE the cluster for the registry itself",
            }.get(error.code)
            if missing is None:
                raise
            words = f"{AUTHORIZER} has the cluster's ACLs decide who may use which subject; that needs {missing}"
            raise ConfigError(AUTHORIZER, "", words, words) from error
        self._task = keep_running(self._follow, name="follow ACLs", serves="who may use which subject")

    async def close(self) -> None:
        """Follow no more."""
        await end(self._task)
        await self._client.close()

    async def _follow(self) -> None:
        wait_s = REFRESH_S
        while True:
            await asyncio.sleep(wait_s)
            try:
                await self._read()
                wait_s = REFRESH_S
            except OttlaError as error:
                if wait_s != RETRY_S:
                    log.warning("The cluster's ACLs are as they were known last: %s", error)
                wait_s = RETRY_S

    async def _read(self) -> None:
        request = DescribeAclsRequest(
            resource_type_filter=int(Resource.ANY),
            resource_name_filter=None,
            pattern_type_filter=int(PatternType.ANY),
            principal_filter=None,
            host_filter=None,
            operation=int(Operation.ANY),
            permission_type=int(PermissionType.ANY),
        )
        answer = await self._client.request(request)
        if answer.error_code:
            raise KafkaError(ErrorCode(answer.error_code), answer.error_message or "")
        found = [
            Acl(
                Resource(each.resource_type),
                each.resource_name,
                PatternType(each.pattern_type),
                *(acl.principal, acl.host, Operation(acl.operation), PermissionType(acl.permission_type)),
            )
            for each in answer.resources
            if each.resource_type in (Resource.TOPIC, Resource.CLUSTER)
            for acl in each.acls
        ]
        entries = {number.to_bytes(8): acl for number, acl in enumerate(found)}
        if entries != self._known:
            self._known = entries
            self.authorizer.load(entries)
