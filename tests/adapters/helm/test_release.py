"""One release from its first install to its uninstall, on a real API server."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest
from adapters.helm.scenes import FIRST, OWNER, SECOND, Charts, Cluster, Requests, config_map, many

from support.ledgers import RememberingHelm
from support.waiting import eventually
from windlass.domain.errors import Actor, PermanentError, Reason
from windlass.ports.helm import ReleaseRef
from windlass.ports.kube import ObjectRef

pytestmark = pytest.mark.stack


async def test_installs_and_says_what_it_made(
    helm: RememberingHelm, cluster: Cluster, chart: Charts, request_for: Requests
) -> None:
    outcome = await helm.upgrade(request_for(chart(config_map("a")), value="grün ✓"))

    assert (outcome.action, outcome.healed, outcome.release.revision) == ("installed", "", 1)
    assert outcome.objects == (cluster.ref("a"),)
    stored = await cluster.config_map("a")
    assert stored is not None
    assert stored["data"] == {"value": "grün ✓"}


async def test_reads_back_what_is_stored(
    helm: RememberingHelm, ref: ReleaseRef, chart: Charts, request_for: Requests, cluster: Cluster
) -> None:
    assert await helm.release(ref) is None
    assert await helm.manifest(ref) is None
    await helm.upgrade(request_for(chart(config_map("a")), value="1"))

    release = await helm.release(ref)

    assert release is not None
    assert (release.revision, release.status, release.applied) == (1, "deployed", FIRST)
    assert (release.chart, release.chart_version) == ("web", "1.10.0")
    stored = await helm.manifest(ref)
    assert stored is not None
    assert list(stored.objects) == [cluster.ref("a")]


async def test_unchanged_means_no_helm_operation_at_all(
    helm: RememberingHelm, cluster: Cluster, chart: Charts, request_for: Requests
) -> None:
    request = request_for(chart(config_map("a"), many(8)), value="1")
    first = await helm.upgrade(request)

    again = await helm.upgrade(request)

    assert again.action == "unchanged"
    assert again.objects == first.objects
    assert await cluster.revisions() == [(1, "deployed")]


async def test_upgrades_when_one_value_differs(
    helm: RememberingHelm, cluster: Cluster, chart: Charts, request_for: Requests
) -> None:
    folder = chart(config_map("a"))
    await helm.upgrade(request_for(folder, value="1"))

    outcome = await helm.upgrade(request_for(folder, SECOND, value="2"))

    assert (outcome.action, outcome.release.revision, outcome.release.applied) == ("upgraded", 2, SECOND)
    stored = await cluster.config_map("a")
    assert stored is not None
    assert stored["data"] == {"value": "2"}


async def test_a_value_taken_back_is_gone(
    helm: RememberingHelm, cluster: Cluster, chart: Charts, request_for: Requests
) -> None:
    folder = chart(config_map("a", value='{{ .Values.value | default "default" }}'))
    await helm.upgrade(request_for(folder, value="mine"))

    await helm.upgrade(request_for(folder, SECOND))

    stored = await cluster.config_map("a")
    assert stored is not None
    assert stored["data"] == {"value": "default"}


@pytest.mark.parametrize("gone", ["a", "many-3"])  # found by a read of its own, found by one list for all of a kind
async def test_brings_back_an_absent_object(
    helm: RememberingHelm, cluster: Cluster, chart: Charts, request_for: Requests, gone: str
) -> None:
    request = request_for(chart(*([config_map("a")] if gone == "a" else [many(8)])), value="1")
    await helm.upgrade(request)
    await cluster.delete(gone)

    outcome = await helm.upgrade(request)

    assert outcome.action == "upgraded"
    assert await cluster.config_map(gone) is not None


async def test_an_object_without_helms_label_is_not_absent(
    helm: RememberingHelm, cluster: Cluster, chart: Charts, request_for: Requests
) -> None:
    request = request_for(chart(many(8)), value="1")
    await helm.upgrade(request)
    unlabel = {"metadata": {"labels": {"app.kubernetes.io/managed-by": None}}}
    await cluster.kube.patch(cluster.ref("many-2"), unlabel, kind="merge")

    assert (await helm.upgrade(request)).action == "unchanged"


async def test_history_is_bounded(
    helm: RememberingHelm, cluster: Cluster, chart: Charts, request_for: Requests
) -> None:
    folder = chart(config_map("a"))
    for number in range(5):
        await helm.upgrade(replace(request_for(folder, f"sha256:{number:064}", value=str(number)), history_max=3))

    assert await cluster.revisions() == [(3, "superseded"), (4, "superseded"), (5, "deployed")]


async def test_uninstall_names_what_to_wait_for_and_may_be_repeated(
    helm: RememberingHelm, cluster: Cluster, ref: ReleaseRef, chart: Charts, request_for: Requests
) -> None:
    kept = config_map("kept", annotations="helm.sh/resource-policy: keep")
    await helm.upgrade(request_for(chart(config_map("a"), kept), value="1"))

    assert await helm.uninstall(ref, owner=OWNER) == (cluster.ref("a"),)
    assert await helm.uninstall(ref, owner=OWNER) == ()

    assert await cluster.config_map("a") is None
    assert await cluster.config_map("kept") is not None
    assert await cluster.revisions() == []


async def test_cluster_scoped_objects_and_those_of_other_namespaces_are_told_apart(
    helm: RememberingHelm, ref: ReleaseRef, chart: Charts, request_for: Requests
) -> None:
    role = (
        f"apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {{name: {ref.namespace}}}\nrules: []\n"
    )
    elsewhere = f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {ref.namespace}, namespace: default}}\n"
    request = request_for(chart(role, elsewhere))

    outcome = await helm.upgrade(request)

    assert set(outcome.objects) == {
        ObjectRef(api_version="rbac.authorization.k8s.io/v1", kind="ClusterRole", name=ref.namespace),
        ObjectRef(api_version="v1", kind="ConfigMap", namespace="default", name=ref.namespace),
    }
    assert (await helm.upgrade(request)).action == "unchanged"
    await helm.uninstall(ref, owner=OWNER)


async def test_a_chart_without_chart_yaml_gets_one(
    helm: RememberingHelm, ref: ReleaseRef, chart: Charts, request_for: Requests
) -> None:
    folder = chart(config_map("a"))
    (folder / "Chart.yaml").unlink()

    outcome = await helm.upgrade(request_for(folder, value="1"))

    assert (outcome.action, outcome.release.chart) == ("installed", ref.name)
    assert not (folder / "Chart.yaml").exists()


async def test_values_of_a_megabyte_pass(
    helm: RememberingHelm, cluster: Cluster, chart: Charts, request_for: Requests
) -> None:
    big = "0123456789abcdef" * 65_536

    await helm.upgrade(request_for(chart(config_map("a", value="{{ len .Values.value | quote }}")), value=big))

    stored = await cluster.config_map("a")
    assert stored is not None
    assert stored["data"] == {"value": str(len(big))}


async def test_what_does_not_fit_into_helms_record_is_the_authors_to_mend(
    helm: RememberingHelm, chart: Charts, request_for: Requests
) -> None:
    incompressible = os.urandom(1_000_000).hex()

    with pytest.raises(PermanentError, match="1 MiB compressed") as caught:
        await helm.upgrade(request_for(chart(config_map("a", value="1")), value=incompressible))

    assert caught.value.actor is Actor.AUTHOR
    assert incompressible[:64] not in str(caught.value)


async def test_objects_of_somebody_else_are_a_conflict_and_stay_theirs(
    helm: RememberingHelm, cluster: Cluster, chart: Charts, request_for: Requests
) -> None:
    theirs = chart(config_map("a", value="theirs"), name="theirs")
    cluster.by_hand("install", "theirs", str(theirs))

    with pytest.raises(PermanentError) as caught:
        await helm.upgrade(request_for(chart(config_map("a", value="ours"))))

    assert caught.value.reason is Reason.RELEASE_CONFLICT
    assert "theirs" in caught.value.message
    stored = await cluster.config_map("a")
    assert stored is not None
    assert stored["data"] == {"value": "theirs"}


async def test_renders_without_touching_the_cluster(
    helm: RememberingHelm, cluster: Cluster, chart: Charts, request_for: Requests
) -> None:
    text = await helm.render(request_for(chart(config_map("a")), value="seen"))

    assert 'value: "seen"' in text
    assert await cluster.revisions() == []


async def test_a_kind_that_has_just_come_is_known_to_the_next_release(
    helm: RememberingHelm, cluster: Cluster, ref: ReleaseRef, chart: Charts, request_for: Requests
) -> None:
    group = f"{ref.namespace}.example.com"
    crd = f"""
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {{name: toys.{group}}}
spec:
  group: {group}
  scope: Namespaced
  names: {{plural: toys, singular: toy, kind: Toy}}
  versions: [{{name: v1, served: true, storage: true, schema: {{openAPIV3Schema: {{type: object}}}}}}]
