"""Values ↔ bytes by schemas of a registry: Confluent's wire formats, subjects and client properties, in Python.

`wire` is the bytes before a payload; `settings` Confluent's properties as a value; `registry` the one door to a registry,
by Confluent's own client; `codecs` a schema made ready to encode and decode (Avro by fastavro, JSON Schema by jsonschema,
Protobuf by its descriptors); `Serializer` and `Deserializer` put them together. What goes wrong is a `SerdeError`, which
says whether trying again may help.
"""

from ottla.serdes.codecs import Codec, MessageFields, codec_of
from ottla.serdes.errors import SerdeError
from ottla.serdes.naming import SubjectStrategy, subject_of
from ottla.serdes.registry import KnownSchema, Registry, SchemaText
from ottla.serdes.serializing import Decoded, Deserializer, Serializer
from ottla.serdes.settings import KNOWN_KEYS, SerdeSettings, serde_settings
from ottla.serdes.wire import HEADERS, SchemaId, message_indexes, split_header, split_prefix

__all__ = [
    "HEADERS",
    "KNOWN_KEYS",
    "Codec",
    "Decoded",
    "Deserializer",
    "KnownSchema",
    "MessageFields",
    "Registry",
    "SchemaId",
    "SchemaText",
    "SerdeError",
    "SerdeSettings",
    "Serializer",
    "SubjectStrategy",
    "codec_of",
    "message_indexes",
    "serde_settings",
    "split_header",
    "split_prefix",
    "subject_of",
]
