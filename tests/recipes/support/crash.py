"""Runs a server that is killed once, in the middle of its work.

    crash.py MARKER METHOD SCRIPT [ARGUMENT…]

The process gets SIGKILL when `METHOD` of a `pathlib.Path` has returned for the first time. The file MARKER shows that
this has happened, so that the next process of the server goes on.
"""

import os
import pathlib
import runpy
import signal
import sys

_, MARKER, METHOD, SCRIPT, *ARGUMENTS = sys.argv
original = getattr(pathlib.Path, METHOD)


def crashing(self, *positional, **named):
    result = original(self, *positional, **named)
    if not os.path.exists(MARKER):
        os.close(os.open(MARKER, os.O_CREAT | os.O_WRONLY))
        os.kill(os.getpid(), signal.SIGKILL)
    return result


setattr(pathlib.Path, METHOD, crashing)
sys.argv = [SCRIPT, *ARGUMENTS]
runpy.run_path(SCRIPT, run_name="__main__")
