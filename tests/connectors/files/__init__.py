"""The connectors for files, against real files."""
