"""Whether the hot modules are machine code here, and where they are not, why not and what to do."""

from __future__ import annotations

import os
from importlib.machinery import EXTENSION_SUFFIXES

__all__ = ["build_kind", "why_pure"]

PACKAGE = os.path.dirname(os.path.dirname(__file__))
RECORD = os.path.join(PACKAGE, "build_record.json")
"""What `setup.py` leaves in a wheel; a checkout has none."""
COMPILED, PURE = "compiled", "pure"


def build_kind() -> str:
    """Return `compiled` where the hot modules are mypyc's, else `pure`; asks the folder, since importing takes time."""
    if os.environ.get("OTTLA_PURE"):
        return PURE
    present = set(os.listdir(os.path.join(PACKAGE, "wire")))
    sources = [name for name in present if name.endswith(".py") and name.startswith(("hot_", "record_walk"))]
    stems = [name.removesuffix(".py") for name in sources]
    # another interpreter's machine code may lie there, and is none for this one
    found = all(any(stem + suffix in present for suffix in EXTENSION_SUFFIXES) for stem in stems)
    return COMPILED if found else PURE


def why_pure(*, record: str = RECORD) -> str | None:
    """Return why an installed wheel runs its hot modules as Python, and what to do, in one line; None where it does not.

    pip shows nothing of what a build says. In a checkout `make install` has told it, and OTTLA_PURE is a wish.
    """
    if os.environ.get("OTTLA_PURE") or build_kind() == COMPILED or not os.path.exists(record):
        return None
    import json

    with open(record, encoding="utf-8") as file:
        reason = json.load(file)["reason"]
    if not reason:  # a pure wheel was asked for
        return None
    remedy = (
        "install a C compiler and Python's headers, then Ottla again with `pip install --force-reinstall --no-deps`"
    )
    return f"the hot modules were not compiled where this was built ({reason}): {remedy}"
