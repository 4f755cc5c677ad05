"""Figures that README and the notes quote; each prints its own conditions."""
