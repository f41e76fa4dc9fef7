"""Avro: its types, its text, its rules of resolution."""
