"""Whole requests and responses: which header a version has, and what of a torn one is refused."""

from __future__ import annotations

import random
import struct

import pytest
from kio.schema.request_header.v1.header import RequestHeader as KioHeader1
from kio.schema.request_header.v2.header import RequestHeader as KioHeader2
from kio.serial import entity_reader

from ottla.base import WireError
from ottla.wire import (
    APIS,
    ApiKey,
    ApiSpec,
    RequestHeader,
    decode,
    encode,
    encode_request,
    encode_response,
    read_request_header,
    read_response,
)
from ottla.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.messages.fetch import FetchResponse
from ottla.wire.messages.metadata import MetadataRequest, MetadataResponse
from tests.wire.random_messages import random_message

VERSIONS = [(spec, version) for spec in APIS.values() for version in range(spec.min_version, spec.max_version + 1)]


def body_of(frame: bytes) -> bytes:
    """Return a frame without its length, which must be right."""
    assert struct.unpack_from(">i", frame)[0] == len(frame) - 4
    return frame[4:]


@pytest.mark.parametrize("client_id", [None, "", "a client"])
def test_every_request_is_framed_and_read_back(client_id: str | None) -> None:
    rng = random.Random(5)
    for spec, version in VERSIONS:
        message = random_message(spec.request, version, rng)
        frame = body_of(encode_request(message, version, -7, client_id))
        header, position = read_request_header(frame)
        assert header == RequestHeader(spec.key, version, -7, client_id)
        assert decode(spec.request, frame, version, position) == (message, len(frame))


def test_every_response_is_framed_and_read_back() -> None:
    rng = random.Random(6)
    for spec, version in VERSIONS:
        message = random_message(spec.response, version, rng)
        frame = body_of(encode_response(message, spec.key, version, 2**31 - 1))
        assert read_response(spec.response, frame, spec.key, version) == (2**31 - 1, message)


def test_an_independent_codec_reads_the_same_request_header() -> None:
    for version, theirs in ((8, KioHeader1), (9, KioHeader2)):
        frame = body_of(encode_request(MetadataRequest(topics=[]), version, 12, "me"))
        header, size = entity_reader(theirs)(frame, 0)
        assert (header.request_api_key, header.request_api_version) == (3, version)
        assert (header.correlation_id, header.client_id) == (12, "me")
        assert size == read_request_header(frame)[1]


def test_the_answer_to_api_versions_never_has_tags_in_its_header() -> None:
    response = ApiVersionsResponse()
    for version in range(5):
        frame = body_of(encode_response(response, ApiKey.API_VERSIONS, version, 1))
        assert frame[4:] == encode(response, version)


def test_unknown_tags_in_headers_are_skipped() -> None:
    frame = body_of(encode_request(ApiVersionsRequest(), 3, 1, "c"))
    tagged = frame[:11] + b"\x01\x05\x02ab" + frame[12:]
    header, position = read_request_header(tagged)
    assert header.client_id == "c" and decode(ApiVersionsRequest, tagged, 3, position)[1] == len(tagged)
    answer = body_of(encode_response(MetadataResponse(), 3, 12, 4))
    tagged = answer[:4] + b"\x01\x05\x02ab" + answer[5:]
    assert read_response(MetadataResponse, tagged, 3, 12) == (4, MetadataResponse())


def test_a_header_of_an_unknown_api_or_version_is_still_read() -> None:
    """The answer to it, or the log line, needs the correlation id and the version."""
    frame = struct.pack(">hhih", 9999, 3, 5, 1) + b"x"
    assert read_request_header(frame) == (RequestHeader(9999, 3, 5, "x"), len(frame))
    frame = struct.pack(">hhih", 18, 99, 5, 1) + b"x\x00"
    assert read_request_header(frame) == (RequestHeader(18, 99, 5, "x"), len(frame))


def test_a_torn_header_is_refused() -> None:
    frame = body_of(encode_request(MetadataRequest(), 12, 1, "client"))
    _, position = read_request_header(frame)
    for cut in range(position):
        with pytest.raises(WireError):
            read_request_header(frame[:cut])
    answer = body_of(encode_response(FetchResponse(), 1, 13, 1))
    for cut in range(len(answer)):
        with pytest.raises(WireError):
            read_response(FetchResponse, answer[:cut], 1, 13)


@pytest.mark.parametrize(
    "frame",
    [
        struct.pack(">hhih", 3, 12, 1, 32767) + b"short",
        struct.pack(">hhih", 3, 12, 1, 1) + b"\xff\x00",
        struct.pack(">hhih", 3, 12, 1, -1) + b"\xff\xff\xff\xff\xff",
        struct.pack(">hhih", 3, 12, 1, -1) + b"\x01\x00\xff\xff\xff\xff\x0f",
        struct.pack(">hhih", 3, 12, 1, -1) + b"\xff\xff\xff\xff\x0f" + b"\x00\x00" * 9,
    ],
    ids=["long client id", "not text", "endless varint", "long tag", "endless tags"],
)
def test_a_hostile_header_is_refused(frame: bytes) -> None:
    with pytest.raises(WireError):
        read_request_header(frame)


def test_random_headers_are_read_or_refused() -> None:
    rng = random.Random(11)
    for _ in range(3000):
        frame = struct.pack(">hh", rng.randrange(100), rng.randrange(20)) + rng.randbytes(rng.randrange(40))
        try:
            _, position = read_request_header(frame)
        except WireError:
            continue
        assert position <= len(frame)


def test_the_table_of_apis_agrees_with_the_messages() -> None:
    for key, spec in APIS.items():
        assert isinstance(spec, ApiSpec) and ApiKey(key).name == key_name(spec.name)
        for cls in (spec.request, spec.response):
            assert key == cls.API_KEY
            assert cls.VERSIONS[0] <= spec.min_version <= spec.max_version <= cls.VERSIONS[1]
        flexible = spec.request.FLEXIBLE
        assert spec.flexible_from == (flexible[0] if flexible else 32767)


def key_name(name: str) -> str:
    """Return an API's name as the member of ApiKey is spelt."""
    return "".join(f"_{letter}" if letter.isupper() else letter.upper() for letter in name)[1:]
