"""One command or family of commands a file: it does and prints."""
