"""How the packages that not everybody needs are installed: one text for every message that says so."""

from __future__ import annotations

__all__ = ["INSTALLED_FROM", "bring_extra"]

INSTALLED_FROM = "."
"""What pip is told to install: a checkout, or the file of a wheel in its place. `ottla`, once PyPI has that name."""
WHERE = "in Ottla's checkout, or with the file of its wheel for the dot"


def bring_extra(extra: str) -> str:
    """Return the command that installs Ottla with an extra of pyproject's, and where it is typed."""
    return f"pip install '{INSTALLED_FROM}[{extra}]' {WHERE}"
