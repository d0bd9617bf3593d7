"""Routes through a chain of templates: which upgrades lead from one template to another, and which comes next.

A chain is a directed graph of templates (reference kcm.md sections 1 and 2, ``TemplateChain``). Of all routes to a
template the longest one counts, so that no step in between is left out; of several, the one that the chain lists
first. Branches that do not reach the target are never entered.

Chains may lead back, for rollbacks. There "longest" alone would walk for ever (with 1 -> 2, 2 -> 3, 1 -> 3 and
2 -> 1 the longest way from 2 to 3 is over 1) and would be exponential to find. So:

- an edge **inside a cycle** counts only when its version lies between the template's own and the target's, as a
  step towards the target; edges outside cycles always count. Of what counts, the longest route is taken;
- where no such route exists (versions missing or no semantic ones, or the only way leads away first), the route
  with the fewest steps over any edges is taken.

Both are found in time linear in the chain, and a step along a route never makes the rest of it longer (docs/adr/0013).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Final, NamedTuple

from semver import Version

from windlass.domain.servicesets.components import strongly_connected
from windlass.domain.servicesets.errors import (
    ChainInvalidError,
    ChainTooLargeError,
    MixedVersionsError,
    TargetOutsideChainError,
    TemplateMissingError,
    TemplateNotInChainError,
)
from windlass.domain.servicesets.keys import ObjectKey
from windlass.domain.servicesets.models import ServiceTemplateChain, ServiceUpgradePaths
from windlass.domain.servicesets.versions import semantic_version

MAX_TEMPLATES: Final = 500
"""Templates in one chain, those that it only leads to included. All routes from a template are at most one for each
other template, none with more steps than that: 124,750 steps in all for the longest chain."""

MAX_UPGRADES: Final = 5_000
"""Upgrades in one chain. Beyond, the routes of one chain could take seconds."""


class UpgradeStep(NamedTuple):
    """One step of a route: the template that it leads to, and its version; the name stands in for a missing version."""

    name: str
    version: str


type Route = tuple[UpgradeStep, ...]
"""Steps in walking order, without the start; empty when start and target are the same template."""


class ChainGraph:
    """The graph of one chain. Build it once and ask it often: what it works out for a target it keeps.

    Attributes:
        key: of the chain, for errors.
        upgrades: template to the steps that it allows, in the chain's order, one for each template it leads to.
    """

    def __init__(self, key: ObjectKey, upgrades: Mapping[str, Iterable[UpgradeStep]]) -> None:
        """Take the edges of each supported template.

        Raises:
            ChainTooLargeError: more than `MAX_TEMPLATES` templates or `MAX_UPGRADES` upgrades.
        """
        self.key = key
        self.upgrades: dict[str, tuple[UpgradeStep, ...]] = {
            name: _without_repetitions(steps) for name, steps in upgrades.items()
        }
        self._order = dict.fromkeys((*self.upgrades, *(s.name for steps in self.upgrades.values() for s in steps)))
        edges = sum(map(len, self.upgrades.values()))
        if len(self._order) > MAX_TEMPLATES or edges > MAX_UPGRADES:
            raise ChainTooLargeError(key, len(self._order), MAX_TEMPLATES, edges, MAX_UPGRADES)
        self._towards: dict[str, dict[str, UpgradeStep]] = {}
        edges_of = {name: [step.name for step in self.upgrades.get(name, ())] for name in self._order}
        self._components = strongly_connected(edges_of)
        self._component = {name: number for number, members in enumerate(self._components) for name in members}

    @classmethod
    def of(cls, chain: ServiceTemplateChain) -> ChainGraph:
        """Read a chain's ``supportedTemplates``. It need not be valid; see `check`.

        Raises:
            ChainTooLargeError: as above.
        """
        upgrades: dict[str, list[UpgradeStep]] = {}
        for template in chain.spec.supported_templates:
            steps = upgrades.setdefault(template.name, [])
            steps += [UpgradeStep(one.name, one.version or one.name) for one in template.available_upgrades]
        return cls(_key(chain), upgrades)

    @property
    def templates(self) -> tuple[str, ...]:
        """Supported templates in the chain's order, then those that it only leads to."""
        return tuple(self._order)

    def next_hop(self, current: str, target: str) -> UpgradeStep | None:
        """Return the first step from ``current`` to ``target``; None at the target and where no route reaches it."""
        if current == target or target not in self._order:
            return None
        if target not in self._towards:
            self._towards[target] = self._steps_towards(target)
        return self._towards[target].get(current)

    def route(self, current: str, target: str) -> Route | None:
        """Return all steps from ``current`` to ``target``; empty at the target, None where no route reaches it.

        Raises:
            TemplateNotInChainError: ``current`` is not a supported template.
        """
        if current not in self.upgrades:
            raise TemplateNotInChainError(self.key, current)
        steps: list[UpgradeStep] = []
        while current != target:
            step = self.next_hop(current, target)
            if step is None:
                return None
            steps.append(step)
            current = step.name
        return tuple(steps)

    def routes(self, current: str) -> tuple[Route, ...]:
        """Return the route to every other template that can be reached, in the order of `templates`.

        Raises:
            TemplateNotInChainError: ``current`` is not a supported template.
        """
        found = (self.route(current, target) for target in self._order if target != current)
        return tuple(route for route in found if route is not None)

    @cached_property
    def _versions(self) -> dict[str, Version]:
        """Versions of templates as edges say them, the first that is a semantic one; only cycles ask for them."""
        found: dict[str, Version] = {}
        for steps in self.upgrades.values():
            for step in steps:
                if step.name not in found and (version := semantic_version(step.version)) is not None:
                    found[step.name] = version
        return found

    def _steps_towards(self, target: str) -> dict[str, UpgradeStep]:
        """Return the next step of every template that reaches ``target``."""
        longest = {target: 0}
        steps: dict[str, UpgradeStep] = {}
        for template in self._farther_and_farther(target):
            for step in self.upgrades.get(template, ()):
                length = longest.get(step.name, -1) + 1
                if length > longest.get(template, 0) and template != target and self._counts(template, step, target):
                    longest[template] = length
                    steps[template] = step
        return steps | self._detours(target, longest)

    def _farther_and_farther(self, target: str) -> list[str]:
        """Return the templates so that every edge that counts leads to one that comes before its start.

        Components come leaves first; within one, an edge that counts leads closer to the target's version.
        """
        found: list[str] = []
        for members in self._components:
            if len(members) == 1:
                found += members
                continue
            end = self._versions.get(target)
            found += [name for name in members if name not in self._versions]
            # Up to the target's version from the highest down, above it from the lowest up.
            known = sorted((self._versions[name], name) for name in members if name in self._versions)
            found += [name for version, name in reversed(known) if end is None or version <= end]
            found += [name for version, name in known if end is not None and version > end]
        return found

    def _counts(self, template: str, step: UpgradeStep, target: str) -> bool:
        if self._component[template] != self._component[step.name]:
            return True
        here, there, end = (self._versions.get(name) for name in (template, step.name, target))
        if here is None or there is None or end is None:
            return False
        return here < there <= end or end <= there < here

    def _detours(self, target: str, settled: Collection[str]) -> dict[str, UpgradeStep]:
        """Return the next step, by the fewest steps to the target, of templates that are not settled."""
        into: dict[str, list[tuple[str, UpgradeStep]]] = {}
        for template, steps in self.upgrades.items():
            for step in steps:
                into.setdefault(step.name, []).append((template, step))
        seen, ring, found = {target}, [target], dict[str, UpgradeStep]()
        while ring:
            reached: list[str] = []
            for template, step in (edge for name in ring for edge in into.get(name, ())):
                if template not in seen:
                    seen.add(template)
                    reached.append(template)
                    if template not in settled:
                        found[template] = step
            ring = reached
        return found


