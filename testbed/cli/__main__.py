"""`python -m testbed.cli`: the command `feednet`."""

from testbed.cli.launch import main

main()
