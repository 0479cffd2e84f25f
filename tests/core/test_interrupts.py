"""Ctrl-C at the places where Python would crash, hide it or drop it."""

import gc
import importlib
import signal
import subprocess
import sys
import threading

import pytest

from turnout.core.interrupts import interruptible, uninterrupted_children

LONG = 60
"""Seconds after which a test that was not interrupted fails."""


def test_an_import_is_finished_first(tmp_path, monkeypatch):
    file = tmp_path / "imported_when_interrupted.py"
    file.write_text("import signal\nsignal.raise_signal(signal.SIGINT)\nwhole = True\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(KeyboardInterrupt), interruptible():
        importlib.import_module(file.stem)
        assert not threading.Event().wait(LONG), "there was no interrupt"
    assert sys.modules.pop(file.stem).whole


def test_an_import_that_does_not_end_is_interrupted(tmp_path, monkeypatch):
    monkeypatch.setattr("turnout.core.interrupts.LONGEST", 0.05)
    file = tmp_path / "imported_for_ever.py"
    file.write_text(f"import signal, threading\nsignal.raise_signal(signal.SIGINT)\nthreading.Event().wait({LONG})\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(KeyboardInterrupt), interruptible():
        importlib.import_module(file.stem)


def test_an_interrupt_that_a_callback_swallows_comes_again():
    def interrupt(phase, _):
        if phase == "start":
            gc.callbacks.remove(interrupt)
            signal.raise_signal(signal.SIGINT)

    gc.callbacks.append(interrupt)
    with pytest.raises(KeyboardInterrupt), interruptible():
        gc.collect()
        assert not threading.Event().wait(LONG), "there was no interrupt"


def test_handlers_are_as_they_were():
    before = signal.getsignal(signal.SIGINT), sys.unraisablehook
    with interruptible():
        assert signal.getsignal(signal.SIGINT) != before[0]
    assert (signal.getsignal(signal.SIGINT), sys.unraisablehook) == before


def test_children_do_not_see_it():
    with uninterrupted_children():
        child = subprocess.Popen(
            [sys.executable, "-c", "print(input())"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
    child.send_signal(signal.SIGINT)
    assert (child.communicate("whole", timeout=LONG)[0], child.returncode) == ("whole\n", 0)
