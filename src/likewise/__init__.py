"""Likewise: deep metric learning."""
