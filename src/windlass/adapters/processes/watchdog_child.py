"""The program of `watchdog`: ``python -I -S watchdog_child.py PARENT_PID``, with promises on stdin.

Imports are the bare minimum: it lives as long as a worker does and is to cost nothing.
"""

import os
import select
import signal
import sys
import time

_KILLED = (
    "windlass: process {parent} was frozen or hung until the end of its Lease was near ({what}). It was killed, so "
    "that another one can go on: start it again, nothing is lost\n"
)

_INIT = 1
"""The first process of a container, which the kernel lets nobody kill from inside."""
_BEREFT = (
    "windlass: the worker was frozen or hung until the end of its Lease was near ({what}). What it had started was "
    "killed, so that another worker can go on\n"
)


def main() -> None:
    """Kill the parent when a promise is broken; end with stdin."""
    parent = int(sys.argv[1])
    deadlines: dict[str, float] = {}
    rest = b""
    while True:
        first = min(deadlines, key=deadlines.__getitem__, default="")
        left = max(deadlines[first] - time.monotonic(), 0.0) if first else None
        readable, _, _ = select.select([0], [], [], left)  # what has been told counts before what has not
        if not readable:
            if parent == _INIT:
                os.kill(-1, signal.SIGKILL)  # everything in the container but that process and this one
                sys.stderr.write(_BEREFT.format(what=first))
                del deadlines[first]
                continue
            if os.getppid() == parent:
                os.kill(parent, signal.SIGKILL)
                sys.stderr.write(_KILLED.format(parent=parent, what=first))
            return
        told = os.read(0, 65536)
        if not told:
            return
        *lines, rest = (rest + told).split(b"\n")
        for line in lines:
            what, until = line.decode().split(" ")
            deadlines.pop(what, None)
            if float(until) > 0:
                deadlines[what] = float(until)


if __name__ == "__main__":
    main()
