"""Each connector against the real thing."""
