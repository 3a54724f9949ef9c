"""How fast a run is, and what this machine has."""
