"""The worker process of the demo: started, killed with -9, started again, stopped."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from windlass.adapters.processes import leash
from windlass.domain.errors import Actor, PermanentError, Reason

STOP_SECONDS: Final = 20.0
"""How long an orderly stop may take before the process is killed."""


class Worker:
    """``windlass worker --role all`` as a child that never outlives this process.

    Args:
        data_dir: its folder; the log is ``worker.log`` in it.
        environ: its whole environment.
    """

    def __init__(self, data_dir: Path, environ: Mapping[str, str]) -> None:
        self._data_dir = data_dir
        self._environ = dict(environ)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def log(self) -> Path:
        """What it has logged."""
        return self._data_dir / "worker.log"

    def start(self) -> int:
        """Start it and return its pid."""
        self._data_dir.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-I", "-S", leash.__file__, str(os.getpid())]
        command += [sys.executable, "-m", "windlass", "worker", "--role", "all", "--data-dir", str(self._data_dir)]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                command,
                env=self._environ,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C is for the demo, which then stops it in order
            )
        return self._process.pid

    def check(self) -> None:
        """Make sure that it runs.

        Raises:
            PermanentError: INTERNAL, it ended by itself; says where its log is.
        """
        if self._process is not None and (code := self._process.poll()) is not None:
            raise PermanentError(
                Reason.INTERNAL,
                f"the worker ended by itself with status {code}",
                hint=f"see {self.log}",
                actor=Actor.ADMIN,
            )

    def kill(self) -> int:
        """Kill it with SIGKILL, wait until it is gone, and return the pid it had."""
        process = self._running()
        process.kill()
        process.wait()
        self._process = None
        return process.pid

    def stop(self) -> None:
        """Stop it in order, at worst by force; harmless if it does not run."""
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(timeout=STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise PermanentError(Reason.INTERNAL, "the worker does not run", hint="start the demo again")
        return self._process
