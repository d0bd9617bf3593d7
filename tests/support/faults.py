"""A place to stop time: a proxy before the API server that holds chosen requests until the test lets them go.

A worker that waits for a held request is at a known point of a known step, however fast that step is otherwise. The
request is held either before the API server has seen it, or after the API server has done it and before the worker
learns so: the two sides of every "it was killed in the middle".
"""

from __future__ import annotations

import asyncio
import json
import re
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import yaml

from windlass.cli.context import WATCHER_KUBECONFIG
from windlass.devstack.credentials import Credentials
from windlass.devstack.stack import Stack

_HEAD_LIMIT: Final = 1 << 20  # bytes; bearer tokens and long selectors fit many times over
_CHUNK: Final = 1 << 16


@dataclass
class Hold:
    """One place at which requests are held.

    Attributes:
        at: regular expression over ``METHOD PATH`` (without the query) of the requests to hold; the path of a POST
            gets the name of the object in its body, as the paths of all other requests have it.
        passing: requests that have to pass first, in this order.
        answered: hold the answer instead of the request: the API server has done it, the worker does not know.
        when: says whether to hold yet; asked for each request that matches ``at``.
        holding: how many requests are being held now.
        last: the newest request held, as ``METHOD PATH``.
    """

    at: str
    passing: tuple[str, ...] = ()
    answered: bool = False
    when: Callable[[], bool] = lambda: True
    holding: int = 0
    last: str = ""
    _passed: int = 0
    _released: asyncio.Event = field(default_factory=asyncio.Event)

    def takes(self, request: str) -> bool:
        """Say whether ``request`` is to be held; take notice of it if it is one that has to pass first."""
        if self._released.is_set():
            return False
        if self._passed < len(self.passing):
            self._passed += re.search(self.passing[self._passed], request) is not None
            return False
        return re.search(self.at, request) is not None and self.when()

    def release(self) -> None:
        """Let go of what is held, and hold nothing any more."""
        self._released.set()

    async def hold(self, request: str, gone: Awaitable[object]) -> bool:
        """Wait for the release; False when ``gone`` comes first: the client has closed its connection."""
        self.holding += 1
        self.last = request
        released = asyncio.ensure_future(self._released.wait())
        left = asyncio.ensure_future(gone)
        try:
            await asyncio.wait({released, left}, return_when=asyncio.FIRST_COMPLETED)
            return not left.done()
        finally:
            self.holding -= 1
            for task in (released, left):
                task.cancel()
            await asyncio.gather(released, left, return_exceptions=True)


