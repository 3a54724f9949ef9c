"""The training loop: collecting, learning, logging, saving."""
