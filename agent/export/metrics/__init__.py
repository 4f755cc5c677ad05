"""The rows of the catalogue, by theme: each is a metric and how its value is read."""
