"""Joins as Streams' joins."""
