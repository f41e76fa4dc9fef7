"""A real broker's process under a real client's load, killed at random moments: what was acknowledged is there."""
