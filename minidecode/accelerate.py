"""`python -m minidecode.accelerate SCRIPT`: an unchanged script of transformers, whose models generate here.

The package's function has this module's name. Whichever of the two a name leads to, it can be called: an import of this
module puts it in the function's place.
"""

import sys
from types import ModuleType
from typing import Any


class CalledAsFunction(ModuleType):
    """A module that is called as `minidecode.live.accelerate.accelerate` is."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        from .live.accelerate import accelerate

        return accelerate(*args, **kwargs)


sys.modules[__name__].__class__ = CalledAsFunction

if __name__ == "__main__":
    from minidecode.live.script import main

    sys.exit(main())
