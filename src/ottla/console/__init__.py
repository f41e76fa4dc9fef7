"""The web console: looks into a cluster, searches its records and changes it, over Kafka's public protocol.

A `Console` is a process of its own, so that nothing that it does holds up a broker, and it shows Apache Kafka's clusters as
well as Ottla's. Every change is a plan first: what differs, what follows, the command that does the same, and a hash by
which it is run. The pages are built from `web/` and lie in `static`. Importing this package imports aiohttp.
"""

from ottla.console.clusters import ClusterSettings
from ottla.console.instance import Console
from ottla.console.records.fixes import Fix
from ottla.console.settings import ConsoleSettings, console_settings

__all__ = ["ClusterSettings", "Console", "ConsoleSettings", "Fix", "console_settings"]
