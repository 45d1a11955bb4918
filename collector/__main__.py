"""`python -m collector` is the `groundwatch` command."""

from collector.cli import main

main()
