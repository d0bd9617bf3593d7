"""ActionRequests that have no answer yet, by package and in the order of their creation."""

from __future__ import annotations

import heapq
from typing import Final

from windlass.contracts.actions import ActionRequest
from windlass.domain.ids import PackageKey

type _Place = tuple[float, str, str]
"""Seconds since the epoch of the creation, name and uid."""


class WaitingRequests:
    """Takes, replaces and drops requests in logarithmic time: anybody may create many of them.

    Args:
        installation: the installation id of the packages.
    """

    def __init__(self, installation: str) -> None:
        self._installation: Final = installation
        self._known: dict[str, ActionRequest] = {}
        self._places: dict[PackageKey, list[_Place]] = {}

    def put(self, request: ActionRequest) -> PackageKey:
        """Take a request, or its newer state; return which package it is about."""
        uid = request.metadata.uid
        key = request.key(self._installation)
        if uid not in self._known:
            place = (request.created.timestamp(), request.metadata.name, uid)
            heapq.heappush(self._places.setdefault(key, []), place)
        self._known[uid] = request
        return key

    def drop(self, uid: str) -> None:
        """Forget a request; harmless if it is unknown."""
        self._known.pop(uid, None)

    def clear(self) -> None:
        """Forget all."""
        self._known.clear()
        self._places.clear()

    def oldest(self, key: PackageKey) -> ActionRequest | None:
        """Return the oldest request about a package; None if there is none."""
        places = self._places.get(key, [])
        while places:
            request = self._known.get(places[0][2])
            if request is not None:
                return request
            heapq.heappop(places)
        self._places.pop(key, None)
        return None
