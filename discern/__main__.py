"""`python -m discern` is `discern`."""

from discern.cli import main

main()
