"""Explanation: where two images match."""
