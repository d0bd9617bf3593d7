"""Objects and hooks by which a tenant reaches for what is somebody else's."""

from __future__ import annotations

import json
from typing import Any

import pytest

from support import rights
from support.attacks import Scene, at
from support.clusters import store_kubeconfig
from support.installation import CONFIG_MAP, write_greeter, write_package
from support.rights import plain, refused
from support.running import packages
from support.waiting import eventually
from windlass.adapters.kube.kubeconfig import ApiAccess
from windlass.adapters.targets.kubeconfig import render
from windlass.domain.ids import API_VERSION, FINALIZER, INSTALLATION_LABEL
from windlass.ports.kube import Object, ObjectRef

SECRET = "neighbours-secret"


def application(scene: Scene, name: str = "attack", **spec: Any) -> Object:
    """Return an Application of the tenant; ``spec`` replaces fields."""
    package = {"repository": f"repo-{scene.admin.name}", "name": "greeter", "version": "1.0.0"}
    metadata = {"name": name, "namespace": scene.namespace, "labels": {INSTALLATION_LABEL: scene.admin.name}}
    return {
        "apiVersion": API_VERSION,
        "kind": "Application",
        "metadata": metadata,
        "spec": {"package": package} | spec,
    }


PLACES = [
    {"valuesFrom": [{"kind": "Secret", "name": "NEIGHBOUR/theirs"}]},
    {"valuesFrom": [{"kind": "Secret", "name": "../../NEIGHBOUR/secrets/theirs"}]},
    {"valuesFrom": [{"kind": "Secret", "name": "..%2f..%2fNEIGHBOUR%2fsecrets%2ftheirs"}]},
    {"valuesFrom": [{"kind": "Secret", "name": "theirs", "key": "../password"}]},
    {"target": {"cluster": {"kubeconfigSecret": {"name": "NEIGHBOUR/theirs"}}}},
    {"target": {"serviceAccountName": "NEIGHBOUR/default"}},
    {"target": {"serviceAccountName": "NEIGHBOUR:default"}},
    {"package": {"repository": "none", "name": "../../../../etc", "version": "1.0.0"}},
    {"package": {"repository": "none", "name": "greeter", "version": "../../../../etc"}},
    {"releaseName": "../theirs"},
]


@pytest.mark.parametrize("spec", PLACES, ids=lambda spec: json.dumps(spec)[:60])
async def test_names_lead_nowhere_else(scene: Scene, spec: dict[str, Any]) -> None:
    asked = json.loads(json.dumps(spec).replace("NEIGHBOUR", scene.neighbour))
    await refused(lambda: scene.person.apply(application(scene, **asked), field_manager="attack", dry_run=True))


async def test_a_namespace_that_is_not_mentioned_cannot_be_mentioned(scene: Scene) -> None:
    """Fields that the definition does not know are refused, not passed on."""
    for spec in (
        {"valuesFrom": [{"kind": "Secret", "name": "theirs", "namespace": scene.neighbour}]},
        {"target": {"cluster": {"kubeconfigSecret": {"name": "theirs", "namespace": scene.neighbour}}}},
    ):
        attempt = application(scene, **spec)
        await refused(lambda attempt=attempt: scene.person.apply(attempt, field_manager="attack", dry_run=True))


async def test_the_own_account_does_nothing_in_another_namespace(scene: Scene) -> None:
    await scene.admin.kube.create(plain("ServiceAccount", scene.namespace, "mine"))
    target = {"serviceAccountName": "mine", "namespace": scene.neighbour}
    await scene.tenant.application("abroad", "greeter", "1.0.0", target=target, releaseName="theirs")
    failure = await scene.failed("abroad")
    assert failure["reason"] == "Forbidden"
    assert f"service account mine in {scene.namespace}" in failure["message"]
    await scene.unharmed()


@pytest.mark.parametrize("namespace", ["NEIGHBOUR", "windlass-system", "kube-system"])
async def test_the_own_cluster_by_way_of_a_kubeconfig_gives_no_more_than_its_user_has(
    scene: Scene, namespace: str
) -> None:
    known = scene.admin.kube.access
    await scene.admin.kube.apply(plain("ServiceAccount", scene.namespace, "around"), field_manager="tests")
    token = await rights.token(scene.admin.kube, scene.namespace, "around")
    text = render(ApiAccess(server=known.server, ca_pem=known.ca_pem, token=token))
    await store_kubeconfig(scene.tenant, "around", text)
    into = namespace.replace("NEIGHBOUR", scene.neighbour)
    name = f"around-{namespace.lower()}"
    target = {"cluster": {"kubeconfigSecret": {"name": "around"}}, "namespace": into}
    await scene.tenant.application(name, "greeter", "1.0.0", target=target, releaseName="theirs")
    failure = await scene.failed(name)
    assert failure["reason"] == "Forbidden"
    assert "the user of the kubeconfig in Secret around" in failure["message"]
    await scene.unharmed()


