"""Contents that this process has opened, and steps that stay in a local activity only over those.

What a package holds was written by somebody else: reading it for the first time may take long, or take the process
along. The loss of a remote activity reaches the workflow, which counts it, and while one runs the workflow hears
everything. So the first time is a remote activity; after that, a step over the same content is a local one, which
costs Temporal nothing, for as long as it ends soon (docs/adr/0017).
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final

from temporalio import activity

from windlass.activities.brief import Brief, Briefs
from windlass.activities.content import Contents
from windlass.activities.conversion import check_conversions
from windlass.activities.hooks.discovery import HookDiscovery
from windlass.contracts.base import WireModel
from windlass.contracts.steps import Programs
from windlass.domain.errors import Actor, PermanentError, Reason
from windlass.domain.ids import PackageKey
from windlass.domain.lifecycle.steps import Loaded
from windlass.domain.packages.definition import check_kind
from windlass.domain.packages.model import Artifact
from windlass.ports.jq import SharedJq
from windlass.ports.suspects import STEP, Suspects

NAMED: Final = 3
"""Programs of a package that an error names."""


class Openings:
    """Opens contents, and knows which ones it has opened."""

    def __init__(self, *, contents: Contents, discovery: HookDiscovery, jq: SharedJq, suspects: Suspects) -> None:
        self._contents = contents
        self._discovery = discovery
        self._jq = jq
        self._suspects = suspects

    def opened(self, key: PackageKey, artifact: Artifact) -> bool:
        """Say whether this process has read the content and asked its hooks, and lived.

        A package that may have ended the process before this one has nothing opened: all it does is remote.
        """
        known = self._contents.prepared(artifact.digest) and self._discovery.knows(artifact.digest)
        return known and not self._suspects.suspected(key)

    async def open(self, key: PackageKey, artifact: Artifact, programs: Programs = "admitted") -> Loaded:
        """Read the content and ask its hooks for their bindings; nothing of the package is run if that is denied.

        Raises:
            PermanentError: LOAD_FAILED, INIT_HOOKS_FAILED and others: what the package's author has to repair;
                HOOKS_DENIED, it brings programs of its own.
            TransientError: it could not be fetched, or its hooks could not be asked.
        """
        content = await self._contents.ensure(artifact)
        check_kind(content.package.definition, key.kind)
        await check_conversions(self._jq.on_behalf_of(key.package_id), content.package.conversions)
        brought = content.package.programs
        if brought and programs == "omitted":
            return Loaded(artifact=artifact, programs=True, bare=True)
        if brought and programs == "denied":
            raise _denied(artifact, brought)
        hooks = await self._discovery.hooks_of(content, artifact.digest)
        return Loaded(artifact=artifact, hooks=hooks, programs=bool(brought))

    async def local_first[T](
        self,
        briefs: Briefs[T],
        request: WireModel,
        *,
        of: tuple[PackageKey, Artifact],
        work: Callable[[], Coroutine[Any, Any, T]],
    ) -> T | None:
        """Do ``work``: in a local activity only over opened content, and for a moment.

        Args:
            briefs: of the activity.
            request: the activity's; the remote activity of the same request goes on where the local one left off.
            of: the package and the content that the work is about.
            work: the work.

        Returns:
            None in a local activity whose remote one has to be called.
        """
        key = (type(request).__name__, request.model_dump_json())

        async def noted(_brief: Brief) -> T:
            with self._suspects.opening(of[0], STEP):
                return await work()

        if not activity.info().is_local:
            done = await briefs.attend(key, noted)
            await self._suspects.worked(of[0], STEP)
            return done
        return await briefs.begin(key, noted) if self.opened(*of) else None


def _denied(artifact: Artifact, brought: Sequence[str]) -> PermanentError:
    more = f" and {len(brought) - NAMED} more" if len(brought) > NAMED else ""
    return PermanentError(
        Reason.HOOKS_DENIED,
        f"{artifact.source} brings programs of its own ({', '.join(brought[:NAMED])}{more}), and PackageRepository "
        f"{artifact.source.repository!r} says hooks: Deny",
        hint="install a version without hooks, or set spec.hooks of the PackageRepository to Allow",
        actor=Actor.ADMIN,
    )
