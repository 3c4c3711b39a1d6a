"""Which tokens come next, and what runs a search: loops, processors, samplers, dry runs, streams. No model."""