"""
    asks = chart(
        config_map("asks", value=f'{{{{ .Capabilities.APIVersions.Has "{group}/v1/Toy" | quote }}}}'), name="asks"
    )
    toy = chart(f"apiVersion: {group}/v1\nkind: Toy\nmetadata: {{name: bear}}\n", name="toy")
    definition = ObjectRef(api_version="apiextensions.k8s.io/v1", kind="CustomResourceDefinition", name=f"toys.{group}")

    async def established() -> bool:
        found = await cluster.kube.get(definition)
        conditions = (found or {}).get("status", {}).get("conditions", [])
        return any(each["type"] == "Established" and each["status"] == "True" for each in conditions)

    async def asked() -> str:
        stored = await cluster.config_map("asks")
        assert stored is not None
        return stored["data"]["value"]

    await helm.upgrade(request_for(asks))
    assert await asked() == "false"

    await helm.upgrade(replace(request_for(chart(crd, name="crd")), ref=replace(ref, name="crd")))
    await eventually(established)
    await helm.upgrade(request_for(asks, SECOND))
    outcome = await helm.upgrade(replace(request_for(toy), ref=replace(ref, name="toy")))

    assert await asked() == "true"
    assert [each.kind for each in outcome.objects] == ["Toy"]
    await helm.uninstall(replace(ref, name="crd"), owner=OWNER)
