"""Who does the pieces of a comparison, and where what they find is kept."""
