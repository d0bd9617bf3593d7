from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.domain.errors import Actor, PermanentError, Reason
from windlass.domain.ids import Kind
from windlass.domain.packages.definition import check_kind, parse_definition
from windlass.domain.packages.model import Definition, ModuleGroup

LEAST = {"type": "Application", "name": "webapp", "version": "1.0.0"}


def test_the_least() -> None:
    definition = parse_definition(LEAST)
    assert (definition.name, definition.version, definition.type) == ("webapp", "1.0.0", "Application")
    assert (definition.kubernetes, definition.platform, definition.modules) == ("", "", {})


def test_the_early_form() -> None:
    definition = parse_definition(
        LEAST
        | {
            "apiVersion": "v1",
            "stage": "GA",
            "descriptions": {"en": "A page.", "ru": "Страница."},
            "requirements": {
                "kubernetes": ">=1.28",
                "deckhouse": "^1.60",
                "modules": {"ingress": ">=1.0", "monitoring": ">=2.0 !optional", "any": "!optional"},
            },
            "disable": {"confirmation": True, "message": "Data is lost."},
            "licensing": {"editions": {}},
        }
    )
    assert definition.stage == "GA"
    assert definition.descriptions["ru"] == "Страница."
    assert (definition.kubernetes, definition.platform) == (">=1.28", "^1.60")
    assert definition.modules == {"ingress": ">=1.0"}
    assert definition.optional_modules == {"monitoring": ">=2.0", "any": ""}
    assert (definition.disable_confirmation, definition.disable_message) == (True, "Data is lost.")
    assert definition.extra == {"licensing": {"editions": {}}}


def test_the_later_form() -> None:
    requirements = {
        "kubernetes": {"constraint": ">=1.28"},
        "deckhouse": {},
        "modules": {
            "mandatory": [{"name": "ingress", "constraint": ">=1.0"}, {"name": "both"}],
            "conditional": [{"name": "monitoring"}, {"name": "both", "constraint": ">=9"}],
        },
    }
    definition = parse_definition(LEAST | {"requirements": requirements})
    assert (definition.kubernetes, definition.platform) == (">=1.28", "")
    assert definition.modules == {"ingress": ">=1.0", "both": ""}
    assert definition.optional_modules == {"monitoring": ""}


@pytest.mark.parametrize(
    ("disable", "message"),
    [
        ({"messages": {"ru": "Да", "en": "Yes"}}, "Yes"),
        ({"messages": {"ru": "Да"}}, "Да"),
        ({"message": "Old", "messages": {"en": "New"}}, "Old"),
        (None, ""),
    ],
)
def test_what_is_said_before_disabling(disable: dict[str, Any] | None, message: str) -> None:
    assert parse_definition(LEAST | {"disable": disable}).disable_message == message


def test_groups_of_modules() -> None:
    members = [{"name": "ceph", "constraint": ">=1"}, {"name": "nfs"}]
    group = {"name": "storage", "description": "one of", "modules": members}
    definition = parse_definition(
        LEAST | {"requirements": {"modules": {"anyOf": [group], "noneOf": [{"name": "old"}]}}}
    )
    assert definition.any_of == (ModuleGroup(name="storage", description="one of", modules={"ceph": ">=1", "nfs": ""}),)
    assert definition.none_of == (ModuleGroup(name="old"),)


def test_what_only_modules_say() -> None:
    fields = {"weight": 10, "critical": True, "exclusiveGroup": "cni"}
    module = parse_definition({**LEAST, "type": "Module", **fields})
    assert (module.type, module.weight, module.critical, module.exclusive_group) == (Kind.MODULE, 10, True, "cni")
    application = parse_definition(LEAST | fields)
    assert (application.type, application.weight) == (Kind.APPLICATION, 0)
    assert application.extra == fields


def test_a_module_need_not_say_its_type() -> None:
    assert parse_definition({"name": "ingress", "version": "1.0.0"}).type is Kind.MODULE


def test_the_legacy_form() -> None:
    definition = parse_definition(
        {
            "name": "ingress",
            "weight": 402,
            "stage": "Experimental",
            "description": "Traffic.",
            "requirements": {
                "deckhouse": ">=1.60",
                "bootstrapped": True,
                "parentModules": {"cert-manager": ">=1.2", "prometheus": ">=2 !optional"},
                "modules": {"cni": ""},
            },
        },
        "module.yaml",
    )
    assert (definition.name, definition.version, definition.type) == ("ingress", "0.0.0", Kind.MODULE)
    assert (definition.weight, definition.platform, definition.stage) == (402, ">=1.60", "Experimental")
    assert definition.modules == {"cert-manager": ">=1.2", "cni": ""}
    assert definition.optional_modules == {"prometheus": ">=2"}
    assert definition.extra == {"description": "Traffic."}


@pytest.mark.parametrize(
    ("version", "read"), [("1.2.3", "1.2.3"), ("v1.2.3", "1.2.3"), ("latest", "0.0.0"), (None, "0.0.0")]
)
def test_the_version_of_a_legacy_module(version: str | None, read: str) -> None:
    assert parse_definition({"name": "ingress", "version": version}, "module.yaml").version == read


def test_faults_of_the_legacy_form_name_its_file() -> None:
    with pytest.raises(PermanentError, match=r"^module\.yaml, requirements\.modules\.a: "):
        parse_definition({"name": "ingress", "requirements": {"modules": {"a": "x y"}}}, "module.yaml")


