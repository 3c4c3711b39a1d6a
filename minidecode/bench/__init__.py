"""Timing, cost models, machines, the ladder, quality, plots: what an optimization buys here and elsewhere."""
