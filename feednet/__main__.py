"""`feednet`, and `python -m feednet`: the command line, after a check that all its packages are feednet's."""

import sys

from feednet import rooms


def main() -> None:
    """Run the command of the arguments."""
    try:
        rooms.check()
    except ImportError as error:
        sys.exit(f"feednet: {error}")
    from testbed.cli.launch import main as launch

    launch()


if __name__ == "__main__":
    main()