@pytest.mark.parametrize(
    ("type_", "kind", "fits"),
    [
        (Kind.MODULE, Kind.MODULE, True),
        (None, Kind.MODULE, True),
        (None, Kind.APPLICATION, True),
        (Kind.MODULE, Kind.APPLICATION, False),
        (Kind.APPLICATION, Kind.MODULE, False),
    ],
)
def test_a_package_is_installed_by_its_own_kind(type_: Kind | None, kind: Kind, fits: bool) -> None:
    definition = Definition(name="a", version="1.0.0", type=type_)
    if fits:
        check_kind(definition, kind)
        return
    with pytest.raises(PermanentError, match=f"the package is of type {type_}, the object of kind {kind}"):
        check_kind(definition, kind)


def test_the_platform_has_two_names() -> None:
    assert parse_definition(LEAST | {"requirements": {"platform": ">=1"}}).platform == ">=1"


@pytest.mark.parametrize(
    ("fields", "place", "says"),
    [
        ({"type": "Chart"}, "type", "'Chart'"),
        ({"name": None}, "name", "is missing"),
        ({"name": ""}, "name", "is empty"),
        ({"name": "Web App"}, "name", "not a DNS label"),
        ({"name": "global"}, "name", "is taken"),
        ({"name": "x" * 64}, "name", "not a DNS label"),
        ({"version": 1.1}, "version", "is a number"),
        ({"version": "v1.0.0"}, "version", "exact"),
        ({"version": "1.0"}, "version", "exact"),
        ({"apiVersion": 1}, "apiVersion", "is a number"),
        ({"stage": True}, "stage", "is a boolean"),
        ({"descriptions": []}, "descriptions", "is a list"),
        ({"descriptions": {"en": 1}}, "descriptions.en", "is a number"),
        ({"requirements": []}, "requirements", "is a list"),
        ({"requirements": 0}, "requirements", "is a number"),
        ({"requirements": {"kubernets": ">=1"}}, "requirements.kubernets", "not known"),
        ({"requirements": {"kubernetes": 1.28}}, "requirements.kubernetes", "is a number"),
        ({"requirements": {"kubernetes": "new"}}, "requirements.kubernetes", "'new'"),
        ({"requirements": {"kubernetes": {"min": "1"}}}, "requirements.kubernetes.min", "not known"),
        ({"requirements": {"kubernetes": {"constraint": "?"}}}, "requirements.kubernetes.constraint", "'?'"),
        ({"requirements": {"modules": {"a": 1}}}, "requirements.modules.a", "is a number"),
        ({"requirements": {"modules": {"a": "x y"}}}, "requirements.modules.a", "not understood"),
        ({"requirements": {"modules": {"anyOf": [1]}}}, "requirements.modules.anyOf[0]", "is a number"),
        (
            {"requirements": {"modules": {"noneOf": [{"modules": [{"name": "a", "constraint": "x y"}]}]}}},
            "requirements.modules.noneOf[0].modules[0].constraint",
            "not understood",
        ),
        ({"type": "Module", "weight": -1}, "weight", "is a number"),
        ({"type": "Module", "critical": "yes"}, "critical", "is text"),
        ({"requirements": {"parentModules": {}}}, "requirements.parentModules", "not known"),
        ({"requirements": {"modules": {"mandatory": [1]}}}, "requirements.modules.mandatory[0]", "is a number"),
        ({"requirements": {"modules": {"mandatory": [{}]}}}, "requirements.modules.mandatory[0].name", "missing"),
        ({"requirements": {"modules": {"mandatory": [], "x": ""}}}, "requirements.modules.x", "not known"),
        ({"requirements": {"modules": {"mandatory": [], "conditional": {}}}}, "modules.conditional", "is a mapping"),
        ({"requirements": {"platform": "1", "deckhouse": "1"}}, "requirements.deckhouse", "beside platform"),
        ({"disable": {"messages": {"en": 1}}}, "disable.messages.en", "is a number"),
        ({"disable": {"confirmation": "yes"}}, "disable.confirmation", "is text"),
        ({"hooks": {"batch": True}}, "hooks.batch", "not served"),
    ],
)
def test_what_is_wrong_is_named(fields: dict[str, Any], place: str, says: str) -> None:
    with pytest.raises(PermanentError) as caught:
        parse_definition({key: value for key, value in (LEAST | fields).items() if value is not None})
    error = caught.value
    assert (error.reason, error.actor) == (Reason.LOAD_FAILED, Actor.AUTHOR)
    assert error.message.startswith("package.yaml, ")
    assert f"{place}: " in error.message
    assert says in error.message
    assert error.hint


@pytest.mark.parametrize("document", [None, [], "text", 1])
def test_a_document_of_another_kind(document: object) -> None:
    with pytest.raises(PermanentError, match=r"package\.yaml is "):
        parse_definition(document)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
    max_leaves=8,
)
fields = st.sampled_from(["type", "name", "version", "requirements", "disable", "descriptions", "hooks", "stage"])


@given(st.dictionaries(fields, json_values))
def test_any_document_is_read_or_refused(document: dict[str, Any]) -> None:
    try:
        parse_definition(LEAST | document)
    except PermanentError as error:
        assert error.reason is Reason.LOAD_FAILED  # noqa: PT017 - both outcomes are right
