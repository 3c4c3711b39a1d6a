"""Timing, cost models and machines: what each optimization buys here, and what it should buy elsewhere."""
