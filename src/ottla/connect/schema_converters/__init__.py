"""Converters that keep schemas in a registry, under the class names of Confluent's.

Their libraries are imported when one is configured; without the extra `registry` that is refused, before any work.
"""

from ottla.connect.schema_converters.avro import AvroConverter
from ottla.connect.schema_converters.json_schema import JsonSchemaConverter
from ottla.connect.schema_converters.protobuf import ProtobufConverter

__all__ = ["AvroConverter", "JsonSchemaConverter", "ProtobufConverter"]
