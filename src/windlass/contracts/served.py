"""How the API server serves a kind: its resource, who may see it where, and the columns of ``kubectl get``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from windlass.contracts.objects import KubeObject


@dataclass(frozen=True, kw_only=True)
class Column:
    """One column of ``kubectl get``; priority 1 shows with ``-o wide`` only."""

    name: str
    path: str
    type: str = "string"
    priority: int = 0
    description: str = ""

    def to_object(self) -> dict[str, Any]:
        """Return the entry of ``additionalPrinterColumns``."""
        entry: dict[str, Any] = {"name": self.name, "type": self.type, "jsonPath": self.path}
        if self.description:
            entry["description"] = self.description
        if self.priority:
            entry["priority"] = self.priority
        return entry


@dataclass(frozen=True, kw_only=True)
class Resource:
    """How one model is served."""

    model: type[KubeObject]
    plural: str
    short_names: tuple[str, ...]
    namespaced: bool
    columns: tuple[Column, ...]


AGE: Final = Column(name="Age", type="date", path=".metadata.creationTimestamp")
