"""Which resource serves a kind. Cached per group-version, refreshed once when a kind is not in the cache."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final, Protocol, cast

from windlass.ports.kube import ResourceInfo

CORE: Final = "v1"


class Fetch(Protocol):
    """GETs a discovery document; None if the server does not have it."""

    async def __call__(self, path: str, /) -> Mapping[str, Any] | None:
        """Return the parsed document below the server's root."""
        ...


class Discovery:
    """Looks kinds up; kinds, plurals, singulars and short names compare without regard to case."""

    def __init__(self, fetch: Fetch) -> None:
        self._fetch = fetch
        self._known: dict[str, dict[str, ResourceInfo]] = {}
        self._preferred: dict[str, ResourceInfo] = {}
        self._refreshing = asyncio.Lock()

    async def find(self, api_version: str, kind: str) -> ResourceInfo | None:
        """Return the resource of ``kind``; with an empty ``api_version`` the preferred version of the first group.

        The core group comes first, then the server's own order, as in kubectl.
        """
        wanted = kind.lower()
        if not api_version:
            return self._preferred.get(wanted) or await self._find_preferred(wanted)
        return self._known.get(api_version, {}).get(wanted) or (await self._refresh(api_version)).get(wanted)

    def forget(self, api_version: str) -> None:
        """Drop what is known of a group-version: the server answered 404 where a resource should have been."""
        self._known.pop(api_version, None)
        self._preferred = {k: info for k, info in self._preferred.items() if info.api_version != api_version}

    async def _find_preferred(self, wanted: str) -> ResourceInfo | None:
        groups = await self._fetch("/apis") or {}
        versions = [CORE] + [
            str(group["preferredVersion"]["groupVersion"]) for group in cast("list[Any]", groups.get("groups") or [])
        ]
        for version in versions:
            resources = self._known.get(version) or await self._refresh(version)
            if info := resources.get(wanted):
                self._preferred[wanted] = info
                return info
        return None

    async def _refresh(self, api_version: str) -> dict[str, ResourceInfo]:
        before = self._known.get(api_version)
        async with self._refreshing:
            now = self._known.get(api_version)
            if now is not None and now is not before:
                return now  # refreshed while we waited for the lock
            path = f"/api/{api_version}" if "/" not in api_version else f"/apis/{api_version}"
            document = await self._fetch(path) or {}
            resources: dict[str, ResourceInfo] = {}
            entries = [e for e in cast("list[Any]", document.get("resources") or []) if "/" not in str(e["name"])]
            for entry in entries:
                info = ResourceInfo(
                    api_version=api_version,
                    kind=str(entry["kind"]),
                    plural=str(entry["name"]),
                    namespaced=bool(entry["namespaced"]),
                )
                others = [entry["name"], entry.get("singularName") or "", *(entry.get("shortNames") or ())]
                for name in others:
                    resources.setdefault(str(name).lower(), info)
                resources[info.kind.lower()] = info
            resources.pop("", None)
            if resources:
                self._known[api_version] = resources
            else:
                self._known.pop(api_version, None)
            return resources
