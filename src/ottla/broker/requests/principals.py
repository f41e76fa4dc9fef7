"""Principals as brokers hand them on: the bytes of Kafka's `DefaultKafkaPrincipalBuilder`."""

from __future__ import annotations

from ipaddress import ip_address
from struct import Struct
from struct import error as _StructError

from ottla.base import ErrorCode, KafkaError, WireError
from ottla.wire import decode, encode
from ottla.wire.messages.default_principal_data import DefaultPrincipalData

__all__ = ["address_bytes", "address_text", "principal_bytes", "read_principal"]

VERSION = 0
_VERSION = Struct(">h")
UNKNOWN_ADDRESS = b"\x00\x00\x00\x00"


def principal_bytes(principal: str, *, by_token: bool = False) -> bytes:
    """Return a principal, `User:alice`, and whether a token was its login, behind the version that its bytes are of."""
    kind, _, name = principal.partition(":")
    data = DefaultPrincipalData(type=kind, name=name, token_authenticated=by_token)
    return _VERSION.pack(VERSION) + encode(data, VERSION)


def read_principal(data: bytes | None) -> tuple[str, bool]:
    """Return the principal that such bytes name, and whether a delegation token was its login.

    Raises PRINCIPAL_DESERIALIZATION_FAILURE where they name none.
    """
    try:
        if data is None or _VERSION.unpack_from(data)[0] != VERSION:
            raise WireError("no principal of a version that is known")
        found, _ = decode(DefaultPrincipalData, data, VERSION, _VERSION.size)
    except (WireError, _StructError) as error:
        text = "Failed to deserialize client principal in the envelope request"
        raise KafkaError(ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE, text) from error
    return f"{found.type}:{found.name}", found.token_authenticated


def address_bytes(host: str) -> bytes:
    """Return a client's address in network order; what is no IP address becomes an unknown one."""
    try:
        return ip_address(host.partition("%")[0]).packed
    except ValueError:
        return UNKNOWN_ADDRESS


def address_text(data: bytes) -> str:
    """Return the address that 4 or 16 bytes stand for; raises INVALID_REQUEST for anything else."""
    try:
        return str(ip_address(bytes(data)))
    except ValueError as error:
        text = "Failed to parse client host address in the envelope request"
        raise KafkaError(ErrorCode.INVALID_REQUEST, text) from error
