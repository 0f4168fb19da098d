"""The command line: each command parses its options, calls the rooms below, and prints."""
