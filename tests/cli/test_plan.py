"""`windlass plan`: what it prints for the example fleet, and what it says of files that are wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final
from xml.etree import ElementTree as ET

import pytest
import yaml

from windlass.cli.main import run

FLEET: Final = Path(__file__).parents[2] / "examples" / "fleet"
CHAIN: Final = FLEET / "chain.yaml"
IMAGE: Final = Path(__file__).parents[2] / "docs" / "images" / "chain.svg"
AT: Final = ["--at", "2026-06-01T12:00:00", "--approval-time", "1h"]
ROUTE: Final = ["--from", "ingress-1-0", "--to", "ingress-2-1"]


def called(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as end:
        run(["plan", *words])
    out, err = capsys.readouterr()
    return int(end.value.code or 0), out, err


def test_the_route_through_a_chain(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = called(capsys, "chain", str(CHAIN), *ROUTE)
    assert code == 0
    first, _, *templates = out.splitlines()
    assert first == (
        "4 steps: ingress-1-0 -> ingress-1-1 (1.1.0) -> ingress-1-2 (1.2.0) -> ingress-2-0 (2.0.0)"
        " -> ingress-2-1 (2.1.0)"
    )
    assert templates[0] == "* ingress-1-0 -> ingress-1-2 (1.2.0), ingress-1-1 (1.1.0)"
    assert "  ingress-1-2-lts" in templates


def test_a_chain_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = called(capsys, "chain", str(CHAIN), *ROUTE, "-o", "json")
    document = json.loads(out)
    assert code == 0
    assert [step["version"] for step in document["route"]] == ["1.1.0", "1.2.0", "2.0.0", "2.1.0"]
    assert document["problems"] == []
    assert len(document["routes"]) == 5


def test_no_route_is_exit_code_1(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = called(capsys, "chain", str(CHAIN), "--from", "ingress-2-0", "--to", "ingress-1-1", "-o", "json")
    assert (code, json.loads(out)["route"]) == (1, None)


def test_the_picture_in_the_docs_is_what_the_command_draws(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code, _, _ = called(capsys, "chain", str(CHAIN), *ROUTE, "--svg", str(tmp_path / "chain.svg"))
    drawn = (tmp_path / "chain.svg").read_text()
    assert code == 0
    assert drawn == IMAGE.read_text(), "draw it anew, as docs/servicesets.md says"
    svg = ET.fromstring(drawn)  # noqa: S314 - our own
    name = "{http://www.w3.org/2000/svg}"
    texts = [one.text for one in svg.iter(f"{name}text")]
    assert {"ingress-1-0", "ingress-1-2-lts", "2.1.0"} <= set(texts)
    assert sum("way" in one.get("class", "") for one in svg.findall(f"{name}path")) == 4
    assert sum("on" in one.get("class", "").split() for one in svg.iter(f"{name}rect")) == 5
    boxes = [one for one in svg.iter(f"{name}rect") if "box" in one.get("class", "")]
    assert len({(one.get("x"), one.get("y")) for one in boxes}) == 6


def test_a_fleet_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = called(capsys, "fleet", str(FLEET), *AT, "-o", "wide")
    assert code == 0
    assert out.startswith("10 services on 5 clusters, 22 steps; the last one ends 2026-06-02 02:39 UTC, 14h39m after")
    for text in ("1 (canary)", "Approval 1h", "waits for the window", "ingress-1-2 -> ingress-2-0", "CRITICAL PATH"):
        assert text in out


def test_a_fleet_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = called(capsys, "fleet", str(FLEET), *AT, "-o", "yaml")
    document: dict[str, Any] = yaml.safe_load(out)
    assert document["complete"] is True
    assert [one["clusters"] for one in document["waves"]] == [
        ["fleet/lab"],
        ["fleet/berlin", "fleet/madrid"],
        ["fleet/boston", "fleet/denver"],
    ]
    parts = document["criticalPath"]
    assert (parts[0]["since"], parts[-1]["until"]) == (document["now"], document["ends"])
    steps = document["clusters"][0]["services"][0]["steps"]
    assert [(one["to"], one["seconds"], one["samples"]) for one in steps][2] == ("ingress-2-0", 1200.0, 2)


def test_a_picture_that_cannot_be_written(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code, out, err = called(capsys, "chain", str(CHAIN), *ROUTE, "--svg", str(tmp_path / "no" / "chain.svg"))
    assert (code, out) == (1, "")
    assert "chain.svg: cannot be written: No such file or directory" in err


def test_what_kubectl_prints_of_a_fleet_is_planned_as_the_files_are(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    objects = [one for file in sorted(FLEET.glob("*.yaml")) for one in yaml.safe_load_all(file.read_text()) if one]
    text = json.dumps({"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": ""}, "items": objects})
    (tmp_path / "fleet.json").write_text(text)
    at = [*AT, "-o", "wide"]
    assert called(capsys, "fleet", str(tmp_path), *at) == called(capsys, "fleet", str(FLEET), *at)


def test_one_reason_for_many_services_is_told_once(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = called(capsys, "fleet", str(FLEET / "clusters.yaml"))
    assert [row.partition("  ")[0] for row in out.splitlines() if "ingress-2-1 of service" in row] == [
        "fleet/lab ingress/ingress, fleet/lab monitoring/monitoring, fleet/berlin ingress/ingress, and 7 more"
    ]
    _, out, _ = called(capsys, "fleet", str(FLEET / "clusters.yaml"), "-o", "wide")
    assert out.count("ingress-2-1 of service") == 10


def test_what_has_no_part_in_a_plan_is_left_out_and_counted(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    others = ["v1, kind: Namespace", "source.toolkit.fluxcd.io/v1, kind: HelmRepository", "v1, kind: Namespace",
              "windlass.dev/v1alpha1, kind: Application"]  # fmt: skip
    text = [f"{{apiVersion: {one}, metadata: {{name: other}}}}\n" for one in others]
    (tmp_path / "f.yaml").write_text("---\n".join([CLUSTER, *text]))
    code, out, _ = called(capsys, "fleet", str(tmp_path / "f.yaml"))
    assert code == 0
    assert out.splitlines()[-1] == "left out: 1 Application, 1 HelmRepository, 2 Namespace"


SELF = """\
{apiVersion: windlass.dev/v1alpha1, kind: ServiceTemplate, metadata: {namespace: sys, name: t}, spec: {version: 1.0.0}}
---
apiVersion: windlass.dev/v1alpha1
kind: MultiClusterService
metadata: {name: m}
spec: {serviceSpec: {provider: {selfManagement: true}, services: [{name: s, template: t}]}}
"""


def test_the_management_cluster_alone(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "f.yaml").write_text(SELF)
    words = ["fleet", str(tmp_path / "f.yaml"), "--system-namespace", "sys", "-o", "json"]
    document = json.loads(called(capsys, *words)[1])
    assert [(one["name"], one["outcome"]) for one in document["clusters"]] == [("management", "Deployed")]
    assert [one["reason"] for one in document["invalid"]] == ["TemplateInvalid"]
    _, out, _ = called(capsys, "fleet", str(tmp_path / "f.yaml"))
    assert "ServiceTemplate windlass-system/t of service default/s does not exist" in out


def test_what_validation_refuses_is_told(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "f.yaml").write_text(SELF)
    _, out, _ = called(capsys, "fleet", str(tmp_path / "f.yaml"), "--system-namespace", "sys")
    [row] = [row for row in out.splitlines() if row.startswith("MultiClusterService m")]
    assert "ServiceTemplate sys/t of service default/s is not valid: its spec names none of helm" in row


CLUSTER = "{apiVersion: windlass.dev/v1alpha1, kind: ClusterDeployment, metadata: {namespace: f, name: a}}\n"


def owner(name: str, policy: str) -> str:
    head = f"apiVersion: windlass.dev/v1alpha1, kind: MultiClusterService, metadata: {{name: {name}}}"
    return f"---\n{{{head}, spec: {{rollout: {{{policy}}}}}}}\n"


def rollout(policy: str) -> str:
    return CLUSTER + owner("r", policy)


@pytest.mark.parametrize(
    ("text", "problem", "hint"),
    [
        ("", "f.yaml: holds no ClusterDeployment", "add the clusters"),
        ("{apiVersion: v1, kind: Pod, metadata: {name: a}}", "f.yaml: holds no ClusterDeployment", "add the clusters"),
        ("{apiVersion: windlass.dev/v1alpha1, kind: Credential, metadata: {name: a}}",
         "f.yaml, document 1: kind Credential has no part", "it takes"),
        ("{apiVersion: x.dev/v1, kind: ClusterDeploymnt, metadata: {name: a}}",
         "f.yaml, document 1: kind ClusterDeploymnt has no part", "did you mean ClusterDeployment?"),
        (CLUSTER + "---\n" + CLUSTER, "document 2: ClusterDeployment f/a is in", "leave one of them out"),
        (CLUSTER[:-2] + ", spec: {serviceSpec: {services: [{name: 3}]}}}",
         "document 1: spec.serviceSpec.services[0].name: input should be a valid string", "correct the field"),
        (rollout("waves: [0]"), "MultiClusterService r: spec.rollout.waves[0]: with none at all", "correct the field"),
        (rollout("soak: soon, canary: 1.5"), "spec.rollout.canary: write a number of clusters (3) or a percentage",
         "correct the fields"),
        (rollout("windows: [{schedule: '0 25 * * *', duration: 1h}]"), "spec.rollout.windows[0].schedule: '0 25",
         "correct the field"),
        (rollout("windows: [{schedule: '0 2 * * *', duration: 1h, timeZone: Mars}]"), "'Mars' is no time zone",
         "correct the field"),
        (rollout("maxConcurent: 3"), "spec.rollout.maxConcurent: extra inputs are not permitted", "correct the field"),
        (rollout("canarySelector: {matchLabels: {a: b}}"), "canarySelector picks none of the clusters",
         "label a cluster"),
        (CLUSTER + "---\n{apiVersion: windlass.dev/v1alpha1, kind: Rollout, metadata: {name: r}}",
         "document 2: there is no kind Rollout", "write it as spec.rollout of the MultiClusterService"),
        (rollout("waves: [1]") + owner("s", "waves: [2]"), "spec.rollout differs between r, s", "--rollout NAME"),
        ("a: [", "f.yaml: line 1", "correct the text"),
    ],
)  # fmt: skip
def test_a_fleet_that_is_wrong(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, text: str, problem: str, hint: str
) -> None:
    (tmp_path / "f.yaml").write_text(text)
    code, out, err = called(capsys, "fleet", str(tmp_path / "f.yaml"))
    assert (code, out) == (1, "")
    assert problem in err
    assert hint in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--rollout", "x"], "holds no MultiClusterService x with spec.rollout"),
        (["--step-time", "soon"], "--step-time: 'soon' is no duration"),
        (["--approval-time", "1 hour"], "--approval-time: '1 hour' is no duration"),
    ],
)
def test_a_fleet_that_is_asked_wrongly(capsys: pytest.CaptureFixture[str], words: list[str], problem: str) -> None:
    code, _, err = called(capsys, "fleet", str(FLEET), *words)
    assert code == 1
    assert problem in err


def test_of_several_rollouts_one_is_named(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "f.yaml").write_text(rollout("canary: 1") + owner("s", "waves: [2]"))
    code, out, _ = called(capsys, "fleet", str(tmp_path / "f.yaml"), "--rollout", "r")
    assert (code, "1 (canary)" in out) == (0, True)


def test_what_a_plan_does_not_heed_is_said(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "f.yaml").write_text(CLUSTER.rstrip()[:-1] + ", spec: {rollout: {approval: EveryStep}}}\n")
    code, out, _ = called(capsys, "fleet", str(tmp_path / "f.yaml"))
    assert (code, "left out: 1 spec.rollout of a ClusterDeployment" in out) == (0, True)


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--from", "ingress-1", "--to", "ingress-2-1"], "--from ingress-1 is not in spec.supportedTemplates"),
        (["--from", "ingress-1-0", "--to", "x"], "--to x is not in spec.supportedTemplates"),
        ([*ROUTE, "--chain", "other"], "holds no ServiceTemplateChain other"),
    ],
)
def test_a_chain_that_is_asked_wrongly(capsys: pytest.CaptureFixture[str], words: list[str], problem: str) -> None:
    code, _, err = called(capsys, "chain", str(CHAIN), *words)
    assert code == 1
    assert problem in err
    assert str(CHAIN) in err


def test_of_several_chains_one_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = called(capsys, "chain", str(FLEET), *ROUTE)
    assert code == 1
    assert "holds 2 chains: ingress, monitoring" in err
    assert called(capsys, "chain", str(FLEET), *ROUTE, "--chain", "ingress")[0] == 0


def test_a_time_that_is_none(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = called(capsys, "fleet", str(FLEET), "--at", "noon")
    assert code == 1
    assert "--at: 'noon' is no time" in err
