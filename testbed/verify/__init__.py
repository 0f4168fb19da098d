"""What tests the rest with inputs that nobody has thought of: simulation, fuzzing, soak."""
