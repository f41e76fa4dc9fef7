"""Converters that keep schemas in a registry, under the class names of Confluent's.

Their libraries are imported when one is configured; without the extra `registry` that is refused, before any work.
"""

from ottla.connect.schema_converters.avro import AvroConverter

__all__ = ["AvroConverter"]
