"""Envelope: what a broker passes on is answered as its client would be, and nothing else is let in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ottla.base import ErrorCode, KafkaError
from ottla.broker.requests.connected import Connected
from ottla.broker.requests.envelopes import forward_frame
from ottla.broker.requests.local_requests import local_controller
from ottla.broker.requests.principals import address_bytes, address_text, principal_bytes, read_principal
from ottla.wire import APIS, Message, encode_request, encode_response, read_response
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from ottla.wire.messages.envelope import EnvelopeRequest, EnvelopeResponse
from ottla.wire.messages.metadata import MetadataRequest
from tests.broker.node_client import parts, run, running_node


def wrapped(request: Message, version: int, **fields: Any) -> EnvelopeRequest:
    envelope = EnvelopeRequest(
        request_data=encode_request(request, version, 77, "app")[4:],
        request_principal=principal_bytes("User:alice"),
        client_host_address=address_bytes("192.0.2.7"),
    )
    return envelope.replace(**fields)


def test_an_enveloped_request_is_answered_in_its_own_version(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path) as client:
            services = parts(client.node)
            request = CreateTopicsRequest(
                topics=[CreatableTopic(name="t", num_partitions=2, replication_factor=1)], timeout_ms=10_000
            )
            for version, code in ((5, ErrorCode.NONE), (7, ErrorCode.TOPIC_ALREADY_EXISTS)):
                answer = await services.controller.ask(wrapped(request, version))
                assert answer.error_code == 0
                spec = APIS[int(request.API_KEY)]
                correlation_id, created = read_response(spec.response, answer.response_data, spec.key, version)
                assert correlation_id == 77
                assert [each.error_code for each in created.topics] == [code]
            assert services.quorum.image.topic("t") is not None

    run(test)


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"request_principal": None}, ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE),
        ({"request_principal": b"\x00\x07x"}, ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE),
        ({"client_host_address": b"abc"}, ErrorCode.INVALID_REQUEST),
        ({"request_data": b"\x00"}, ErrorCode.INVALID_REQUEST),
        ({"request_data": encode_request(MetadataRequest(), 12, 1, None)[4:]}, ErrorCode.INVALID_REQUEST),
    ],
)
def test_what_is_no_forwardable_request_is_refused(tmp_path: Path, fields: dict[str, Any], code: ErrorCode) -> None:
    async def test() -> None:
        async with running_node(tmp_path) as client:
            services = parts(client.node)
            answer = await services.controller.ask(wrapped(CreateTopicsRequest(timeout_ms=1), 7, **fields))
            assert answer.error_code == code and answer.response_data is None

    run(test)


def test_principals_and_addresses_go_the_way_of_kafkas_bytes() -> None:
    assert principal_bytes("User:bob") == b"\x00\x00" + b"\x05User" + b"\x04bob" + b"\x00" + b"\x00"
    assert read_principal(principal_bytes("User:CN=a:b")) == ("User:CN=a:b", False)
    assert read_principal(principal_bytes("User:a", by_token=True)) == ("User:a", True)
    assert address_text(address_bytes("127.0.0.1")) == "127.0.0.1"
    assert address_text(address_bytes("::1")) == "::1"
    assert address_text(address_bytes("a name")) == "0.0.0.0"
    with pytest.raises(KafkaError):
        address_text(b"")


def test_who_sent_a_request_and_whether_by_a_token_travels_with_it(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path) as client:
            services = parts(client.node)
            seen: list[Any] = []

            async def controller(message: Any) -> EnvelopeResponse:
                seen.append(message)
                return EnvelopeResponse(response_data=encode_response(CreateTopicsResponse(), 19, 7, 1)[4:])

            frame = encode_request(CreateTopicsRequest(timeout_ms=1), 7, 1, "app")[4:]
            services.controller.serve(controller)
            try:
                for by_token in (False, True):
                    sender = Connected(
                        listener="A", client_host="192.0.2.7", principal="User:a", token_authenticated=by_token
                    )
                    await forward_frame(services.controller, sender, 19, 7, frame)
            finally:
                services.controller.serve(local_controller(services, services.handlers))
            assert [read_principal(each.request_principal) for each in seen] == [("User:a", False), ("User:a", True)]
            assert {address_text(each.client_host_address) for each in seen} == {"192.0.2.7"}

    run(test)
