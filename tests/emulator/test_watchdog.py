"""An endless loop is ended even where Python drops the first interruption."""

import sys
import time

import pytest

from minidecode.emulator.watchdog import Interrupted, Watchdog


def test_an_interruption_that_a_destructor_swallows_is_sent_again(monkeypatch, capsys):
    monkeypatch.setattr(Watchdog, "AGAIN", 0.05)

    class Slow:
        def __del__(self):  # whatever is raised here, Python drops
            ended = time.process_time() + 0.3
            while time.process_time() < ended:
                pass

    with pytest.raises(Interrupted), Watchdog(0.1, progress=lambda: 0):
        Slow()  # is gone at once, and swallows the first interruption
        while True:
            pass
    assert capsys.readouterr().err == ""


def test_the_hook_for_other_exceptions_in_destructors_is_put_back():
    before = sys.unraisablehook
    with Watchdog(5.0, progress=lambda: 0):
        assert sys.unraisablehook is not before
    assert sys.unraisablehook is before
