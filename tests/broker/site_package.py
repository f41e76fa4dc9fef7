"""A package of somebody's own, installed for one test."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

__all__ = ["install"]


def install(site: Path, monkeypatch: pytest.MonkeyPatch, module: str, entry_points: str) -> None:
    """Put a module `site_rules` and its entry points where imports find them."""
    info = site / "site_rules-1.0.dist-info"
    info.mkdir(parents=True)
    (site / "site_rules.py").write_text(module)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: site-rules\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(entry_points)
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.delitem(sys.modules, "site_rules", raising=False)
