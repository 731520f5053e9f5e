"""Serving: an index behind a page and a JSON interface."""
