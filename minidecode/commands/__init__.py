"""The commands: the one called NAME is in NAME.py (`exercise` in exercises/commands.py), and what they share beside it.

What takes long to import is imported inside the functions, so that `--help` does not wait for it.
"""
