"""Knots of a directed graph: its strongly connected components, and a circle through each."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping


def strongly_connected[N: Hashable](edges: Mapping[N, Iterable[N]]) -> list[list[N]]:
    """Return the strongly connected components, each after all that it leads to (Tarjan 1972, without recursion).

    Args:
        edges: node to where its edges lead. A node that is no key has none.
    """
    found: list[list[N]] = []
    number: dict[N, int] = {}
    lowest: dict[N, int] = {}
    unfinished: dict[N, None] = {}
    for root in edges:
        if root in number:
            continue
        number[root] = lowest[root] = len(number)
        unfinished[root] = None
        walk = [(root, iter(edges[root]))]
        while walk:
            node, following = walk[-1]
            for name in following:
                if name not in number:
                    number[name] = lowest[name] = len(number)
                    unfinished[name] = None
                    walk.append((name, iter(edges.get(name, ()))))
                    break
                if name in unfinished:
                    lowest[node] = min(lowest[node], number[name])
            else:
                walk.pop()
                if walk:
                    above = walk[-1][0]
                    lowest[above] = min(lowest[above], lowest[node])
                if lowest[node] == number[node]:
                    members: list[N] = []
                    while not members or members[-1] != node:
                        members.append(unfinished.popitem()[0])
                    found.append(members)
    return found


def circles[N: Hashable](edges: Mapping[N, Iterable[N]]) -> list[tuple[N, ...]]:
    """Return one circle for every knot, in time linear in the graph.

    A knot is a strongly connected component of several nodes, or a node with an edge to itself. Its circle is the
    shortest one through the node that ``edges`` names first. When it is broken, the knot may hold another.

    Returns:
        Nodes in walking order: each has an edge to the next, the last to the first.
    """
    place = {node: number for number, node in enumerate(edges)}
    knots = [set(members) for members in strongly_connected(edges)]
    firsts = [(min(place[node] for node in knot if node in place), knot) for knot in knots if knot & place.keys()]
    nodes = list(edges)
    found = (_circle(nodes[first], knot, edges) for first, knot in sorted(firsts, key=lambda pair: pair[0]))
    return [circle for circle in found if circle]


def _circle[N: Hashable](first: N, knot: set[N], edges: Mapping[N, Iterable[N]]) -> tuple[N, ...]:
    """Return the shortest way round from ``first`` within its knot; empty if there is none."""
    came_from: dict[N, N] = {}
    ring = [first]
    while ring:
        reached: list[N] = []
        for node, following in ((one, following) for one in ring for following in edges.get(one, ())):
            if following == first:
                way = [node]
                while way[-1] != first:
                    way.append(came_from[way[-1]])
                return tuple(reversed(way))
            if following in knot and following not in came_from:
                came_from[following] = node
                reached.append(following)
        ring = reached
    return ()
