"""One part of a stack: what the supervisor starts and looks after."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from windlass.devstack.probe import Probe


@dataclass(frozen=True, slots=True)
class Part:
    """One process of the stack.

    Attributes:
        name: shown to people, names the log.
        tool: the program, see `windlass.devstack.programs.catalog`; or `windlass` itself.
        argv: command line.
        env: variables that are added to its environment.
        needs: parts that must be ready before this one is started.
        address: where it serves; empty when it does not.
        ready: all of these hold once it does its work.
        health: holds as long as it lives well.
        once: whether it is a task that ends, rather than a server.
    """

    name: str
    tool: str
    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    needs: tuple[str, ...] = ()
    address: str = ""
    ready: tuple[Probe, ...] = ()
    health: Probe | None = None
    once: bool = False
