"""CRC-32C, the checksum of record batches and snapshots.

`crc32c` the package asks `importlib.metadata` for its own version when it is imported, which with all that this pulls in
costs 50 ms: a tenth of the broker's start and more of every command's. So its compiled module is loaded by itself; the
package is imported only where that module is not found beside it.
"""

from __future__ import annotations

from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from crc32c import crc32c

__all__ = ["crc32c"]


def _compiled() -> Any:
    package = PathFinder.find_spec("crc32c")
    places = package.submodule_search_locations if package is not None else None
    spec = PathFinder.find_spec("crc32c._crc32c", places)
    if spec is None or spec.loader is None:
        import crc32c as whole

        return whole
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


if not TYPE_CHECKING:
    crc32c = _compiled().crc32c
