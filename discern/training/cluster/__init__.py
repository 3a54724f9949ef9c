"""The same loop with actors on Ray and learners on several devices."""
