"""A route, and the objects that it wants. Pure."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from windlass.domain.errors import PermanentError, Reason


@dataclass(frozen=True, kw_only=True)
class Route:
    """What an entity of the bucket `routes` says.

    Attributes:
        key: of the entity; name of its objects.
        host: that clients ask for.
        namespace: of the objects.
        port: of the Service.
        target_port: of the pods.
        selector: labels of the pods.
        paths: that lead there.
    """

    key: str
    host: str
    namespace: str
    port: int
    target_port: int
    selector: dict[str, str]
    paths: tuple[str, ...]

    @classmethod
    def from_document(cls, key: str, document: dict[str, Any]) -> Route:
        """Read a route.

        Raises:
            PermanentError: VALIDATION_FAILED, says which field; nothing of the route is changed until it is corrected.
        """
        spec = document.get("spec")
        if not isinstance(spec, dict):
            raise _invalid(key, "spec is missing")
        try:
            route = cls(
                key=key,
                host=str(spec["host"]),
                namespace=str(spec.get("namespace", "default")),
                port=int(spec.get("port", 80)),
                target_port=int(spec.get("targetPort", 8080)),
                selector={str(name): str(value) for name, value in dict(spec["selector"]).items()},
                paths=tuple(str(path) for path in spec.get("paths", ["/"])),
            )
        except KeyError as error:
            raise _invalid(key, f"spec.{error.args[0]} is missing") from None
        except (TypeError, ValueError) as error:
            raise _invalid(key, f"spec: {error}") from None
        if not route.selector:
            raise _invalid(key, "spec.selector is empty")
        return route

    def service(self) -> dict[str, Any]:
        """Return the Service in front of the pods."""
        return {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": self.key, "namespace": self.namespace},
            "spec": {
                "selector": self.selector,
                "ports": [{"name": "http", "port": self.port, "targetPort": self.target_port, "protocol": "TCP"}],
            },
        }

    def config_map(self) -> dict[str, Any]:
        """Return what a gateway has to know."""
        upstream = f"http://{self.key}.{self.namespace}.svc:{self.port}"
        content = {"host": self.host, "paths": list(self.paths), "upstream": upstream}
        return {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": f"{self.key}-route", "namespace": self.namespace},
            "data": {"route.json": json.dumps(content, indent=2)},
        }


def _invalid(key: str, why: str) -> PermanentError:
    return PermanentError(Reason.VALIDATION_FAILED, f"route {key}: {why}", hint="put the route again, corrected")
