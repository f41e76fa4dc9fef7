"""Protobuf: its compiler, its text, its rules of change."""
