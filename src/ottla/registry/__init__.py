"""The schema registry: subjects with versions of schemas, by Confluent's interface, kept in a topic of the cluster.

`core` decides, purely; `store` follows and writes the topic; `election` says which of several instances writes; `rest`
answers. `Instance` is all of that together.
"""

from typing import TYPE_CHECKING

from ottla.base import late_imports
from ottla.registry.core import RegistryError
from ottla.registry.settings import RegistrySettings, registry_settings

if TYPE_CHECKING:
    from ottla.registry.rest import Instance

__all__ = ["Instance", "RegistryError", "RegistrySettings", "registry_settings"]

__getattr__ = late_imports(__name__, {"Instance": "ottla.registry.rest"})
"""Imports the interface, and with it aiohttp, where an instance serves."""
