"""A mirror's task between two clusters in memory, each of whose requests may fail, and what it must have told."""
