"""What is known of a run besides its packets: manifest, settings, paths."""
