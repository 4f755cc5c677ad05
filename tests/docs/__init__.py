"""The documentation: as a site, and as it is read in the repository."""
