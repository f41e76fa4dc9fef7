"""Arrow without Pandas, for processes that are forked for Connect's tasks: 25 MiB less in all of them together.

PyArrow imports Pandas where it is installed as soon as it makes an array of Python's values, to know a Series if it is
given one. It learns here, by an import that fails, that there is none. Whoever imports Pandas later, as a connector may,
has PyArrow know it from then on; what needs Pandas (`to_pandas`) imports it by itself.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any

import pyarrow as pa

__all__ = ["array_without_pandas"]

PANDAS = "pandas"


class _Told(Loader):
    """Loads Pandas and then tells PyArrow that it is there."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """See `Loader`."""
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        """See `Loader`."""
        self._loader.exec_module(module)
        assert pa.lib._pandas_api.pd is module  # looks again, and finds it

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)


class _Finder(MetaPathFinder):
    """Refuses the import of Pandas while `refuses`, and waits for it then."""

    refuses = True

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        """See `MetaPathFinder`; raises ImportError."""
        if name != PANDAS:
            return None
        if self.refuses:
            raise ImportError(name)
        sys.meta_path.remove(self)
        found = find_spec(name)
        if found is not None and found.loader is not None:
            found.loader = _Told(found.loader)
        return found


def array_without_pandas() -> pa.Array:
    """Make PyArrow's first array of this process, or a later one, without Pandas where that is not imported yet."""
    if PANDAS in sys.modules:
        return pa.array([b""])
    finder = _Finder()
    sys.meta_path.insert(0, finder)
    try:
        return pa.array([b""])
    finally:
        finder.refuses = False
