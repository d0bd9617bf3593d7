"""Asks a package's hooks what they bind to."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from windlass.activities.content import PACKAGES_KEPT, Content
from windlass.domain.errors import PermanentError
from windlass.domain.hooks.refusals import refuse
from windlass.domain.packages.model import Hook
from windlass.ports.hooks import Hooks
from windlass.ports.jq import Jq, SharedJq


class HookDiscovery:
    """Keeps answers by content: the same files always answer the same."""

    def __init__(self, hooks: Hooks, jq: SharedJq) -> None:
        self._hooks = hooks
        self._jq = jq
        self._known: OrderedDict[str, tuple[Hook, ...]] = OrderedDict()

    def knows(self, digest: str) -> bool:
        """Say whether the hooks of the content with this digest have answered."""
        return digest in self._known

    async def hooks_of(self, content: Content, digest: str) -> tuple[Hook, ...]:
        """Return the hooks of the content with this digest; their filters compile.

        Raises:
            PermanentError: INIT_HOOKS_FAILED, as `Hooks.discover`, or for a filter: names file and key and quotes jq.
        """
        hooks = self._known.get(digest)
        if hooks is None:
            hooks = await self._hooks.discover(content.root, content.package.hook_files)
            await check_filters(self._jq.on_behalf_of(digest), hooks)
            self._known[digest] = hooks
            if len(self._known) > PACKAGES_KEPT:
                self._known.popitem(last=False)
        else:
            self._known.move_to_end(digest)
        return hooks


async def check_filters(jq: Jq, hooks: Sequence[Hook]) -> None:
    """Compile every filter: a wrong one is found before it is needed.

    Raises:
        PermanentError: INIT_HOOKS_FAILED naming file and key, and what jq says.
        TransientError: FILTER_FAILED, jq cannot be asked now.
    """
    for hook in hooks:
        for index, binding in enumerate(hook.kubernetes):
            if not binding.jq_filter:
                continue
            try:
                await jq.check(binding.jq_filter)
            except PermanentError as error:
                refuse(hook.path, f"kubernetes[{index}].jqFilter", error.message)
