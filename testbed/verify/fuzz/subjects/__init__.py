"""The subjects of fuzzing, each with its properties."""
