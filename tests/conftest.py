"""For all tests: Hypothesis without deadlines, since a shared machine has pauses of its own."""

from hypothesis import settings

settings.register_profile("shared-machine", deadline=None)
settings.load_profile("shared-machine")
