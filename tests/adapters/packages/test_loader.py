from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.packages import entry, package_yaml, write_tgz, write_tree
from windlass.adapters.packages.format.files import MAX_FILE
from windlass.adapters.packages.format.loader import load
from windlass.domain.errors import Actor, PermanentError, Reason
from windlass.domain.ids import Kind

SCHEMA = "type: object\nproperties: {a: {type: integer}}\n"


def package(root: Path, **files: str | bytes) -> Path:
    return write_tree(root, {"package.yaml": package_yaml(), **{n.replace("__", "/"): f for n, f in files.items()}})


def refused(root: Path) -> str:
    with pytest.raises(PermanentError) as caught:
        load(root)
    assert caught.value.reason is Reason.LOAD_FAILED
    assert caught.value.actor is Actor.AUTHOR
    return str(caught.value)


def test_a_full_package(tmp_path: Path) -> None:
    files: dict[str, str | bytes] = {
        "package.yaml": package_yaml(requirements={"kubernetes": ">=1.28", "deckhouse": "^1.60"}),
        "values.yaml": "webapp: {a: 1}\n",
        "openapi/settings.yaml": SCHEMA,
        "openapi/values.yaml": SCHEMA,
        "images_digests.json": '{"api": "sha256:aa"}',
        "templates/a.yaml": "kind: ConfigMap\n",
    }
    loaded = load(write_tree(tmp_path, files))
    assert (loaded.definition.kubernetes, loaded.definition.platform) == (">=1.28", "^1.60")
    assert loaded.static_values == {"a": 1}
    assert loaded.settings_schema == loaded.values_schema
    assert loaded.images == {"api": "sha256:aa"}
    assert loaded.has_chart
    assert not loaded.chart_has_hooks


def test_a_minimal_package(tmp_path: Path) -> None:
    loaded = load(package(tmp_path))
    assert (loaded.static_values, loaded.settings_schema, loaded.values_schema) == ({}, None, None)
    assert (loaded.images, loaded.hook_files, loaded.has_chart) == ({}, (), False)
    assert loaded.definition.kubernetes == ""


def test_no_definition(tmp_path: Path) -> None:
    assert "package.yaml: is missing" in refused(tmp_path)
    (tmp_path / "package.yaml").write_text("")
    assert "is empty" in refused(tmp_path)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("webapp: {a: 1}\nother: 2\n", {"a": 1}),
        ("a: 1\n", {"a": 1}),
        ("webapp: text\na: 1\n", {"webapp": "text", "a": 1}),
        ("", {}),
        ("\ufeffa: 1\n", {"a": 1}),
        ('{"a": 1}', {"a": 1}),
        ("a: 1\na: 2\n", {"a": 2}),  # from here on as Helm, which reads this file, too; lint refuses it
        ("a: 1\n---\nb: 2\n", {"a": 1}),
        ("a: !!python/object/apply:os.system [x]\n", {"a": ["x"]}),
        ("day: 2024-01-01\n", {"day": "2024-01-01"}),
    ],
)
def test_static_values(tmp_path: Path, text: str, values: dict[str, object]) -> None:
    assert load(package(tmp_path, **{"values.yaml": text})).static_values == values


def test_static_values_may_be_utf_16_as_for_helm(tmp_path: Path) -> None:
    assert load(package(tmp_path, **{"values.yaml": "a: 1\n".encode("utf-16")})).static_values == {"a": 1}


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("a: 1\na: 2\n", "line 2, column 1 (byte 5): a key stands twice in one mapping ('a')"),
        ("a: 1\n---\na: 2\n", "2 documents"),
    ],
)
def test_files_that_only_we_read_are_read_strictly(tmp_path: Path, content: str, says: str) -> None:
    message = refused(package(tmp_path, **{"openapi__settings.yaml": content}))
    assert "openapi/settings.yaml: " in message
    assert says in message


