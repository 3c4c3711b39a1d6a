"""`python -m minidecode`: the command line, where the folder of installed scripts is not on the path."""

from .commands.cli import main

if __name__ == "__main__":
    main()
