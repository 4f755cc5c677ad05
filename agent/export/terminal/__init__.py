"""The terminal view of an agent: ``weir top``."""
