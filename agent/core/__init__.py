"""The pure core: decode → measure → judge → decide. No clock, no I/O, no randomness."""
