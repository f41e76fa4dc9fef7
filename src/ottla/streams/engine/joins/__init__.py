"""Joins of streams and tables, as Kafka Streams does them; the modules of builders register themselves when imported."""
