"""Versions of services (kcm.md section 2: ResolveServiceVersions)."""

from __future__ import annotations

from typing import Any, cast

import pytest
from domain.servicesets.words import NAMESPACE, reported, stored, template, wanted

from windlass.domain.servicesets.snapshot import key_of
from windlass.domain.servicesets.versions import is_deployed, is_downgrade
from windlass.servicesets import (
    Service,
    ServiceTemplate,
    ServiceWithValues,
    TemplateNotFoundError,
    resolve_service_versions,
)

TEMPLATES = {
    key_of(item): item
    for item in (
        template("1.2.0", name="chart"),
        template("1.2.0", name="both", version="2.0.0"),
        ServiceTemplate.from_object(
            {"metadata": {"namespace": NAMESPACE, "name": "plain"}, "spec": {"kustomize": {"path": "x"}}}
        ),
        ServiceTemplate.from_object({"metadata": {"namespace": "other", "name": "elsewhere"}}),
    )
}


@pytest.mark.parametrize(
    ("template_name", "version", "resolved"),
    [
        ("both", "", "2.0.0"),
        ("chart", "", "1.2.0"),
        ("plain", "", "plain"),
        ("chart", "9.9.9", "9.9.9"),
        ("no such", "9.9.9", "9.9.9"),
        ("", "", ""),
    ],
)
@pytest.mark.parametrize("model", [Service, ServiceWithValues])
def test_resolve(model: type[Service | ServiceWithValues], template_name: str, version: str, resolved: str) -> None:
    service = model(name="a", template=template_name, version=version)
    (found,) = resolve_service_versions(TEMPLATES, NAMESPACE, [service])
    assert type(found) is model
    assert found.version == resolved
    assert service.version == version


def test_the_first_missing_template_stops() -> None:
    services = [Service(name=name, template=name) for name in ("chart", "x", "y")]
    with pytest.raises(TemplateNotFoundError) as missing:
        resolve_service_versions(TEMPLATES, NAMESPACE, services)
    assert missing.value.template == (NAMESPACE, "x")
    assert missing.value.service == ("default", "x")
    assert "prod/x of service default/x does not exist" in str(missing.value)


def test_templates_of_other_namespaces_do_not_count() -> None:
    with pytest.raises(TemplateNotFoundError):
        resolve_service_versions(TEMPLATES, NAMESPACE, [Service(name="a", template="elsewhere")])


def test_other_types_are_refused() -> None:
    with pytest.raises(TypeError, match="unsupported type str"):
        resolve_service_versions(TEMPLATES, NAMESPACE, cast("Any", ["a"]))


@pytest.mark.parametrize(
    ("state", "deployed"),
    [
        (None, False),
        (reported("a", "Deployed", "1.0.0"), True),
        (reported("a", "Deployed", "1.0.0", template="t-1-0-0"), True),
        (reported("a", "Deployed", "1.0.0", template="hotfix"), False),
        (reported("a", "Deployed", "0.9.0"), False),
        (reported("a", "Deployed"), False),
        (reported("a", "Provisioning", "1.0.0"), False),
        (reported("a", "Failed", "1.0.0"), False),
        (reported("a", "SomethingNew", "1.0.0"), False),
    ],
)
def test_deployed_is_deployed_as_stored(state: Any, deployed: bool) -> None:
    assert is_deployed(stored("a", "1.0.0"), state) is deployed


@pytest.mark.parametrize(
    ("template_name", "version", "deployed"),
    [("t", "", True), ("t", "1.0.0", True), ("u", "1.0.0", False), ("", "t", True), ("", "", False)],
)
def test_without_a_stored_version_templates_are_compared(template_name: str, version: str, deployed: bool) -> None:
    state = reported("a", "Deployed", version, template=template_name)
    assert is_deployed(ServiceWithValues(name="a", template="t"), state) is deployed


@pytest.mark.parametrize(
    ("old", "new", "downgrade"),
    [
        ("1.10.0", "1.9.0", True),
        ("1.9.0", "1.10.0", False),
        ("1.9.0", "1.9.0", False),
        ("v2.0.0", "1.0.0", True),
        ("2.0.0", "2.0.0-rc.1", True),
        ("nightly", "1.0.0", False),
        ("1.0.0", "nightly", False),
        ("b", "a", False),
        ("2024.01.05", "2023.12.31", True),
        ("2024.01.05", "2024.01.06", False),
        ("2024.1.5", "2024.01.05", False),
        ("v2024.010", "2024.09", True),
        ("1.0.0-rc.01", "0.9.0", False),
    ],
)
def test_downgrades_are_those_of_semantic_versions(old: str, new: str, downgrade: bool) -> None:
    assert is_downgrade(stored("a", old), wanted("a", new)) is downgrade
