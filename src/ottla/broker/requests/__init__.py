"""What comes in and goes out: listeners, connections, the router, how an API is declared, how an error becomes an answer."""
