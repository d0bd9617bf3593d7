"""The graphs of many chains: each is built when it is first asked for, since many services share a chain."""

from __future__ import annotations

from windlass.domain.servicesets.chains import ChainGraph
from windlass.domain.servicesets.errors import ChainNotFoundError, TemplateNotInChainError
from windlass.domain.servicesets.keys import ObjectKey, ServiceKey
from windlass.domain.servicesets.snapshot import Chains


class ChainGraphs:
    """Finds the graph of a service's chain."""

    def __init__(self, chains: Chains) -> None:
        """Take the ServiceTemplateChains; stands in for the contract's reads."""
        self._chains = chains
        self._graphs: dict[ObjectKey, ChainGraph] = {}

    def at(self, chain: ObjectKey, template: str, service: ServiceKey) -> ChainGraph:
        """Return the graph of ``chain`` for a service that stands at ``template``.

        Raises:
            ChainNotFoundError: there is no such chain.
            TemplateNotInChainError: it does not list the template, so no upgrade starts there.
            ChainTooLargeError: see `ChainGraph`.
        """
        if chain not in self._graphs:
            found = self._chains.get(chain)
            if found is None:
                raise ChainNotFoundError(chain, service)
            self._graphs[chain] = ChainGraph.of(found)
        graph = self._graphs[chain]
        if template not in graph.upgrades:
            raise TemplateNotInChainError(chain, template, service)
        return graph
