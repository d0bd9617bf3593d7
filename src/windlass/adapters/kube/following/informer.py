"""`ports.Source` over the Kubernetes API: the objects of one kind, for the informers of controllers."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

from windlass.adapters.kube.following.reflector import Listed, list_and_watch
from windlass.domain.entities import Operation
from windlass.ports.entities import Changed, Item, News, OnError, Picture
from windlass.ports.kube import ListWatch, Object


class KubeObjects:
    """The objects of one kind, selected by namespace and labels, without ``metadata.managedFields``.

    Args:
        kube: lists and watches.
        api_version: of the kind.
        kind: of the objects.
        namespace: empty for all.
        label_selector: such as `windlass.controllerruntime.selector` returns.
    """

    def __init__(
        self, kube: ListWatch, api_version: str, kind: str, *, namespace: str = "", label_selector: str = ""
    ) -> None:
        self._kube = kube
        self._api_version = api_version
        self._kind = kind
        self._namespace = namespace
        self._selector = label_selector

    @property
    def name(self) -> str:
        """For people."""
        return f"{self._kind} in {self._namespace}" if self._namespace else self._kind

    async def follow(self, on_error: OnError, *, content: bool = True) -> AsyncGenerator[News]:
        """See `ports.Source`; never fails for good: rights and kinds that are missing may still come."""
        stream = list_and_watch(
            self._kube,
            self._api_version,
            self._kind,
            namespace=self._namespace,
            label_selector=self._selector,
            metadata_only=not content,
            on_error=on_error,
        )
        async with aclosing(stream):
            async for event in stream:
                if isinstance(event, Listed):
                    yield Picture(items=tuple(map(self._item, event.items)))
                elif event.type == "DELETED":
                    yield Changed(item=self._item(event.object), operation=Operation.DELETE)
                elif event.type != "BOOKMARK":
                    yield Changed(item=self._item(event.object), operation=Operation.PUT)

    def _item(self, obj: Object) -> Item:
        # Who manages which field is half of an object, and nothing that a controller reads.
        metadata = {name: value for name, value in obj["metadata"].items() if name != "managedFields"}
        namespace, name = metadata.get("namespace"), metadata["name"]
        return Item(
            key=f"{namespace}/{name}" if namespace else name,
            version=str(metadata["resourceVersion"]),
            # Items of a list do not say what they are.
            document={**obj, "metadata": metadata, "apiVersion": self._api_version, "kind": self._kind},
        )
