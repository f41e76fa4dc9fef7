"""Import hook behind `OTTLA_PURE=1`: load `.py` source where a mypyc-compiled module lies beside it."""

from __future__ import annotations

import importlib.machinery
import sys
from collections.abc import Sequence
from types import ModuleType

__all__ = ["prefer_source"]


class _SourceFirst(importlib.machinery.PathFinder):
    @classmethod
    def find_spec(
        cls, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if not fullname.startswith("ottla.") or path is None:
            return None
        for entry in path:
            finder = importlib.machinery.FileFinder(
                entry, (importlib.machinery.SourceFileLoader, importlib.machinery.SOURCE_SUFFIXES)
            )
            spec = finder.find_spec(fullname, target)
            if spec is not None:
                return spec
        return None


def prefer_source() -> None:
    """Make imports of Ottla's modules find source files first."""
    if _SourceFirst not in sys.meta_path:
        sys.meta_path.insert(0, _SourceFirst)
