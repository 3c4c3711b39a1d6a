"""A family is a forward pass (NAME.py) and a table of tensors (NAME_tensors.py). No plan, no cache is named here."""
