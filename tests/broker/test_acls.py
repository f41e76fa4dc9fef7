"""Requests about ACLs where there is no authorizer: SECURITY_DISABLED, which is an answer."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from ottla.base import ErrorCode
from ottla.broker.requests.principals import address_bytes, principal_bytes
from ottla.wire import APIS, encode_request, read_response
from ottla.wire.messages.create_acls import AclCreation, CreateAclsRequest
from ottla.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from ottla.wire.messages.describe_acls import DescribeAclsRequest
from ottla.wire.messages.envelope import EnvelopeRequest
from tests.broker.node_client import parts, run, running_node

READ, TOPIC, ALLOW = 3, 2, 3
FILTER = {"resource_type_filter": TOPIC, "resource_name_filter": "t", "operation": READ, "permission_type": ALLOW}
CREATION = AclCreation(
    resource_type=TOPIC, resource_name="t", principal="User:a", host="*", operation=READ, permission_type=ALLOW
)
CREATE = CreateAclsRequest(creations=[CREATION] * 2)
DELETE = DeleteAclsRequest(filters=[DeleteAclsFilter(**FILTER)] * 3)
DESCRIBE = DescribeAclsRequest(**FILTER)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_acls_are_answered_security_disabled_for_each_that_was_named(tmp_path: Path, version: int) -> None:
    async def test() -> None:
        async with running_node(tmp_path) as client:
            described = await client.ask(DESCRIBE, version)
            assert (described.error_code, described.error_message) == (
                ErrorCode.SECURITY_DISABLED,
                "No Authorizer is configured on the broker",
            )
            for results, count in (
                ((await client.ask(CREATE, version)).results, 2),
                ((await client.ask(DELETE, version)).filter_results, 3),
            ):
                said = [(each.error_code, each.error_message) for each in results]
                assert said == [(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")] * count

    run(test)


@pytest.mark.parametrize(
    "request_", [DESCRIBE.replace(operation=0), CREATE.replace(creations=[CREATION.replace(resource_type=0)])]
)
def test_an_acl_with_an_unknown_element_closes_the_connection(tmp_path: Path, request_: Any) -> None:
    async def test() -> None:
        async with running_node(tmp_path) as client:
            with pytest.raises(asyncio.IncompleteReadError):
                await client.ask(request_)

    run(test)


@pytest.mark.parametrize("request_", [CREATE, DELETE])
def test_a_broker_may_pass_the_change_of_acls_on_to_the_controller(tmp_path: Path, request_: Any) -> None:
    async def test() -> None:
        async with running_node(tmp_path) as client:
            services = parts(client.node)
            envelope = EnvelopeRequest(
                request_data=encode_request(request_, 3, 77, "app")[4:],
                request_principal=principal_bytes("User:alice"),
                client_host_address=address_bytes("192.0.2.7"),
            )
            answer = await services.controller.ask(envelope)
            assert answer.error_code == 0
            spec = APIS[int(request_.API_KEY)]
            _, told = read_response(spec.response, answer.response_data, spec.key, 3)
            results = told.results if request_ is CREATE else told.filter_results
            assert {each.error_code for each in results} == {ErrorCode.SECURITY_DISABLED}

    run(test)
