"""`python -m testbed.cli`: what `feednet` does."""

from testbed.cli.main import main

main()
