"""Every op in NumPy. Signatures, equations and costs stand in minidecode/ops.py; here is how."""
