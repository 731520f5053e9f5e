"""Figures that papers draw, from what methods and losses give."""
