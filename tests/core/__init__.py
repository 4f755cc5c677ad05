"""The pure core: tables for rules, laws as properties."""
