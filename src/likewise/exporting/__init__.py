"""Exporting: an embedder as files that run without likewise."""
