"""What several ops are made of, in NumPy."""