class HoldingProxy:
    """Passes TLS connections on to a stack's API server, request by request.

    ``environ`` leads worker and watcher through it, each as its own account.
    """

    def __init__(self, stack: Stack) -> None:
        pki = Credentials(stack.data_dir / "pki")
        self._stack = stack
        self._outside = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self._outside.load_cert_chain(pki.serving_certificate, pki.serving_key)
        self._inside = ssl.create_default_context(cafile=str(pki.ca))
        self._holds: list[Hold] = []
        self._port = 0

    def hold(self, hold: Hold) -> Hold:
        """Hold what ``hold`` describes from now on."""
        self._holds.append(hold)
        return hold

    def release(self) -> None:
        """Let everything go and forget all holds."""
        for hold in self._holds:
            hold.release()
        self._holds.clear()

    def kubeconfig(self, folder: Path) -> Path:
        """Write a kubeconfig that leads through the proxy into ``folder``; everything else is the administrator's."""
        return self._leading(self._stack.kubeconfig, folder / "held-kubeconfig")

    def environ(self, folder: Path) -> dict[str, str]:
        """Write kubeconfigs that lead through the proxy into ``folder``; return the variables that name them."""
        found = {
            "KUBECONFIG": self._leading(self._stack.worker_kubeconfig, folder / "held-worker"),
            WATCHER_KUBECONFIG: self._leading(self._stack.watcher_kubeconfig, folder / "held-watcher"),
        }
        return {name: str(path) for name, path in found.items()}

    def _leading(self, known: Path, path: Path) -> Path:
        config = yaml.safe_load(known.read_text())
        for cluster in config["clusters"]:
            cluster["cluster"]["server"] = f"https://127.0.0.1:{self._port}"
        path.write_text(yaml.safe_dump(config))
        return path

    @asynccontextmanager
    async def serving(self) -> AsyncGenerator[HoldingProxy]:
        """Serve on a free loopback port."""
        connections: dict[asyncio.Task[None], asyncio.StreamWriter] = {}
        ending = False

        def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            if ending:
                writer.transport.abort()
                return
            task = asyncio.ensure_future(self._serve(reader, writer))
            connections[task] = writer
            task.add_done_callback(connections.pop)

        server = await asyncio.start_server(connected, "127.0.0.1", 0, ssl=self._outside, limit=_HEAD_LIMIT)
        self._port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            for listening in server.sockets:
                asyncio.get_running_loop().remove_reader(listening.fileno())
            await asyncio.sleep(0)  # who has just been let in is known to the server now, and not forgotten by its end
            ending = True
            server.close()
            self.release()
            for task, writer in connections.items():
                writer.transport.abort()  # a task that is cancelled before it has begun closes nothing itself
                task.cancel()
            await asyncio.gather(*connections, return_exceptions=True)
            # A client that was killed in mid handshake has no task of ours; its transport is given up here.
            server.abort_clients()
            await server.wait_closed()

    async def _serve(self, client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        """Carry one connection until either side closes it."""
        address = urlsplit(self._stack.state.apiserver_url)
        writers = [to_client]
        try:
            server, to_server = await asyncio.open_connection(
                address.hostname, address.port, ssl=self._inside, limit=_HEAD_LIMIT
            )
            writers.append(to_server)
            held: list[tuple[Hold, str]] = []
            both = [
                asyncio.ensure_future(self._requests(client, to_server, held)),
                asyncio.ensure_future(self._answers(server, to_client, held)),
            ]
            try:
                await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in both:
                    task.cancel()
                await asyncio.gather(*both, return_exceptions=True)
        except OSError:
            pass  # the API server is down: the client sees its connection close, as it would without us
        finally:
            for writer in writers:
                writer.transport.abort()

    async def _requests(
        self, client: asyncio.StreamReader, to_server: asyncio.StreamWriter, held: list[tuple[Hold, str]]
    ) -> None:
        while True:
            head = await client.readuntil(b"\r\n\r\n")
            length = re.search(rb"(?i)\r\ncontent-length: *(\d+)", head)
            body = await client.readexactly(int(length[1])) if length else b""
            request = _named(head, body)
            # Every hold sees every request, so that each counts what has passed by itself.
            taken = [hold for hold in self._holds if hold.takes(request)]
            for hold in taken:
                if hold.answered:
                    held.append((hold, request))
                elif not await hold.hold(request, client.read(1)):  # nobody pipelines: only the end can come
                    return
            to_server.write(head + body)
            await to_server.drain()

    @staticmethod
    async def _answers(
        server: asyncio.StreamReader,
        to_client: asyncio.StreamWriter,
        held: list[tuple[Hold, str]],
    ) -> None:
        while chunk := await server.read(_CHUNK):
            while held:
                hold, request = held.pop()
                await hold.hold(request, asyncio.Event().wait())  # the reader of requests notices the client's end
            to_client.write(chunk)
            await to_client.drain()


def _named(head: bytes, body: bytes) -> str:
    method, target, _ = head.split(b"\r\n", 1)[0].decode().split(" ")
    path = urlsplit(target).path
    if method != "POST" or not body.startswith(b"{"):
        return f"{method} {path}"
    return f"{method} {path}/{json.loads(body).get('metadata', {}).get('name', '')}"
