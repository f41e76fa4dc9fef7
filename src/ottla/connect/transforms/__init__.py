"""Kafka's single message transformations and predicates. Pure."""

from ottla.connect.transforms.cast import Cast
from ottla.connect.transforms.content import (
    DropHeaders,
    Filter,
    HeaderFrom,
    InsertField,
    InsertHeader,
    MaskField,
    RegexRouter,
)
from ottla.connect.transforms.part import of_key, of_value
from ottla.connect.transforms.predicates import HasHeaderKey, RecordIsTombstone, TopicNameMatches
from ottla.connect.transforms.structure import (
    ExtractField,
    Flatten,
    HoistField,
    ReplaceField,
    SetSchemaMetadata,
    ValueToKey,
)
from ottla.connect.transforms.times import TimestampConverter, TimestampRouter

__all__ = ["PREDICATES", "TRANSFORMATIONS"]

_OF_PARTS = (
    *(Cast, ExtractField, Flatten, HeaderFrom, HoistField, InsertField, MaskField, ReplaceField),
    *(SetSchemaMetadata, TimestampConverter),
)
TRANSFORMATIONS = (
    *(of_key(kind) for kind in _OF_PARTS),
    *(of_value(kind) for kind in _OF_PARTS),
    *(DropHeaders, Filter, InsertHeader, RegexRouter, TimestampRouter, ValueToKey),
)
"""Every transformation's class, of the key and of the value where there are two."""

PREDICATES = (HasHeaderKey, RecordIsTombstone, TopicNameMatches)
