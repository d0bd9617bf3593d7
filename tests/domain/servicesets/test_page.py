"""docs/servicesets.md is true: its objects are read and its Python is run, block by block."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from domain.servicesets.words import brief

from windlass import servicesets
from windlass.domain.servicesets.models import ServiceObject
from windlass.servicesets import ClusterDeployment, ServiceSet, ServiceSetError

PAGE: Final = Path(__file__).parents[3] / "docs" / "servicesets.md"
OTHERS: Final = "\n## Chains and routes"
"""From here on other tests tell the examples of the page."""

BLOCK: Final = re.compile(r"^```(python|yaml)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
TITLE: Final = re.compile(r"# (objects|cluster|stored): (.*)\n")


class Page:
    """What the page has said so far, and the words that its examples use."""

    def __init__(self) -> None:
        self.objects: list[ServiceObject] = []
        self.clusters: dict[str, ClusterDeployment] = {}
        self.service_sets: dict[str, ServiceSet] = {}
        self.scope: dict[str, Any] = {
            "objects": self.objects,
            "clusters": self.clusters,
            "service_sets": self.service_sets,
            "shown": lambda decision: brief(decision.service_set.spec.services),
            "told": lambda decision: [hold.message for hold in decision.holds],
            "refused": refused,
        }

    def take(self, text: str) -> None:
        title = TITLE.match(text)
        assert title is not None, f"a block of YAML says what it is: {text[:60]}"
        kind, name = title.groups()
        documents = list(yaml.safe_load_all(text))
        match kind:
            case "objects":
                self.objects += [getattr(servicesets, one["kind"]).from_object(one) for one in documents]
            case "cluster":
                self.clusters[name] = ClusterDeployment.from_object(documents[0])
            case _:
                self.service_sets[name] = service_set_of(**documents[0])


def service_set_of(services: list[Any], status: list[Any]) -> ServiceSet:
    spec = {"cluster": "edge", "provider": {"name": "ksm-projectsveltos", "config": {}}, "services": services}
    metadata = {"namespace": "prod", "name": "edge", "resourceVersion": "7"}
    return ServiceSet.from_object({"metadata": metadata, "spec": spec, "status": {"services": status}})


def refused(decide: Callable[[str], object], cluster: str) -> tuple[type[ServiceSetError], str]:
    with pytest.raises(ServiceSetError) as error:
        decide(cluster)
    return type(error.value), error.value.message


def test_every_example_of_the_page_is_true() -> None:
    page = Page()
    blocks = BLOCK.findall(PAGE.read_text())
    first, _, _ = PAGE.read_text().partition(OTHERS)
    count = 0
    for language, text in blocks:
        if text not in first:
            continue
        count += 1
        if language == "yaml":
            page.take(text)
        else:
            line = PAGE.read_text()[: PAGE.read_text().index(text)].count("\n")
            exec(compile("\n" * line + text, str(PAGE), "exec"), page.scope)  # noqa: S102 - our own page
    assert count > 15


def test_the_page_names_things_that_are_there() -> None:
    text, _, _ = PAGE.read_text().partition(OTHERS)
    named = set(re.findall(r"`([A-Za-z]+Errors?|validate_\w+)`", text))
    assert len(named) > 10
    assert named <= set(servicesets.__all__)
