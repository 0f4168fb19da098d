"""PIT reconstruction of captures of any size, window by window."""
