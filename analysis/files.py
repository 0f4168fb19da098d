"""Files of text that are there whole or not at all."""

from pathlib import Path


def write_whole(path: Path, text: str) -> None:
    """Write a file so that whoever reads it finds it whole: an old one stays until then. Raises OSError."""
    new = path.with_name(path.name + ".partial")
    new.write_text(text, encoding="utf-8")
    new.replace(path)
