"""The process around the core: configuration, HTTP, persistence, timers."""
