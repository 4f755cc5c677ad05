"""Everything that proves Weir."""
