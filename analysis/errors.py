"""The one exception that a user of the analysis can cause."""


class AnalysisError(ValueError):
    """A run that cannot be analysed. The message is one line: what, where, and how to mend it."""
