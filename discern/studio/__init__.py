"""A page to watch goals being reached: agents, goals, pursuits, the embedding's map and live training."""
