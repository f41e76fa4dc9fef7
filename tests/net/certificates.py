"""Contexts of TLS for tests, of the identities that `tests/security/authority.py` makes."""

from __future__ import annotations

import ssl

from ottla.security.key_file import file_of
from tests.security.authority import Identity

__all__ = ["client_context", "server_context"]


def server_context(identity: Identity, *, clients_of: Identity | None = None) -> ssl.SSLContext:
    """Return a server's context; with `clients_of` it takes only clients whom that authority has signed."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _show(context, identity)
    if clients_of is not None:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(cadata=clients_of.chain_pem())
    return context


def client_context(trusted: Identity, identity: Identity | None = None) -> ssl.SSLContext:
    """Return a client's context that trusts this authority alone."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cadata=trusted.chain_pem())
    if identity is not None:
        _show(context, identity)
    return context


def _show(context: ssl.SSLContext, identity: Identity) -> None:
    with file_of((identity.key_pem() + identity.chain_pem()).encode()) as path:
        context.load_cert_chain(path)
