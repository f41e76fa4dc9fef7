"""The generator source."""
