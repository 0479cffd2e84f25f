"""python -m turnout."""

from turnout.cli import main

main()
