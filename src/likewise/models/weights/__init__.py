"""Pretrained weights: which there are, from where, and whether they fit."""
