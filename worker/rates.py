"""How fast each client of the API server may send requests: defaults, and how an operator changes them."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from typing import Final, NoReturn

from windlass.domain.errors import Actor, PermanentError, Reason

VARIABLE: Final = "WINDLASS_API_RATES"


@dataclass(frozen=True, kw_only=True)
class Rate:
    """A rate limit of one client.

    Attributes:
        qps: requests a second, above 0.
        burst: requests that may be sent at once after a pause, at least 1.
    """

    qps: float
    burst: int


@dataclass(frozen=True, kw_only=True)
class Rates:
    """The rate limits of one process. Each client has its own, so that a busy one never starves another.

    The defaults let 100 installations run as fast as two cores allow; a shared control plane may want less.

    Attributes:
        lifecycle: objects, status, state Secrets and Events of packages.
        tokens: service accounts and tokens of packages.
        readiness: waits for the objects of releases.
        drift: watches over the objects of releases.
        shards: the Lease of the process and the table of shards.
        watcher: lists, watches and reads of the watcher.
        helm: of each process of the ``helm`` program.
        inspect: reviews of tokens and rights, and reads, for the inspect endpoint.
    """

    lifecycle: Rate = Rate(qps=1000, burst=2000)
    tokens: Rate = Rate(qps=50, burst=100)
    readiness: Rate = Rate(qps=500, burst=1000)
    drift: Rate = Rate(qps=100, burst=200)
    shards: Rate = Rate(qps=100, burst=200)
    watcher: Rate = Rate(qps=100, burst=200)
    helm: Rate = Rate(qps=50, burst=100)
    inspect: Rate = Rate(qps=100, burst=200)

    @classmethod
    def parse(cls, text: str) -> Rates:
        """Return the defaults, changed by a list such as ``lifecycle=200,drift=20/50``.

        An entry is ``client=qps`` or ``client=qps/burst``; without a burst, it is twice the rate.

        Raises:
            PermanentError: VALIDATION_FAILED; names the entry and what is allowed there.
        """
        names = [field.name for field in fields(cls)]
        found: dict[str, Rate] = {}
        for entry in filter(None, text.replace(" ", "").split(",")):
            name, _, value = entry.partition("=")
            if name not in names:
                _refuse(entry, f"the clients are {', '.join(names)}")
            if name in found:
                _refuse(entry, f"{name} is set twice")
            found[name] = _rate(entry, value)
        return replace(cls(), **found)


def _rate(entry: str, value: str) -> Rate:
    qps_text, slash, burst_text = value.partition("/")
    try:
        qps = float(qps_text)
        burst = int(burst_text) if slash else math.ceil(2 * qps)
    except (ValueError, OverflowError):
        _refuse(entry, "write client=qps or client=qps/burst, for example drift=20/50")
    if not math.isfinite(qps) or qps <= 0 or burst < 1:
        _refuse(entry, "the rate must be above 0 and the burst a whole number from 1")
    return Rate(qps=qps, burst=burst)


def _refuse(entry: str, hint: str) -> NoReturn:
    raise PermanentError(Reason.VALIDATION_FAILED, f"{VARIABLE}: {entry!r} is not a rate", hint=hint, actor=Actor.USER)
