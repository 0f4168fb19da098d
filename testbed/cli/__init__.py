"""The command line: it parses and prints."""
