"""Where events come from: HTTP and the host."""
