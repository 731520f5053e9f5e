"""Reproductions: every table and figure of the papers as a file of data, run under our protocols, its claims judged by our verdict."""
