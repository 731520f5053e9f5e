"""Grouping: copies of one image in an index, groups of images that are alike, and contact sheets of them."""
