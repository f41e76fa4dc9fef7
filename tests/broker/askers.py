"""Asking a node as somebody, from some address, as if that had logged in: what is decided there, without the login."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ottla.broker import Node
from ottla.broker.requests.answers import Encoded
from ottla.broker.requests.connected import Connected
from ottla.broker.requests.handler import Handler, RequestContext
from ottla.broker.requests.local_requests import dispatch
from ottla.wire import APIS, Message, encode_request, encode_response, read_request_header, read_response
from ottla.wire.messages.create_acls import AclCreation, CreateAclsRequest
from tests.broker.node_client import parts

__all__ = ["ADMIN", "AUTHORIZER", "Asker", "allowed", "grant"]

ADMIN = "User:admin"
AUTHORIZER = (
    "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    f"super.users={ADMIN}",
)
LENGTH_BYTES = 4
ALLOW, DENY = 3, 2


class Asker:
    """Somebody at an address; each request goes through its bytes, and so does each answer."""

    def __init__(
        self,
        node: Node,
        principal: str,
        host: str = "192.0.2.1",
        *,
        is_controller: bool = False,
        client_id: str = "test",
    ) -> None:
        self.node = node
        self.client_id = client_id
        self.connected = Connected(
            listener=node.listeners[0].name, client_host=host, principal=principal, is_controller=is_controller
        )

    async def ask(self, request: Message, version: int | None = None) -> Any:
        """Ask in the highest version that is served, or the one given; returns the answer, None where there is none."""
        services = parts(self.node)
        handlers: Mapping[int, Handler[Any]] = {each.api_key: each for each in services.handlers}
        assert request.API_KEY is not None
        handler = handlers[int(request.API_KEY)]
        version = handler.versions[1] if version is None else version
        frame = memoryview(bytearray(encode_request(request, version, 1, self.client_id)[LENGTH_BYTES:]))
        position = read_request_header(frame)[1]
        if handler.read is not None:
            message = handler.read(frame, version, position)
        else:
            from ottla.wire import decode

            message, _ = decode(handler.request, frame, version, position)
        context = RequestContext(services, self.connected, handler.api_key, version, 1, self.client_id)
        reply = await dispatch(handler, context, message)
        if reply is None:
            return None
        if isinstance(reply, Encoded):
            data = b"".join(bytes(each) for each in reply.parts)
        else:
            data = encode_response(reply, handler.api_key, version, 1)
        return read_response(APIS[handler.api_key].response, data[LENGTH_BYTES:], handler.api_key, version)[1]


def allowed(
    principal: str,
    operation: int,
    resource: int,
    name: str,
    *,
    host: str = "*",
    is_prefix: bool = False,
    denies: bool = False,
) -> AclCreation:
    """Return an entry that allows something, or denies it."""
    return AclCreation(
        resource_type=int(resource),
        resource_name=name,
        resource_pattern_type=4 if is_prefix else 3,
        principal=principal,
        host=host,
        operation=int(operation),
        permission_type=DENY if denies else ALLOW,
    )


async def grant(node: Node, *entries: AclCreation) -> None:
    """Have the administrator make entries."""
    answer = await Asker(node, ADMIN).ask(CreateAclsRequest(creations=list(entries)))
    assert [each.error_code for each in answer.results] == [0] * len(entries), answer
