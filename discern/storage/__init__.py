"""What a run leaves on disk: files and nothing else."""
