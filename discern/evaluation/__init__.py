"""Does the agent bring about what the goal shows? Fixed goals, attempts, scores, figures."""
