"""Every system call fails once: stories of a log, a log directory and a broker, each call failing in each way in turn."""
