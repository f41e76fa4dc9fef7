"""Cost grows linearly: what a request makes the broker, a service or a statement do is counted, not timed."""
