"""`windlass import kcm`: what moves over, and that nothing is left out in silence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from domain.servicesets.manifests import MANIFESTS, manifests
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from windlass.cli.importing.conversion import KINDS, Credentials, convert
from windlass.cli.main import run
from windlass.domain.servicesets import models

NOBODY = Credentials({})


def called(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as end:
        run(["import", "kcm", *words])
    out, err = capsys.readouterr()
    return int(end.value.code or 0), out, err


def kcm(kind: str, name: str = "edge", namespace: str = "prod", **parts: Any) -> dict[str, Any]:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": "k0rdent.mirantis.com/v1beta1", "kind": kind, "metadata": metadata, **parts}


@pytest.mark.parametrize("kind", MANIFESTS)
def test_what_people_write_moves_over(kind: str) -> None:
    found = convert(MANIFESTS[kind], NOBODY)
    assert found.object is not None, found.notes
    expected = json.loads(json.dumps(MANIFESTS[kind]["spec"]))
    if kind == "ServiceSet":
        del expected["provider"]["config"]  # null
    made = {key: value for key, value in found.object["spec"].items() if key != "kubeconfigSecret"}
    assert (found.object["apiVersion"], made) == ("windlass.dev/v1alpha1", expected)


def test_a_field_without_a_counterpart_is_left_out_with_a_note() -> None:
    spec = {"ipamClaim": {"ref": "a"}, "propagateCredentials": True, "serviceSpec": {"services": [{"name": "a"}]}}
    spec["serviceSpec"] = {"services": [{"name": "a", "template": "t", "colour": "red", "values": None}]}
    found = convert(kcm("ClusterDeployment", spec=spec, extra=1), NOBODY)
    assert found.object is not None
    assert found.object["spec"]["serviceSpec"] == {"services": [{"name": "a", "template": "t"}]}
    assert [note for note in found.notes if "no counterpart" in note] == [
        "spec.ipamClaim: left out, it has no counterpart",
        "spec.propagateCredentials: left out, it has no counterpart",
        "spec.serviceSpec.services[0].colour: left out, it has no counterpart",
        "extra: left out, it has no counterpart",
    ]


def test_metadata_of_others_is_left_out_with_a_note() -> None:
    document = kcm("ServiceTemplateChain", spec={}, status={"valid": True})
    document["metadata"] |= {
        "uid": "u",
        "finalizers": ["f"],
        "labels": {"a": "b"},
        "annotations": {
            "kubectl.kubernetes.io/last-applied-configuration": "{}",
            "k0rdent.mirantis.com/service-set-paused": "",
            "team": "x",
        },
    }
    found = convert(document, NOBODY)
    assert found.object is not None
    assert found.object["metadata"] == {
        "name": "edge",
        "namespace": "prod",
        "labels": {"a": "b"},
        "annotations": {"k0rdent.mirantis.com/service-set-paused": "", "team": "x"},
    }
    assert found.notes == (
        "metadata.uid: left out, the API server writes them",
        "metadata.finalizers: left out, it belongs to K0rdent",
        "metadata.annotations[kubectl.kubernetes.io/last-applied-configuration]: left out, kubectl writes it",
        "metadata.annotations[k0rdent.mirantis.com/service-set-paused]: kept, Windlass does not read it",
        "status: left out, since Windlass reports its own",
    )


@pytest.mark.parametrize(
    ("identity", "secret"), [({"kind": "Secret", "name": "edge-kube"}, "edge-kube"), ({}, "edge-kubeconfig")]
)
def test_how_a_cluster_is_reached(identity: dict[str, str], secret: str) -> None:
    credentials = Credentials.among(iter([kcm("Credential", "mine", spec={"identityRef": identity})]))
    found = convert(kcm("ClusterDeployment", spec={"credential": "mine", "template": "adopted"}), credentials)
    assert found.object is not None
    assert found.object["spec"]["kubeconfigSecret"] == {"name": secret, "key": "value"}
    assert any(note.startswith(f"spec.kubeconfigSecret: added, Secret {secret}") for note in found.notes)


def test_labels_of_a_cluster_that_selectors_do_not_read_have_a_note() -> None:
    found = convert(kcm("ClusterDeployment", spec={"config": {"clusterLabels": {"stage": "prod"}}}), NOBODY)
    assert [note for note in found.notes if note.startswith("spec.config.clusterLabels: selectors")]


def test_a_template_that_cannot_be_delivered_yet_has_a_note() -> None:
    source = {"localSourceRef": {"kind": "GitRepository", "name": "x"}, "path": "./base"}
    found = convert(kcm("ServiceTemplate", spec={"kustomize": source}), NOBODY)
    assert found.notes == (
        "kept, and not valid for now: spec.kustomize comes from a Git repository, which Windlass does not deliver yet",
    )


def test_the_label_of_the_management_cluster_has_a_note() -> None:
    selector = {"matchLabels": {"k0rdent.mirantis.com/management-cluster": "true"}}
    found = convert(kcm("MultiClusterService", namespace="", spec={"clusterSelector": selector}), NOBODY)
    assert [note for note in found.notes if "selfManagement" in note]


@pytest.mark.parametrize(
    ("document", "note"),
    [
        (kcm("ServiceTemplate", spec={"version": 3}), "spec.version: input should be a valid string"),
        (kcm("ServiceTemplateChain", name="", spec={}), "metadata.name: is missing"),
        (
            kcm("MultiClusterService", namespace="", spec={"serviceSpec": {"services": [{"name": "A b"}]}}),
            "spec.serviceSpec.services[0].name: string should match pattern",
        ),
        (kcm("ClusterDeployment", "edge-${SUFFIX}", spec={}), "metadata.name: 'edge-${SUFFIX}' is no name"),
        (kcm("ClusterDeployment", namespace="${NAMESPACE}", spec={}), "metadata.namespace: '${NAMESPACE}' is no name"),
        (kcm("ClusterTemplate", spec={}), "the kind has no counterpart"),
        (kcm("ServiceTemplateChain", spec=[1]), "spec: is no object"),
    ],
)
def test_an_object_that_cannot_be_one_is_left_out_with_a_note(document: dict[str, Any], note: str) -> None:
    found = convert(document, NOBODY)
    assert found.object is None
    assert any(one.startswith(note) for one in found.notes), found.notes


def paths(value: Any, path: str = "spec") -> set[str]:
    """Every field below ``value`` that says something."""
    if isinstance(value, dict):
        inner = {f"{path}.{key}": item for key, item in value.items() if item is not None}
        return {one for at, item in inner.items() for one in (at, *paths(item, at))}
    if isinstance(value, list):
        return {one for number, item in enumerate(value) for one in paths(item, f"{path}[{number}]")}
    return set()


@settings(suppress_health_check=[HealthCheck.too_slow], max_examples=30)
@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
def test_every_field_moves_over_or_has_a_note(kind: str, data: st.DataObject) -> None:
    document = {**data.draw(manifests(getattr(models, kind))), "kind": kind}
    found = convert(document, NOBODY)
    if found.object is None:
        assert found.notes
        return
    spec = document.get("spec") or {}
    kept = paths(found.object["spec"])
    noted = {note.partition(": ")[0] for note in found.notes}
    for path in paths(spec):
        assert path in kept or any(path == one or path.startswith((f"{one}.", f"{one}[")) for one in noted), path


def test_a_folder_with_all_that_a_repository_holds(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    clusters = tmp_path / "clusters" / "eu"
    clusters.mkdir(parents=True)
    items = [kcm("ClusterDeployment", spec={}), kcm("ServiceTemplate", "t", spec={"version": "1.0.0"})]
    listed = {"apiVersion": "v1", "kind": "List", "items": items}
    (clusters / "edge.json").write_text(json.dumps(listed))
    (tmp_path / "values.yaml").write_text("replicas: 1\n")
    (tmp_path / "other.yml").write_text("apiVersion: v1\nkind: Namespace\nmetadata: {name: a}\n")
    (tmp_path / "chart.yaml").write_text("{{- if .x }}\napiVersion: v1\n{{ end }}\n")
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "x.yaml").write_text(yaml.safe_dump(kcm("ClusterDeployment")))
    code, out, err = called(capsys, str(tmp_path))
    assert [one["kind"] for one in yaml.safe_load_all(out)] == ["ClusterDeployment", "ServiceTemplate"]
    assert (
        f"{clusters}/edge.json, document 1, item 1: ClusterDeployment prod/edge\n  spec.kubeconfigSecret: added" in err
    )
    assert err.splitlines()[-1] == (
        "2 of 2 objects of k0rdent.mirantis.com converted, 0 left out; 1 objects of other groups skipped"
    )
    assert code == 0


def test_a_file_that_names_k0rdent_and_cannot_be_read_is_told(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "chart.yaml").write_text("{{- if .x }}\napiVersion: k0rdent.mirantis.com/v1beta1\n{{ end }}\n")
    code, out, err = called(capsys, str(tmp_path))
    assert (code, out) == (1, "")
    assert "chart.yaml: not read: line 1" in err


def test_the_others_are_written_though_one_is_wrong(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    documents = [kcm("ServiceTemplateChain", spec={}), kcm("ServiceTemplateChain", "b", spec=[1])]
    documents[1]["spec"] = {"supportedTemplates": [{"name": 3}]}
    (tmp_path / "a.yaml").write_text(yaml.safe_dump_all(documents))
    code, _, err = called(capsys, str(tmp_path), "--output-file", str(tmp_path / "out.yaml"))
    assert code == 1
    assert "ServiceTemplateChain prod/b left out\n  spec.supportedTemplates[0].name: input should be" in err
    assert [one["metadata"]["name"] for one in yaml.safe_load_all((tmp_path / "out.yaml").read_text())] == ["edge"]


@pytest.mark.parametrize(
    ("words", "problem"),
    [(["gone"], "gone: does not exist"), ([".", "--output-file", "no/out.yaml"], "cannot be written: No such file")],
)
def test_a_call_that_is_wrong(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: list[str],
    problem: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = called(capsys, *words)
    assert (code, out) == (1, "")
    assert problem in err
