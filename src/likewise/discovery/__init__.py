"""A loss found for one's own data: the weights of pairs are searched, and what was found is written as a formula."""
