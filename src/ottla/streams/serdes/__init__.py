"""Serdes: bytes of a topic, Python values, and columns of Spark."""
