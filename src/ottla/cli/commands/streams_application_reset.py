"""`ottla streams-application-reset`: what Kafka's script of that name does; see `streams_reset`."""

from __future__ import annotations

from ottla.cli.streams_reset import reset, reset_options

__all__ = ["main"]


def main(argv: list[str]) -> int:
    """Reset an application; returns the exit code."""
    return reset(reset_options().parse(argv))
