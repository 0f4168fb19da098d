"""Applications over messages: state that is computed from logs, in any order of arrival."""
