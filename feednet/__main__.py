"""`python -m feednet` does what `feednet` does."""

from importlib.metadata import entry_points

if __name__ == "__main__":
    (command,) = entry_points(group="console_scripts", name="feednet")
    command.load()()
