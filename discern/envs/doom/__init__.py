"""First-person worlds of Doom's engine, through ViZDoom."""
