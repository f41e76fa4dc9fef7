"""Logging in to a node: what its SASL listeners are configured with, and who stands before the router until somebody has."""
