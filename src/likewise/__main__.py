"""`python -m likewise` is the command `likewise`."""

from likewise.cli import main

main()