def upgrade_paths(chain: ServiceTemplateChain, template_name: str) -> tuple[Route, ...]:
    """Return the routes from a template: one for every template that can be reached from it (contract: UpgradePaths).

    Where kcm.md keeps the longest of all simple routes, this takes the route described at the top of the module; for
    chains without cycles both are the same. A template has no route to itself, also in a cycle.

    Raises:
        TemplateNotInChainError: it is not in ``supportedTemplates``.
        ChainTooLargeError: more than `MAX_TEMPLATES` templates or `MAX_UPGRADES` upgrades.
    """
    return ChainGraph.of(chain).routes(template_name)


def next_hop(paths: ServiceUpgradePaths, current: str, target: str) -> UpgradeStep | None:
    """Return the step after ``current`` on a service's way to ``target`` (kcm.md section 2, NextUpgradeStep).

    The route that ends at the target counts, or else the one on which it stands farthest from the start. The step
    is the one after ``current`` if that stands on the route before the target, and otherwise the route's first.

    Returns:
        None if ``current`` is the target, also when a route of a cyclic chain leads back to it, and if no route
        contains the target.
    """
    if current == target:
        return None
    best: tuple[bool, int, Sequence[UpgradeStep]] | None = None
    for path in paths.available_upgrades:
        steps = [UpgradeStep(one.name, one.version or one.name) for one in path.versions]
        at = next((number for number, step in enumerate(steps) if step.name == target), None)
        if at is not None and (best is None or (at == len(steps) - 1, at) > best[:2]):
            best = (at == len(steps) - 1, at, steps)
    if best is None:
        return None
    _, at, steps = best
    passed = next((number for number in range(at) if steps[number].name == current), -1)
    return steps[passed + 1]


def check(chain: ServiceTemplateChain, known_templates: Collection[str] | None = None) -> list[ChainInvalidError]:
    """Return all that is wrong with a chain (contract: IsValid), in the chain's order.

    Args:
        chain: to look at.
        known_templates: names of the ServiceTemplates in its namespace; None if they are not looked at. A template
            that the chain names and that does not exist cannot be deployed.
    """
    found: list[ChainInvalidError] = []
    key = _key(chain)
    supported = dict.fromkeys(template.name for template in chain.spec.supported_templates)
    for template in chain.spec.supported_templates:
        upgrades = template.available_upgrades
        targets = dict.fromkeys(one.name for one in upgrades)
        found += [TargetOutsideChainError(key, template.name, one) for one in targets if one not in supported]
        if (plain := [one.name for one in upgrades if not one.version]) and len(plain) < len(upgrades):
            found.append(MixedVersionsError(key, template.name, plain))
    if known_templates is not None:
        found += [TemplateMissingError(key, name) for name in supported if name not in known_templates]
    try:
        ChainGraph.of(chain)
    except ChainTooLargeError as error:
        found.append(error)
    return found


def _without_repetitions(steps: Iterable[UpgradeStep]) -> tuple[UpgradeStep, ...]:
    """Return the first step to each template, where it is first named: repeating one changes nothing."""
    found: dict[str, UpgradeStep] = {}
    for step in steps:
        found.setdefault(step.name, step)
    return tuple(found.values())


def _key(chain: ServiceTemplateChain) -> ObjectKey:
    return ObjectKey(chain.metadata.namespace, chain.metadata.name)
