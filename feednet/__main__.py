"""`feednet`, and `python -m feednet`: the command line, once it is sure that all of it is feednet's."""

import sys

from feednet import rooms


def main() -> None:
    """Run the command that the arguments name."""
    try:
        rooms.check()
    except ImportError as error:
        sys.exit(f"feednet: {error}")
    from testbed.cli.launch import main as launch

    launch()


if __name__ == "__main__":
    main()
