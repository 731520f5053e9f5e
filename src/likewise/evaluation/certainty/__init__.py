"""What noise leaves open of a score, and who is ahead for sure."""
