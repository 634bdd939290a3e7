"""Machine files that are made of what was measured."""
