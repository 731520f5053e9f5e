"""The fair comparison: many methods under equal conditions, tuned with an equal budget, scored once on unseen classes."""