async def test_nobody_asks_for_actions_on_a_neighbours_package(scene: Scene) -> None:
    theirs = rights.package("Application", "shop", scene.neighbour)
    await scene.admin.kube.create(theirs)
    there = rights.request("pause", "shop", scene.neighbour)
    await refused(lambda: scene.person.create(there))
    for name in (f"{scene.neighbour}/shop", f"{scene.neighbour}.shop"):
        here = rights.request("pause", name, scene.namespace)
        try:
            made = await scene.person.create(here)
        except Exception:  # noqa: BLE001, S112 - refused by the definition already
            continue
        ref = ObjectRef(
            api_version=API_VERSION, kind="ActionRequest", namespace=scene.namespace, name=made["metadata"]["name"]
        )

        async def answered(ref: ObjectRef = ref) -> Object | None:
            found = await scene.admin.kube.get(ref)
            return (found or {}).get("status") or None

        status = await eventually(answered, what=f"an answer to the request about {name}")
        assert status is not None
        assert status.get("accepted") is not True
    found = await scene.admin.kube.get(
        ObjectRef(api_version=API_VERSION, kind="Application", namespace=scene.neighbour, name="shop")
    )
    assert found is not None
    assert "Paused" not in str(found.get("status"))
    await scene.unharmed()


async def test_what_windlass_says_of_a_package_is_not_written_by_others(scene: Scene) -> None:
    ref = scene.admin.package_ref("honest")
    forged = {"status": {"seen": {"uid": "x", "generation": 99, "digest": "x"}, "phase": "Running"}}
    for verb in ("patch", "update"):
        assert not await rights.allowed(scene.person, verb, "applications/status.windlass.dev", scene.namespace)
    await scene.person.patch(ref, forged, kind="merge")  # a plain write drops the status
    found = await scene.admin.object("honest")
    assert found is not None
    assert found["status"]["seen"]["uid"] == found["metadata"]["uid"]


async def test_without_its_finalizer_a_package_is_replaced_and_inherits_nothing(scene: Scene) -> None:
    write_greeter(packages(scene.admin), "2.0.0")
    await scene.tenant.application("twice", "greeter", "1.0.0", settings={"greeting": "first"})
    before = await scene.admin.ready("twice")
    ref = scene.tenant.package_ref("twice")
    await scene.person.patch(ref, {"metadata": {"finalizers": None}}, kind="merge")
    await scene.person.delete(ref)
    await scene.tenant.application("twice", "greeter", "2.0.0")
    after = await scene.admin.ready("twice", "2.0.0")
    assert after["metadata"]["uid"] != before["metadata"]["uid"]
    made = await scene.admin.get("ConfigMap", "twice")
    assert made is not None
    assert made["data"] == {"version": "2.0.0", "greeting": "hello"}
    await scene.unharmed()


async def test_a_finalizer_of_somebody_else_holds_up_its_own_object_only(scene: Scene) -> None:
    await scene.tenant.application("stuck", "greeter", "1.0.0")
    await scene.admin.ready("stuck")
    ref = scene.tenant.package_ref("stuck")
    found = await scene.admin.object("stuck")
    assert found is not None
    mine = [*found["metadata"]["finalizers"], "attack.example.dev/mine"]
    await scene.person.patch(ref, {"metadata": {"finalizers": mine}}, kind="merge")
    await scene.person.delete(ref)

    async def ours_is_gone() -> bool:
        obj = await scene.admin.object("stuck")
        return obj is not None and FINALIZER not in obj["metadata"]["finalizers"]

    await eventually(ours_is_gone)
    assert await scene.admin.get("ConfigMap", "stuck") is None
    await scene.unharmed()
    await scene.person.patch(ref, {"metadata": {"finalizers": None}}, kind="merge")


async def test_the_account_that_is_taken_away_is_made_again(scene: Scene) -> None:
    account = rights.account_ref(scene.namespace, "windlass-application")
    binding = ObjectRef(
        api_version=rights.RBAC, kind="RoleBinding", namespace=scene.namespace, name="windlass-application"
    )
    await scene.tenant.application("robbed", "greeter", "1.0.0")
    await scene.admin.ready("robbed")
    await scene.person.delete(account)
    await scene.admin.kube.delete(binding)
    await scene.tenant.application("robbed", "greeter", "1.0.0", settings={"greeting": "again"})
    await scene.admin.ready("robbed")
    assert await scene.admin.kube.get(binding) is not None
    await scene.unharmed()


async def test_a_chart_does_not_take_over_what_another_package_has(scene: Scene) -> None:
    theirs = CONFIG_MAP.replace("{{ .Release.Name }}", "honest")
    write_package(packages(scene.admin), "thief", "1.0.0", templates={"a.yaml": theirs}, values={"greeting": "attack"})
    await scene.attacked("thief")
    await scene.tenant.delete("thief")
    await scene.admin.gone("thief")
    made = await scene.admin.get("ConfigMap", "honest")
    assert made is not None
    assert made["data"]["greeting"] != "attack"
    await scene.unharmed()


