"""Admission: who may ask, how much, and how it is told to those who may not."""
