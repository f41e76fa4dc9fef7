"""The schema registry: subjects with versions of schemas, by Confluent's interface, kept in a topic of the cluster.

`core` decides, purely; `store` follows and writes the topic; `election` says which of several instances writes; `rest`
answers. `Instance` is all of that together. `Access` and `Logins`, who may ask, serve other services, too.
"""

from typing import TYPE_CHECKING

from ottla.base import late_imports
from ottla.registry.core import RegistryError
from ottla.registry.settings import RegistrySettings, registry_settings

if TYPE_CHECKING:
    from ottla.registry.access import Access, access_of
    from ottla.registry.logins import Logins
    from ottla.registry.rest import Instance

__all__ = ["Access", "Instance", "Logins", "RegistryError", "RegistrySettings", "access_of", "registry_settings"]

_LATE = {
    "Access": "ottla.registry.access",
    "Instance": "ottla.registry.rest",
    "Logins": "ottla.registry.logins",
    "access_of": "ottla.registry.access",
}

__getattr__ = late_imports(__name__, _LATE)
"""Imports the interface, and with it aiohttp, where an instance serves."""