async def test_long_names_with_one_beginning_are_kept_apart(scene: Scene) -> None:
    one, two = (f"{'long' * 14}-{end}" for end in ("one", "two"))
    for name in (one, two):
        await scene.tenant.application(name, "greeter", "1.0.0", settings={"greeting": name[-3:]})
    releases = [(await scene.admin.ready(name))["status"]["release"]["name"] for name in (one, two)]
    assert len(set(releases)) == 2
    records = [await scene.admin.record(name) for name in (one, two)]
    assert all(records)
    await scene.tenant.delete(one)
    await scene.admin.gone(one)
    left = await scene.admin.get("ConfigMap", releases[1])
    assert left is not None
    assert left["data"]["greeting"] == "two"


# -- hooks -------------------------------------------------------------------------------------------------------------


def hook(config: dict[str, Any], body: str = "true") -> str:
    text = json.dumps({"configVersion": "v1", **config})
    return f"#!/bin/bash\nif [ \"$1\" = --config ]; then cat <<'END'\n{text}\nEND\nexit 0; fi\n{body}\n"


def creating(obj: Object) -> str:
    operation = json.dumps({"operation": "CreateOrUpdate", "object": obj})
    return hook({"beforeHelm": 1}, f"cat > $KUBERNETES_PATCH_PATH <<'END'\n{operation}\nEND")


def written(scene: Scene, name: str, text: str) -> None:
    write_package(packages(scene.admin), name, "1.0.0", templates={"a.yaml": CONFIG_MAP}, hooks={"attack.sh": text})


async def test_a_hook_binds_itself_to_nothing(scene: Scene) -> None:
    name = rights.fresh("attack")
    attack = rights.binding("", "cluster-admin", "windlass-application", account_namespace=scene.namespace, name=name)
    written(scene, "binder", creating(attack))
    await scene.attacked("binder")
    assert await scene.admin.kube.get(ObjectRef(api_version=rights.RBAC, kind="ClusterRoleBinding", name=name)) is None
    await scene.unharmed()


async def test_a_hook_writes_nothing_into_another_namespace(scene: Scene) -> None:
    written(scene, "writer", creating(plain("ConfigMap", scene.neighbour, "theirs", data={"whose": "attack"})))
    await scene.attacked("writer")
    found = await scene.admin.kube.get(at("ConfigMap", scene.neighbour))
    assert found is not None
    assert found["data"] == {"whose": "neighbour"}
    await scene.unharmed()


async def test_a_hook_watches_no_secrets_of_others(scene: Scene) -> None:
    loot = scene.admin.folder.parent / "watched"
    loot.mkdir()
    loot.chmod(0o777)
    for namespace in (scene.neighbour, "windlass-system"):
        binding = {
            "name": "secrets",
            "apiVersion": "v1",
            "kind": "Secret",
            "namespace": {"nameSelector": {"matchNames": [namespace]}},
        }
        name = f"watcher-{namespace}"
        written(scene, name, hook({"kubernetes": [binding]}, f"cp $BINDING_CONTEXT_PATH {loot}/{namespace}"))
        failure = await scene.attacked(name)
        assert SECRET not in str(failure)
    assert SECRET not in "".join(file.read_text() for file in loot.iterdir())
    await scene.unharmed()


async def test_a_hook_finds_no_files_of_the_worker(scene: Scene) -> None:
    """Neither keys nor kubeconfigs, nor the administrator's; and its own kubeconfig is that of its package."""
    installation = scene.admin
    loot = installation.folder.parent / "loot"
    loot.mkdir()
    loot.chmod(0o777)
    worker, stack = installation.folder / "worker", installation.stack
    wanted = [
        installation.folder / "keyring.yaml",
        installation.folder / "digest-key",
        stack.kubeconfig,
        stack.worker_kubeconfig,
        stack.data_dir / "pki" / "tokens.csv",
        stack.data_dir / "pki" / "sa.key",
        *sorted(worker.rglob("*.kubeconfig")),
        f"/proc/{scene.process}/environ",
        f"/proc/{scene.process}/mem",
        f"/proc/{scene.process}/maps",
    ]
    assert any(str(one).endswith(".kubeconfig") for one in wanted[6:])
    files = " ".join(f"'{one}'" for one in wanted)
    body = f"""
for file in {files}; do head -c 1 "$file" >/dev/null 2>&1 && echo "$file" >> {loot}/open; done
ls {worker}/targets/* {worker}/in-progress/*/* >> {loot}/open 2>/dev/null
kill -9 {scene.process} 2>/dev/null && echo killed >> {loot}/open
{stack.tool("kubectl")} auth whoami -o jsonpath='{{.status.userInfo.username}}' > {loot}/who
{stack.tool("kubectl")} get secrets -n {scene.neighbour} -o name >> {loot}/open 2>/dev/null
echo done > {loot}/done
"""
    written(scene, "burglar", hook({"beforeHelm": 1}, body))
    await scene.tenant.application("burglar", "burglar", "1.0.0", settings={})
    await eventually((loot / "done").exists, what="the hook has tried")
    found = (loot / "open").read_text() if (loot / "open").exists() else ""
    assert found == ""
    assert (loot / "who").read_text() == f"system:serviceaccount:{scene.namespace}:windlass-application"
    await scene.unharmed()
