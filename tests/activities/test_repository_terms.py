"""What a repository grants, as the activities that use it keep to it."""

from __future__ import annotations

from typing import Any

import pytest
from activities.fakes import ARTIFACT, DIGEST_KEY, KEY, SOURCE, Bench, package
from activities.test_packages import activities

from windlass.activities.observe import ObserveActivities
from windlass.contracts.steps import DownloadRequest, InstallRequest, LoadRequest, Observation, ObserveRequest
from windlass.domain.errors import Actor, PermanentError, Reason
from windlass.domain.ids import API_VERSION, Kind, PackageKey
from windlass.domain.packages.model import Artifact

DIGEST = f"sha256:{SOURCE.repository}/{SOURCE.version}"
TEAM = {"selector": {"matchLabels": {"team": "a"}}}


def shelf(bench: Bench, **spec: Any) -> None:
    bench.kube.put(
        {
            "apiVersion": API_VERSION,
            "kind": "PackageRepository",
            "metadata": {"name": "shelf"},
            "spec": {"kind": "file", "file": {"path": "/shelf"}, **spec},
        }
    )


def namespace(bench: Bench, **labels: str) -> None:
    bench.kube.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "prod", "labels": labels}})


async def observed(bench: Bench) -> Observation:
    activity = ObserveActivities(
        objects=bench.objects,
        references=bench.references,
        records=bench.records,
        contents=bench.contents,
        openings=bench.openings,
        clock=bench.clock,
        digest_key=DIGEST_KEY,
    )
    return await bench.run(activity.observe, ObserveRequest(key=KEY))


# -- namespaces ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("allowed", [{}, {"names": ["test"]}, {"from": "Selected"}, TEAM])
async def test_a_download_is_refused_where_the_repository_does_not_serve(allowed: dict[str, Any]) -> None:
    bench = Bench()
    shelf(bench, allowedNamespaces=allowed)
    namespace(bench, team="b")
    bench.packages.cache.add(DIGEST)
    with pytest.raises(PermanentError) as refused:
        await bench.run(activities(bench).download, DownloadRequest(key=KEY, source=SOURCE))
    assert (refused.value.reason, refused.value.actor) == (Reason.REPOSITORY_NOT_ALLOWED, Actor.ADMIN)
    for word in ("'shelf'", "'prod'", "spec.allowedNamespaces"):
        assert word in str(refused.value)


@pytest.mark.parametrize("allowed", [{"from": "All"}, {"names": ["prod"]}, TEAM])
async def test_a_download_goes_where_it_serves(allowed: dict[str, Any]) -> None:
    bench = Bench()
    shelf(bench, allowedNamespaces=allowed)
    namespace(bench, team="a")
    await bench.run(activities(bench).download, DownloadRequest(key=KEY, source=SOURCE))
    assert bench.packages.cache == {DIGEST}


@pytest.mark.parametrize(("names", "served"), [(["windlass-modules"], True), (["prod"], False)])
async def test_modules_count_as_their_namespace(names: list[str], served: bool) -> None:
    bench = Bench()
    shelf(bench, allowedNamespaces={"names": names})
    request = DownloadRequest(key=PackageKey(kind=Kind.MODULE, name="web"), source=SOURCE)
    if served:
        await bench.run(activities(bench).download, request)
    else:
        with pytest.raises(PermanentError):
            await bench.run(activities(bench).download, request)
    assert bool(bench.packages.cache) is served


async def test_what_is_in_the_shared_cache_is_not_taken_from_a_repository_that_refuses() -> None:
    bench = Bench()
    bench.application()
    bench.packages.cache.add(DIGEST)
    await bench.openings.open(KEY, Artifact(source=SOURCE, digest=DIGEST))
    assert (await observed(bench)).artifact is not None
    shelf(bench, allowedNamespaces={"names": ["test"]})
    found = await observed(bench)
    assert (found.artifact, found.desired.served) == (None, False)


async def test_the_offer_of_a_repository_that_refuses_is_not_told() -> None:
    bench = Bench()
    bench.application(package={"repository": "shelf", "name": "web", "version": "^1"})
    status = {
        "count": 1,
        "digest": "d",
        "packages": [{"name": "web", "version": "1.9.9", "versions": 1, "digest": "w"}],
    }
    for allowed, offer in (({"from": "All"}, "w"), ({"names": ["test"]}, "")):
        bench.kube.put(
            {
                "apiVersion": API_VERSION,
                "kind": "PackageRepository",
                "metadata": {"name": "shelf"},
                "spec": {"kind": "file", "file": {"path": "/shelf"}, "allowedNamespaces": allowed},
                "status": status,
            }
        )
        assert (await observed(bench)).desired.offer == offer


async def test_labels_of_the_namespace_are_part_of_what_was_seen() -> None:
    bench = Bench()
    bench.application()
    shelf(bench, allowedNamespaces=TEAM)
    namespace(bench, team="a")
    before = await observed(bench)
    namespace(bench, team="b")
    after = await observed(bench)
    assert (before.desired.served, after.desired.served) == (True, False)
    assert before.seen != after.seen


async def test_content_that_was_pinned_is_fetched_again_by_a_package_that_is_no_longer_served() -> None:
    bench = Bench()
    shelf(bench, allowedNamespaces={"names": ["test"]})
    await bench.run(activities(bench).install, InstallRequest(key=KEY, uid="u1", artifact=ARTIFACT))
    assert bench.packages.installed


# -- hooks -----------------------------------------------------------------------------------------------------------


def hooked() -> Bench:
    bench = Bench()
    bench.packages.package = package(hook_files=("hooks/1.sh", "hooks/2.sh", "hooks/3.sh"), enabled_script=True)
    return bench


async def test_a_package_with_programs_is_refused_and_none_of_them_is_run() -> None:
    bench = hooked()
    steps = activities(bench)
    await bench.run(steps.download, DownloadRequest(key=KEY, source=SOURCE, open=True, programs="denied"))
    request = InstallRequest(key=KEY, uid="u1", artifact=ARTIFACT, open=True, programs="denied")
    await bench.run(steps.install, request)
    with pytest.raises(PermanentError) as refused:
        await bench.run(steps.load, LoadRequest(key=KEY, artifact=ARTIFACT, programs="denied"))
    assert (refused.value.reason, refused.value.actor) == (Reason.HOOKS_DENIED, Actor.ADMIN)
    assert "hooks/1.sh, hooks/2.sh, hooks/3.sh and 1 more" in refused.value.message
    assert bench.hooks.discovered == 0


async def test_a_package_without_programs_is_loaded() -> None:
    bench = Bench()
    loaded = (
        await bench.run(activities(bench).load, LoadRequest(key=KEY, artifact=ARTIFACT, programs="denied"))
    ).loaded
    assert loaded is not None
    assert not loaded.programs


async def test_a_package_whose_release_is_taken_away_is_loaded_without_its_programs() -> None:
    bench = hooked()
    request = LoadRequest(key=KEY, artifact=ARTIFACT, programs="omitted")
    loaded = (await bench.run(activities(bench).load, request)).loaded
    assert loaded is not None
    assert (loaded.hooks, loaded.programs, loaded.bare) == ((), True, True)
    assert bench.hooks.discovered == 0


async def test_the_look_says_what_the_repository_grants() -> None:
    bench = Bench()
    bench.application()
    assert (await observed(bench)).desired.hooks_allowed
    shelf(bench, hooks="Deny")
    assert not (await observed(bench)).desired.hooks_allowed
