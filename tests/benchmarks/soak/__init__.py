"""Hours of real streaming under Weir while everything around it breaks at random."""
