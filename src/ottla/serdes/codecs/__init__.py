"""Schemas made ready to encode and decode Python's values, one module per format."""

from ottla.serdes.codecs.fields import MessageFields
from ottla.serdes.codecs.interface import Codec, codec_of

__all__ = ["Codec", "MessageFields", "codec_of"]
