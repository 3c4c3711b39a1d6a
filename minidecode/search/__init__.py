"""Which tokens come next: the loops, processors, samplers, dialects and traces. No model, no cache."""
