"""What learns: pure functions of arrays."""
