"""A first-person round pool."""
