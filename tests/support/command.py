"""The `windlass` program as people and scripts run it, against an installation."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from support.installation import Installation
from windlass.adapters.kube.client import KubeClient

LIMIT: Final = 60.0
"""Seconds that one command may take."""


@dataclass(frozen=True)
class Ran:
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()


def environment(installation: Installation, **environ: str) -> dict[str, str]:
    """The environment in which a person has set up this installation; an empty variable is left out."""
    env = {
        **{name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ},
        **installation.stack.env,
        "WINDLASS_DATA": str(installation.folder),
        "WINDLASS_INSTALLATION": installation.name,
        "WINDLASS_KEYRING_FILE": str(installation.folder / "keyring.yaml"),
        "WINDLASS_DIGEST_KEY_FILE": str(installation.folder / "digest-key"),
        "WINDLASS_HELM": str(installation.stack.tool("helm")),
        **environ,
    }
    return {name: value for name, value in env.items() if value}


@asynccontextmanager
async def started(
    installation: Installation, *arguments: str, **environ: str
) -> AsyncGenerator[asyncio.subprocess.Process]:
    """Start the program; whatever happens, it does not outlive the test."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "windlass",
        *arguments,
        env=environment(installation, **environ),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def windlass(installation: Installation, *arguments: str, stdin: str = "", **environ: str) -> Ran:
    """Run the program to its end."""
    async with started(installation, *arguments, **environ) as process, asyncio.timeout(LIMIT):
        out, err = await process.communicate(stdin.encode())
        assert process.returncode is not None
        return Ran(process.returncode, out.decode(), err.decode())


async def done(installation: Installation, *arguments: str, stdin: str = "") -> Ran:
    """Run the program in the installation's namespace; it must succeed and have nothing to complain about."""
    ran = await windlass(installation, *arguments, "-n", installation.namespace, stdin=stdin)
    assert (ran.code, ran.err) == (0, "")
    return ran


async def user_name(kube: KubeClient) -> str:
    """Return what the API server calls the client's user."""
    answer = await kube.create({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"})
    return answer["status"]["userInfo"]["username"]
