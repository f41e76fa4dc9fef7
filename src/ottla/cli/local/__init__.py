"""Servers and clusters on this machine: their folders, processes, shards, and how they stand."""
