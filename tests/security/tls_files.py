"""Stores on disk for a listener and its clients, and what properties files say of them."""

from __future__ import annotations

from pathlib import Path

from tests.security.authority import Identity

__all__ = ["client_properties", "key_properties", "listener_overrides", "trust_properties"]


def key_properties(folder: Path, identity: Identity, name: str) -> dict[str, str]:
    """Write a key with its chain as PEM, and return the properties that name it."""
    path = folder / f"{name}.pem"
    path.write_text(identity.key_pem() + identity.chain_pem())
    return {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(path)}


def trust_properties(folder: Path, trusted: Identity, name: str = "trusted") -> dict[str, str]:
    """Write an authority as PEM, and return the properties that name it."""
    path = folder / f"{name}.pem"
    path.write_text(trusted.chain_pem())
    return {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(path)}


def listener_overrides(folder: Path, identity: Identity, trusted: Identity, *more: str) -> list[str]:
    """Return the overrides with which a broker's one listener speaks TLS."""
    properties = key_properties(folder, identity, "listener") | trust_properties(folder, trusted)
    return [
        "listeners=SSL://127.0.0.1:0",
        "security.inter.broker.protocol=SSL",
        *(f"{key}={value}" for key, value in properties.items()),
        *more,
    ]


def client_properties(folder: Path, trusted: Identity, identity: Identity | None = None) -> dict[str, str]:
    """Return what a client of Kafka's own is told to reach such a listener."""
    own = {} if identity is None else key_properties(folder, identity, "client")
    return {"security.protocol": "SSL"} | trust_properties(folder, trusted) | own
