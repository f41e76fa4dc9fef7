"""Who is at the other end of a connection."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Connected"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Connected:
    """Who is at the other end of a connection, and through which listener it came."""

    listener: str
    client_host: str = ""
    client_port: int = 0
    principal: str = "User:ANONYMOUS"
    is_controller: bool = False
    """True on a controller listener."""
    is_this_node: bool = False
    """True for what this node asks of its own controller, inside the process: it may do everything."""
    token_authenticated: bool = False
    """True for who has logged in with a delegation token (KIP-48)."""
