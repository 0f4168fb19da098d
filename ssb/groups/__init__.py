"""Private groups and direct messages in the format box2."""
