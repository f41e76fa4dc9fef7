"""Ottla: Apache Kafka's platform in Python. Import from its packages (`ottla.wire`, `ottla.log`, ...)."""

from __future__ import annotations

import os

__version__ = "0.3.0"

if os.environ.get("OTTLA_PURE"):  # run the hot modules' source even where compiled ones lie beside it
    from ottla._pure import prefer_source

    prefer_source()
