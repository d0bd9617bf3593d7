"""The step that applies settings: validated, converted, and shown to the module's own script."""

from __future__ import annotations

import asyncio
from typing import Any

from temporalio import activity

from windlass.activities.brief import Briefs
from windlass.activities.content import Content, Contents, State
from windlass.activities.conversion import converted
from windlass.activities.openings import Openings
from windlass.activities.package_objects import PackageObjects
from windlass.activities.placing import required
from windlass.contracts.record import PackageRecord
from windlass.contracts.steps import SettingsRequest, SettingsResult
from windlass.domain.errors import Actor, PermanentError, Reason
from windlass.domain.hooks.configuration import config_values_file, values_file
from windlass.domain.ids import SYSTEM_NAMESPACE, record_name
from windlass.domain.packages.model import ENABLED_SCRIPT, Artifact, Values
from windlass.domain.settings.chart_schema import check_chart
from windlass.domain.settings.schema import raise_if_invalid, validate
from windlass.domain.settings.values import VALUES_ROOT, check_settings
from windlass.domain.text.secret_texts import secret_texts
from windlass.ports.hooks import EnabledRun, EnabledScripts
from windlass.ports.jq import SharedJq


class SettingsActivities:
    """Settings are read where they are used, and kept in the state Secret only."""

    def __init__(
        self,
        *,
        objects: PackageObjects,
        contents: Contents,
        jq: SharedJq,
        scripts: EnabledScripts,
        openings: Openings,
        digest_key: bytes,
    ) -> None:
        self._objects = objects
        self._contents = contents
        self._jq = jq
        self._scripts = scripts
        self._openings = openings
        self._briefs = Briefs[SettingsResult]()
        self._digest_key = digest_key

    @activity.defn(name="package.apply_settings")
    async def apply_settings(self, request: SettingsRequest) -> SettingsResult:
        """Validate the newest settings, or bring a good release's back; only valid ones replace the applied ones."""

        async def apply() -> SettingsResult:
            return await (self._restore_settings(request) if request.restore else self._apply_settings(request))

        of = (request.key, request.artifact)
        return await self._openings.local_first(self._briefs, request, of=of, work=apply) or SettingsResult(
            pending=True
        )

    async def _apply_settings(self, request: SettingsRequest) -> SettingsResult:
        inputs = await self._objects.inputs(request.key, request.uid, request.settings)
        content = await self._contents.ensure(request.artifact)
        given, version = inputs.settings(), inputs.object.spec.settings_version
        settings = await converted(
            self._jq.on_behalf_of(request.key.package_id), content.package.conversions, given, version
        )
        state = await self._contents.state(request.key, request.uid, request.record)
        # Where a conversion has put what came from a Secret is not known: nothing of it is shown.
        concealed = inputs.concealed() if settings == given else settings
        raise_if_invalid(check_settings(content.schemas, settings, concealed=concealed))
        digest = inputs.settings_digest(self._digest_key)
        secrets = tuple(sorted(secret_texts(inputs.concealed())))
        applied = {
            "settings": settings,
            "settings_digest": digest,
            "secrets": secrets,
            "placement": request.placement,
        }
        return await self._applied(request, content, state, applied, concealed)

    async def _restore_settings(self, request: SettingsRequest) -> SettingsResult:
        """Apply the settings and hook patches of a good release.

        Raises:
            PermanentError: REVISION_LOST, the state Secret does not hold them (any more).
        """
        content = await self._contents.ensure(request.artifact)
        state = await self._contents.state(request.key, request.uid, request.record)
        good = state.record.revision(request.restore)
        if good is None:
            raise PermanentError(
                Reason.REVISION_LOST,
                f"the state Secret {record_name(request.key)} in {SYSTEM_NAMESPACE} does not hold the "
                f"settings of the good release of version {request.artifact.exact}",
                hint="use `windlass rollback --to` another revision, or change the object to what shall run",
                actor=Actor.USER,
            )
        restored = {
            "settings": good.settings,
            "settings_digest": good.settings_digest,
            "secrets": good.secrets,
            "patches": good.patches,
            "config_patches": good.config_patches,
            "placement": request.placement,
        }
        return await self._applied(request, content, state, restored, good.settings)

    async def _applied(
        self, request: SettingsRequest, content: Content, state: State, applied: dict[str, Any], concealed: Values
    ) -> SettingsResult:
        """Store what is applied, unless the values that follow from it are not valid; never show ``concealed``."""
        wanted = state.record.with_artifact(request.artifact).model_copy(update=applied)
        values = self._contents.values(content, wanted)
        if content.schemas.values is not None:
            found = validate(values, content.schemas.values, root=VALUES_ROOT, concealed=values)
            raise_if_invalid(found, what="values that follow from the settings")
        if content.package.chart_schema is not None and not content.package.hook_files:
            # Hooks, where there are any, may still fill in what the chart asks for; the release looks again.
            given = wanted.settings or {}
            found = await asyncio.to_thread(check_chart, content.package, values, settings=given, concealed=concealed)
            raise_if_invalid(found)
        disabled = await self._disabled(request, content, wanted, values)

        def change(record: PackageRecord) -> PackageRecord:
            record = record.with_artifact(request.artifact).model_copy(update=applied)
            if not _release_follows(content, record, request.artifact):
                return record
            values = self._contents.values(content, record)
            return self._contents.releasing(record, request.artifact, values, request.keep)

        saved = await self._contents.update(request.key, request.uid, state.ref, change)
        values = self._contents.values(content, saved.record)
        return SettingsResult(
            settings=saved.record.settings_digest,
            values=self._contents.digest(values),
            record=saved.ref,
            disabled=disabled,
        )

    async def _disabled(self, request: SettingsRequest, content: Content, record: PackageRecord, values: Values) -> str:
        """Ask the module's own script; return why it wants to be disabled, empty if it does not or there is none."""
        if not content.package.enabled_script:
            return ""
        name = content.package.definition.name
        run = EnabledRun(
            root=content.root,
            values=values_file(name, values, {}),
            config_values=config_values_file(name, record.settings or {}, {}),
            namespace=required(request.placement, request.key).target.namespace,
            package_id=request.key.package_id,
        )
        verdict = await self._scripts.ask(run)
        return "" if verdict.enabled else verdict.reason or f"the script {ENABLED_SCRIPT!r} says so"


def _release_follows(content: Content, record: PackageRecord, artifact: Artifact) -> bool:
    """Say whether what is released next is known now, so that one write tells of settings and release.

    Not where hooks may change the values, and not over the release of another content: until that is replaced, it is
    what a removal would have to take away.
    """
    package, released = content.package, record.released
    return package.has_chart and not package.hook_files and (released is None or released.artifact == artifact)
