"""The error that ends a command with one line."""


class UserError(Exception):
    """Something that the user can mend; the message says what, where and how, in one line."""
