"""``windlass codec serve``: the decode endpoint for the Temporal UI and CLI."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(help="Read encrypted payloads in the Temporal UI and CLI.", no_args_is_help=True)


@app.callback()
def codec() -> None:
    """Read encrypted payloads in the Temporal UI and CLI."""


@app.command()
def serve(
    token_file: Annotated[Path, typer.Option(help="File with the token; made with mode 0600 if it is not there.")],
    ui_origin: Annotated[
        list[str], typer.Option(help="Origin of the Temporal UI, as http://127.0.0.1:8233; may be repeated.")
    ],
    port: Annotated[int, typer.Option(help="Port on 127.0.0.1; 0 takes a free one.")] = 0,
) -> None:
    """Serve the decode endpoint on 127.0.0.1 until interrupted.

    The keyring comes from WINDLASS_KEYRING_FILE or WINDLASS_KEYRING. Give the printed endpoint, followed by /<token>,
    to the Temporal UI (its codec settings, or `--ui-codec-endpoint`); for the `temporal` CLI pass it as
    `--codec-endpoint` with `--codec-auth "Bearer <token>"`.
    """
    import asyncio
    import signal

    from windlass.domain.errors import Actor, PermanentError, Reason
    from windlass.temporal.client import TemporalTarget
    from windlass.temporal.codec_server import LOOPBACK, create_app
    from windlass.temporal.codec_server import serve as serving
    from windlass.temporal.codec_token import token_at
    from windlass.temporal.keyring import ENVIRONMENT_FILE, Keyring
    from windlass.temporal.sealing import Sealer

    keyring = Keyring.from_environment(os.environ)
    if keyring is None:
        raise PermanentError(
            Reason.VALIDATION_FAILED,
            "there is no keyring to decode with",
            hint=f"set {ENVIRONMENT_FILE} to the installation's keyring file",
            actor=Actor.ADMIN,
        )
    target = TemporalTarget.from_environment(os.environ)
    namespace = target.namespace if target else os.environ.get("TEMPORAL_NAMESPACE") or "default"
    application = create_app(Sealer(keyring), namespace=namespace, token=token_at(token_file), origins=ui_origin)

    async def run() -> None:
        stop = asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        async with serving(application, port=port) as bound:
            typer.echo(f"decode endpoint on http://{LOOPBACK}:{bound}, token in {token_file}")
            await stop.wait()

    asyncio.run(run())
