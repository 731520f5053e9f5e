"""Each image file is decoded once, and kept."""
