"""Connect's tasks as their worker runs them: control channel, slots, restarts, graceful and less graceful ends."""
