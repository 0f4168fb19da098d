"""Running scenarios: in the emulator, in Mininet, in sweeps."""
