"""In which order services, or their owners, come after what they depend on, and which never can."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from windlass.domain.servicesets.components import circles, strongly_connected
from windlass.domain.servicesets.errors import DependencyCycleError
from windlass.domain.servicesets.keys import ServiceKey


@dataclass(frozen=True)
class Ordered[K: (str, ServiceKey)]:
    """What depends on each other, sorted.

    Attributes:
        keys: each after those it depends on, as far as cycles admit it.
        cycles: members of cycles to a text that names a cycle through their knot.
    """

    keys: tuple[K, ...]
    cycles: Mapping[K, str]


def ordered[K: (str, ServiceKey)](dependencies: Mapping[K, Sequence[K]]) -> Ordered[K]:
    """Sort the keys of a graph in which every name is a key. Linear in the graph; cycles hold their members only."""
    knots = strongly_connected({key: dependencies[key] for key in sorted(dependencies)})
    cycles: dict[K, str] = {}
    for members in knots:
        if len(members) > 1 or members[0] in dependencies[members[0]]:
            within = {key: dependencies[key] for key in sorted(members)}
            text = str(DependencyCycleError([str(one) for one in circles(within)[0]]))
            cycles.update(dict.fromkeys(members, text))
    return Ordered(tuple(key for members in knots for key in members), cycles)
