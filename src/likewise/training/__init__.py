"""Training: methods as data become trained networks."""
