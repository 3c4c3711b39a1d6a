"""The command line: cli.py, one file a command, flags and progress bars. What is heavy is imported in functions.



What takes long to import is imported inside the functions, so that `--help` does not wait for it.
"""
