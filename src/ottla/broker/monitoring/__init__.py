"""What a node shows of itself: metrics, health, and the HTTP listener that serves them."""
