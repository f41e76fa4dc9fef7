"""Real processes under load while they are killed, paused, cut off and starved, with every record accounted for."""
