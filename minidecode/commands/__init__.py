"""The commands of the command line: the one called NAME is in NAME.py. Heavy imports stand inside the functions."""
