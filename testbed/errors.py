"""The error that ends a command with one line."""

from forwarder.toml_file import shown

__all__ = ["UserError", "shown"]


class UserError(Exception):
    """Something that the user can mend; the message says what, where and how, in one line."""
