"""Running scenarios: in the emulator, in Mininet, many at a time."""
