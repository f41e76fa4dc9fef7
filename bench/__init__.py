"""Ottla beside Apache Kafka on the same machine, in one run: interleaved rounds, the same load, ratios."""
