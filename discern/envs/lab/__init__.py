"""DeepMind Lab."""
