"""Hostile input against a whole broker: what a bad client costs is its own connection and one clear log line."""
