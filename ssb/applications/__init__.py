"""Applications over messages: state that is computed from logs, in whatever order they arrive."""
