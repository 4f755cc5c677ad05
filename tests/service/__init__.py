"""The agent as a process: HTTP, configuration, persistence, the command line."""
