"""What owns threads, files and devices."""
