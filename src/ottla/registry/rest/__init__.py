"""The registry's interface over HTTP: Confluent's paths, bodies and statuses.

Importing this package imports aiohttp: import it where an instance serves.
"""

from ottla.registry.rest.instance import Instance
from ottla.registry.rest.serving import registry_routes

__all__ = ["Instance", "registry_routes"]
