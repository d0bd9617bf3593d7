"""`Operator`: the older sibling of `Runtime`, for applications only, over the same lifecycles.

Reference: deckhouse.md sections 8 and 9.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import yaml

from windlass.domain.ids import Kind, PackageKey
from windlass.domain.packages.model import Definition, Values
from windlass.runtime.runtime import App, Runtime


@dataclass(frozen=True, kw_only=True)
class Instance:
    """One application; the fields are those of an `App`."""

    name: str
    namespace: str = "default"
    definition: Definition
    settings: Values = field(default_factory=dict[str, Any])


class Operator:
    """Installs, changes and removes applications.

    Args:
        runtime: what it speaks through.
    """

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    async def update(self, repository: str, instance: Instance) -> PackageKey:
        """Install an application, or bring the one of this name to another version or other settings.

        What an earlier update has begun and this one overtakes is cancelled. Raises as `Runtime.update_app`.
        """
        app = App(
            name=instance.name,
            namespace=instance.namespace,
            definition=instance.definition,
            settings=instance.settings,
        )
        return await self._runtime.update_app(repository, app)

    async def remove(self, namespace: str, instance: str) -> None:
        """Stop the application's hooks, uninstall it, and end its queues; raises as `Runtime.remove_app`."""
        await self._runtime.remove_app(namespace, instance)

    async def dump(self) -> bytes:
        """Return a YAML snapshot of all applications: one key ``packages``, what is in ``status`` beside the rest.

        As `Runtime.dump` otherwise.
        """
        packages = {
            id_: {**dump.get("status", {}), **{name: value for name, value in dump.items() if name != "status"}}
            for id_, dump in (await self._runtime.dumps(Kind.APPLICATION)).items()
        }
        return yaml.safe_dump({"packages": packages}, sort_keys=False, allow_unicode=True).encode()
