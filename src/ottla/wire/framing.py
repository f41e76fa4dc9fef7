"""Whole requests and responses: length, header, body."""

from __future__ import annotations

from struct import Struct
from struct import error as StructError
from typing import NamedTuple, TypeVar

from ottla.base import WireError
from ottla.wire.apis import APIS
from ottla.wire.codec import decode, encode_into
from ottla.wire.message import Message
from ottla.wire.varint import skip_tagged

__all__ = ["RequestHeader", "encode_request", "encode_response", "read_request_header", "read_response"]

M = TypeVar("M", bound=Message)
Buffer = bytes | bytearray | memoryview

_FIXED = Struct(">hhi")
_STRING = Struct(">h")
_SIZE = Struct(">i")


class RequestHeader(NamedTuple):
    """What every request begins with; `client_id` is None where the client gave none."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None


def read_request_header(frame: Buffer) -> tuple[RequestHeader, int]:
    """Return a request's header and where its body begins; `frame` has no length prefix.

    The header's form follows from the API and version that it names; for an API that is not known, the form without
    tagged fields is read. Raises WireError where the frame is shorter than its header.
    """
    view = memoryview(frame)
    try:
        api_key, api_version, correlation_id = _FIXED.unpack_from(view)
        (length,) = _STRING.unpack_from(view, 8)
        position = 10 + max(length, 0)
        if position > len(view):
            raise WireError("a request's client id is longer than the request")
        client_id = None if length < 0 else str(view[10:position], "utf-8")
        spec = APIS.get(api_key)
        if spec is not None and spec.request_header_version(api_version) == 2:
            position = skip_tagged(view, position, len(view))
    except (StructError, IndexError, UnicodeDecodeError) as error:
        raise WireError(f"a request's header is malformed: {error}") from error
    return RequestHeader(api_key, api_version, correlation_id, client_id), position


def encode_request(message: Message, version: int, correlation_id: int, client_id: str | None) -> bytes:
    """Return a request with its 4-byte length and header."""
    assert message.API_KEY is not None
    spec = APIS[message.API_KEY]
    out = bytearray(4)
    out += _FIXED.pack(spec.key, version, correlation_id)
    name = client_id.encode() if client_id is not None else b""
    out += _STRING.pack(-1 if client_id is None else len(name)) + name
    if spec.request_header_version(version) == 2:
        out.append(0)
    return _framed(out, message, version)


def encode_response(message: Message, api_key: int, version: int, correlation_id: int) -> bytes:
    """Return a response with its 4-byte length and header."""
    out = bytearray(8)
    _SIZE.pack_into(out, 4, correlation_id)
    if APIS[api_key].response_header_version(version) == 1:
        out.append(0)
    return _framed(out, message, version)


def _framed(out: bytearray, message: Message, version: int) -> bytes:
    encode_into(out, message, version)
    _SIZE.pack_into(out, 0, len(out) - 4)
    return bytes(out)


def read_response(cls: type[M], frame: Buffer, api_key: int, version: int) -> tuple[int, M]:
    """Return (correlation id, response) of a frame without its length prefix; raises WireError where it is malformed."""
    view = memoryview(frame)
    if len(view) < 4:
        raise WireError("a response is shorter than its header")
    (correlation_id,) = _SIZE.unpack_from(view)
    position = 4
    if APIS[api_key].response_header_version(version) == 1:
        try:
            position = skip_tagged(view, position, len(view))
        except IndexError as error:
            raise WireError("a response is shorter than its header") from error
    message, _ = decode(cls, view, version, position)
    return correlation_id, message
