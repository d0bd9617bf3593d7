"""What a worker serves: workflow types, and activities by the kind of work they are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from windlass.activities.catalog import CatalogActivities
from windlass.activities.cleaning import CleaningActivities
from windlass.activities.drift import DriftActivities
from windlass.activities.helm import HelmActivities
from windlass.activities.hooks.discovery import HookDiscovery
from windlass.activities.hooks.events import EventHookActivities
from windlass.activities.hooks.lifecycle import HookActivities
from windlass.activities.hooks.runs import HookRuns
from windlass.activities.observe import ObserveActivities
from windlass.activities.openings import Openings
from windlass.activities.package_objects import PackageObjects
from windlass.activities.packages import PackageActivities
from windlass.activities.settings import SettingsActivities
from windlass.activities.status import StatusActivities
from windlass.activities.turns import Turns
from windlass.ports.watches import HookWatches
from windlass.worker.adapters import Adapters
from windlass.worker.settings import Settings
from windlass.workflows.package import PackageLifecycleWorkflow
from windlass.workflows.repository import RepositoryCatalogWorkflow

TURNS_PER_CHILD: Final = 2
"""Releases that are fetched for each Helm process: one that it works on, and one that is made ready for it."""

WORKFLOWS: Final[tuple[type, ...]] = (PackageLifecycleWorkflow, RepositoryCatalogWorkflow)


@dataclass(frozen=True, kw_only=True)
class Activities:
    """Activity methods by kind of work.

    Attributes:
        lifecycle: local activities and short remote ones; always beside the workflows.
        helm: Helm operations.
        hooks: hook processes.
        turns: at Helm, in this process.
    """

    lifecycle: tuple[Callable[..., Any], ...]
    helm: tuple[Callable[..., Any], ...]
    hooks: tuple[Callable[..., Any], ...]
    turns: Turns

    @property
    def all(self) -> tuple[Callable[..., Any], ...]:
        """Every activity, for a process that does all kinds of work."""
        return self.lifecycle + self.helm + self.hooks


def activities(adapters: Adapters, watches: HookWatches, settings: Settings, digest_key: bytes) -> Activities:
    """Make the activities over ``adapters``; ``watches`` are those of this process."""
    objects = PackageObjects(adapters.kube, adapters.references, digest_key)
    openings = Openings(
        contents=adapters.contents,
        discovery=HookDiscovery(adapters.hooks, adapters.jq),
        jq=adapters.jq,
        suspects=adapters.suspects,
    )
    observe = ObserveActivities(
        objects=objects,
        references=adapters.references,
        records=adapters.records,
        contents=adapters.contents,
        openings=openings,
        clock=adapters.clock,
        digest_key=digest_key,
    )
    package = PackageActivities(
        kube=adapters.kube,
        objects=objects,
        packages=adapters.packages,
        contents=adapters.contents,
        references=adapters.references,
        targets=adapters.targets,
        openings=openings,
    )
    settled = SettingsActivities(
        objects=objects,
        contents=adapters.contents,
        jq=adapters.jq,
        scripts=adapters.scripts,
        openings=openings,
        digest_key=digest_key,
    )
    cleaning = CleaningActivities(
        packages=adapters.packages,
        records=adapters.records,
        watches=watches,
        metrics=adapters.hook_metrics,
    )
    turns = Turns(settings.helm_children * TURNS_PER_CHILD)
    release = HelmActivities(
        kube=adapters.kube,
        objects=objects,
        helm=adapters.helm,
        targets=adapters.targets,
        readiness=adapters.readiness,
        contents=adapters.contents,
        clock=adapters.clock,
        turns=turns,
    )
    runs = HookRuns(
        hooks=adapters.hooks,
        targets=adapters.targets,
        patchers=adapters.patchers,
        metrics=adapters.hook_metrics,
        contents=adapters.contents,
    )
    catalog = CatalogActivities(
        kube=adapters.kube,
        packages=adapters.packages,
        clock=adapters.clock,
        digest_key=digest_key,
        ui=settings.ui,
    )
    hook = HookActivities(runs=runs, watches=watches, contents=adapters.contents)
    event = EventHookActivities(runs=runs, watches=watches, contents=adapters.contents, suspects=adapters.suspects)
    drift = DriftActivities(
        kube=adapters.kube, targets=adapters.targets, helm=adapters.helm, contents=adapters.contents
    )
    status = StatusActivities(adapters.kube, objects, adapters.events, settings.ui)
    return Activities(
        lifecycle=(
            observe.observe,
            package.add_finalizer,
            package.release_finalizer,
            package.download,
            package.install,
            package.place,
            package.load,
            settled.apply_settings,
            cleaning.clean_up,
            event.watch,
            event.unwatch,
            event.hold,
            drift.check,
            status.write,
            catalog.scan,
            catalog.report_failure,
        ),
        helm=(
            release.upgrade_release,
            release.uninstall_release,
        ),
        hooks=(hook.run, event.run_events),
        turns=turns,
    )
