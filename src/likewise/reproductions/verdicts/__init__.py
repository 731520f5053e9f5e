"""What becomes of the claims of papers: where each is judged, by which figures, and how often."""
