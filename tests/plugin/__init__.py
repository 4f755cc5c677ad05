"""Drivers that know nothing of Weir but two lines of configuration."""
