"""Between brokers and the active controller: sessions, heartbeats, directories, and the duties of the leader."""