def test_settings_schema_has_two_names_and_the_new_one_wins(tmp_path: Path) -> None:
    old = "type: object\nproperties: {old: {type: string}}\n"
    legacy = load(package(tmp_path, **{"openapi__config-values.yaml": old}))
    assert legacy.settings_schema is not None
    assert "old" in legacy.settings_schema["properties"]
    both = load(package(tmp_path, openapi__settings=b"", **{"openapi__settings.yaml": SCHEMA}))
    assert both.settings_schema is not None
    assert "a" in both.settings_schema["properties"]
    (tmp_path / "openapi/settings.yaml").write_text("")
    assert load(tmp_path).settings_schema is None, "an empty file is no schema, and still wins"


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"a: [1\n", "line 2"),
        (b"a: 1\nb: \xff\n", "values.yaml: line 2, column 4 (byte 8): is not UTF-8"),
        (b"\xff\xfea\0:", "values.yaml: line 1, column 2 (byte 4): is not UTF-16"),
        (b"a: 1\nb: x\0y\n", "line 2, column 5"),
        (b"- 1\n", "holds a list, not a mapping"),
        (b"a: .inf\n", "infinities"),
        (b"? [1, 2]\n: 3\n", "values.yaml"),
        (b"a: " + b"[" * 5000 + b"]" * 5000, "nested too deeply"),
        (
            b"a: &a [x, x]\n" + b"".join(b"%c: &%c [*%c, *%c]\n" % (i, i, i - 1, i - 1) for i in range(98, 122)),
            "more than",
        ),
        (b"a: &a {b: *a}\n", "values.yaml"),
        (b"# " + b"x" * MAX_FILE, f"at most {MAX_FILE} are allowed"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_bad_yaml_names_file_and_place(tmp_path: Path, content: bytes, says: str) -> None:
    message = refused(package(tmp_path, **{"values.yaml": content}))
    assert says in message
    assert "values.yaml" in message
    assert len(message) < 1000


def test_bad_schemas_name_file_and_place(tmp_path: Path) -> None:
    bad = "type: object\nproperties: {a: {type: integre}}\n"
    assert "openapi/settings.yaml at /properties/a/type" in refused(
        package(tmp_path, **{"openapi__settings.yaml": bad})
    )


def test_images_are_texts(tmp_path: Path) -> None:
    assert "images_digests.json: api: not text" in refused(package(tmp_path, **{"images_digests.json": '{"api": 1}'}))


def test_hook_files(tmp_path: Path) -> None:
    found = ["hooks/b.sh", "hooks/a/z", "hooks/a.py", "hooks/B"]
    others = [f"hooks/{name}" for name in ("lib/x", "a/lib/x", "venv/x", ".git/x", "a/.b/x", ".x", "c.yaml", "c.json")]
    others += ["hooks/c.md", "hooks/c.txt", "templates/x"]
    plain = {"hooks/plain.sh": "not executable"}
    write_tree(tmp_path, dict.fromkeys((*found, *others), "x"), executable=(*found, *others))
    write_tree(tmp_path, plain)
    assert load(package(tmp_path)).hook_files == ("hooks/B", "hooks/a.py", "hooks/a/z", "hooks/b.sh")


@pytest.mark.parametrize(
    ("text", "carries"),
    [
        ('annotations:\n  "helm.sh/hook": pre-install\n', True),
        ("annotations: {helm.sh/hook: post-upgrade}\n", True),
        ('{{ $a := dict "helm.sh/hook" $when }}\n', True),
        ("{{ printf `%s` (`helm.sh/hook`) }}: x\n", True),
        ('"helm.sh/hook": test\n"helm.sh/hook": pre-delete\n', True),
        ('annotations:\n  "helm.sh/hook": test\n', False),
        ("annotations:\n  helm.sh/hook: test-success\n", False),
        ('"helm.sh/hook-weight": "1"\n', False),
        ('"helm.sh/resource-policy": keep\n', False),
    ],
)
@pytest.mark.parametrize(
    "place", ["templates/a.yaml", "charts/sub/templates/b.tpl", "crds/c.yaml", "openapi/values.yaml"]
)
def test_helm_hooks_are_found(tmp_path: Path, text: str, carries: bool, place: str) -> None:
    content = f"x-note: |\n  {text!r}\n" if place.startswith("openapi") else text
    if place.startswith("openapi") and not carries:
        return
    write_tree(package(tmp_path), {place: content})
    assert load(tmp_path).chart_has_hooks is carries


def test_helm_hooks_in_packed_subcharts(tmp_path: Path) -> None:
    package(tmp_path)
    write_tgz(tmp_path / "charts/one.tgz", [entry("one/templates/a.yaml", b"plain")])
    assert not load(tmp_path).chart_has_hooks
    write_tgz(tmp_path / "charts/two.tgz", [entry("two/templates/a.yaml", b'"helm.sh/hook": pre-install\n')])
    assert load(tmp_path).chart_has_hooks
    (tmp_path / "charts/two.tgz").unlink()
    write_tgz(tmp_path / "charts/nested.tgz", [entry("nested/charts/deep.tgz", b"whatever")])
    assert load(tmp_path).chart_has_hooks


def test_broken_and_hostile_subcharts(tmp_path: Path) -> None:
    package(tmp_path)
    (tmp_path / "charts").mkdir()
    (tmp_path / "charts/one.tgz").write_bytes(b"no archive")
    assert "charts/one.tgz: " in refused(tmp_path)
    write_tgz(tmp_path / "charts/one.tgz", [entry("zeros", bytes(40 << 20))])
    assert "times its size" in refused(tmp_path)


def test_docs_and_hooks_may_speak_of_helm_hooks(tmp_path: Path) -> None:
    package(tmp_path)
    write_tree(tmp_path, {"README.md": "helm.sh/hook: pre-install", "hooks/a.sh": "helm.sh/hook: pre-install"})
    assert not load(tmp_path).chart_has_hooks


# -- modules -----------------------------------------------------------------------------------------------------------

LEGACY = "name: my-module\nweight: 10\nrequirements: {kubernetes: '>=1.28', deckhouse: '^1.60'}\n"


def module(root: Path, definition: str = "module.yaml", *, executable: tuple[str, ...] = (), **files: str) -> Path:
    text = LEGACY if definition == "module.yaml" else package_yaml(type="Module", name="my-module")
    named = {name.replace("__", "/"): content for name, content in files.items()}
    return write_tree(root, {definition: text, **named}, executable=executable)


@pytest.mark.parametrize("definition", ["package.yaml", "module.yaml"])
def test_a_full_module(tmp_path: Path, definition: str) -> None:
    files = {
        "values.yaml": "myModule: {a: 1}\nmyModuleEnabled: true\n",
        "openapi/settings.yaml": SCHEMA,
        "openapi/values.yaml": SCHEMA,
        "images_digests.json": '{"api": "sha256:aa"}',
        "templates/a.yaml": "kind: ConfigMap\n",
        "hooks/a.sh": "#!/bin/sh\n",
        "enabled": "#!/bin/sh\n",
    }
    loaded = load(module(tmp_path, definition, executable=("hooks/a.sh", "enabled"), **files))
    assert (loaded.definition.name, loaded.definition.type) == ("my-module", Kind.MODULE)
    assert (loaded.static_values, loaded.scoped) == ({"a": 1}, True)
    assert loaded.settings_schema == loaded.values_schema
    assert loaded.images == {"api": "sha256:aa"}
    assert (loaded.has_chart, loaded.hook_files, loaded.enabled_script) == (True, ("hooks/a.sh",), True)


def test_a_minimal_module(tmp_path: Path) -> None:
    loaded = load(write_tree(tmp_path, {"module.yaml": "name: my-module\n"}))
    assert (loaded.static_values, loaded.scoped, loaded.settings_schema, loaded.values_schema) == (
        {},
        False,
        None,
        None,
    )
    assert (loaded.images, loaded.hook_files, loaded.has_chart, loaded.enabled_script) == ({}, (), False, False)


def test_the_new_definition_wins_over_the_legacy_one(tmp_path: Path) -> None:
    module(tmp_path, "module.yaml")
    module(tmp_path, "package.yaml")
    assert load(tmp_path).definition.version == "1.0.0"


def test_a_legacy_modules_settings_schema(tmp_path: Path) -> None:
    loaded = load(module(tmp_path, **{"openapi__config-values.yaml": SCHEMA}))
    assert loaded.settings_schema is not None


def test_an_enabled_script_counts_for_modules_that_can_run_it(tmp_path: Path) -> None:
    assert not load(module(tmp_path, enabled="#!/bin/sh\n")).enabled_script
    (tmp_path / "enabled").chmod(0o755)
    assert load(tmp_path).enabled_script
    (tmp_path / "package.yaml").write_text(package_yaml())
    assert not load(tmp_path).enabled_script


def conversion(version: int, *programs: str) -> str:
    return f"version: {version}\nconversions: {json.dumps(programs)}\ndescription: {{en: 'x', ru: 'y'}}\n"


def test_conversions_in_order(tmp_path: Path) -> None:
    files = {
        "openapi/conversions/v10.yaml": "",
        **{f"openapi/conversions/v{n}.yaml": conversion(n, f".v = {n}") for n in range(2, 11)},
        "openapi/conversions/README.md": "none",
    }
    loaded = load(write_tree(module(tmp_path), files))
    assert [one.version for one in loaded.conversions] == list(range(2, 11))
    assert loaded.conversions[0].programs == (".v = 2",)


@pytest.mark.parametrize(
    ("files", "says"),
    [
        ({"v3.yaml": conversion(3, ".")}, "openapi/conversions/v3.yaml: v2.yaml is missing"),
        ({"v1.yaml": conversion(1, ".")}, "openapi/conversions/v1.yaml: v2.yaml is missing"),
        ({"v2.yaml": conversion(3, ".")}, "v2.yaml: version: is not 2"),
        ({"v2.yaml": ""}, "v2.yaml: version: is not 2"),
        ({"v2.yaml": "version: 2\nconversions: []\n"}, "v2.yaml: conversions: is not a list of texts"),
        ({"v2.yaml": "version: 2\nconversions: [1]\n"}, "v2.yaml: conversions: is not a list of texts"),
    ],
)
def test_conversions_without_gaps(tmp_path: Path, files: dict[str, str], says: str) -> None:
    write_tree(module(tmp_path), {f"openapi/conversions/{name}": text for name, text in files.items()})
    assert says in refused(tmp_path)


@pytest.mark.parametrize(
    ("files", "found"),
    [
        ({}, None),
        ({"values.schema.json": '{"required": ["a"]}'}, {"required": ["a"]}),
        ({"values.schema.json": '{"required": ["a"]}', "charts/db/Chart.yaml": "name: db"}, None),
        ({"values.schema.json": "{"}, None),
        ({"values.schema.json": "true"}, None),
    ],
    ids=["none", "one", "subcharts", "broken", "boolean"],
)
def test_a_charts_own_schema_is_read_where_it_can_be_applied_alone(
    tmp_path: Path, files: dict[str, str], found: dict[str, object] | None
) -> None:
    chart = {"Chart.yaml": "{apiVersion: v2, name: web, version: 1.0.0}", **files}
    assert load(write_tree(tmp_path / "plain", chart)).chart_schema == found
    assert load(write_tree(tmp_path / "own", {**chart, "package.yaml": package_yaml()})).chart_schema == found
