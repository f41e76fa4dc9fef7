"""A source that makes up orders, users, page views and clicks: the same for the same seed, with keys that can be joined."""

from ottla.connectors.datagen.generator_source import GeneratorSourceConnector, GeneratorSourceTask

__all__ = ["GeneratorSourceConnector", "GeneratorSourceTask"]
