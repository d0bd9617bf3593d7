"""Operators as processes, and objects of theirs, on the embedded API server."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml

from support.cluster import kubectl
from windlass.devstack.stack import Stack


class OperatorProcess:
    """A program that was started, with its log in a file."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self.process = process
        self._log = log

    @property
    def log(self) -> str:
        return self._log.read_text()

    def kill(self) -> None:
        """As the kernel or a lost node would."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self) -> int:
        """Ask it to stop; return its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)


def as_account(stack: Stack, account: str, folder: Path) -> Path:
    """Return a kubeconfig of a service account in the namespace ``default``."""
    token = kubectl(stack, "create", "token", account, "--duration=1h").strip()
    config = yaml.safe_load(stack.kubeconfig.read_text())
    config["users"] = [{"name": config["users"][0]["name"], "user": {"token": token}}]
    path = folder / f"{account}.kubeconfig"
    path.write_text(yaml.safe_dump(config))
    return path


@contextmanager
def operator(
    stack: Stack, program: Path, folder: Path, *arguments: str, kubeconfig: Path | None = None
) -> Iterator[OperatorProcess]:
    """Run a Python program against the stack."""
    log = folder / f"{program.parent.name}.log"
    with log.open("ab") as out:
        process = subprocess.Popen(
            [sys.executable, str(program), *arguments],
            cwd=folder,
            env={**os.environ, "KUBECONFIG": str(kubeconfig or stack.kubeconfig)},
            stdout=out,
            stderr=out,
        )
        try:
            yield OperatorProcess(process, log)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
