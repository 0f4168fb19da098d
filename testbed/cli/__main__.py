"""`python -m testbed.cli`: what `feednet` does."""

from testbed.cli.launch import main

main()
