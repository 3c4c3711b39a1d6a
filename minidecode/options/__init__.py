"""What a caller may ask of a generation: the options, their checks, and the dialects. No model, no array of scores."""
