"""The picture of a neighbourhood, ready to draw: one thing in the middle, what is near it around it. No words, no drawing.

Each thing behind the first stands outwards of the one that led to it, in a slice as wide as what is behind it needs. Names
run outwards from their dots, so that none covers another however many there are.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import cos, degrees, pi, sin
from typing import Final

from pipeline.http.graphs import Edge, Neighbourhood, Node

ROW: Final = 19.0
"""What a name needs between it and the next, in units of the picture."""
NAME: Final = 175.0
"""How far a name reaches."""
LETTER: Final = 8.0
"""How wide a letter is at most, of ordinary ones."""
EDGE: Final = 14.0
LONGEST: Final = 24
"""Characters of a name that are drawn."""


@dataclass(frozen=True, slots=True)
class Star:
    """A thing with its dot at (x, y); its name begins there, turned by `turn` degrees, towards or away from the middle."""

    node: Node
    label: str
    x: float
    y: float
    radius: float
    turn: float
    leftwards: bool


@dataclass(frozen=True, slots=True)
class Line:
    """A relation between two dots."""

    edge: Edge
    x1: float
    y1: float
    x2: float
    y2: float
    width: float


@dataclass(frozen=True, slots=True)
class Constellation:
    """A picture whose middle is at (0, 0); `left`, `top`, `width` and `height` say what of it is not empty."""

    stars: tuple[Star, ...] = ()
    lines: tuple[Line, ...] = ()
    left: float = 0
    top: float = 0
    width: float = 0
    height: float = 0


def drawn(near: Neighbourhood) -> Constellation:
    """Return the picture of a neighbourhood; the first of its nodes is its middle."""
    if not near.nodes:
        return Constellation()
    behind = _behind(near)
    leaves = _leaves(near.nodes[0].id, behind)
    depth = max(node.distance for node in near.nodes)
    step = max(NAME, leaves[near.nodes[0].id] * ROW / (2 * pi * max(1, depth)))
    angles: dict[str, float] = {}
    _turn(near.nodes[0].id, 0.0, 2 * pi, behind, leaves, angles)
    stars = tuple(_star(node, angles.get(node.id, 0.0), step) for node in near.nodes)
    places = {star.node.id: star for star in stars}
    lines = tuple(
        _line(edge, places[edge.source], places[edge.target])
        for edge in near.edges
        if edge.source in places and edge.target in places
    )
    ends = [end for node, star in zip(near.nodes, stars, strict=True) for end in _ends(star, angles[node.id])]
    left, top = (min(end[at] for end in ends) - EDGE for at in (0, 1))
    right, bottom = (max(end[at] for end in ends) + EDGE for at in (0, 1))
    return Constellation(stars, lines, round(left), round(top), round(right - left), round(bottom - top))


def _behind(near: Neighbourhood) -> Mapping[str, Sequence[str]]:
    """What was reached by way of each thing: of several ways the best founded one."""
    distance = {node.id: node.distance for node in near.nodes}
    best: dict[str, tuple[int, str]] = {}
    for edge in near.edges:
        for inner, outer in ((edge.source, edge.target), (edge.target, edge.source)):
            if distance.get(outer, 0) == distance.get(inner, -2) + 1:
                best[outer] = max(best.get(outer, (0, "")), (edge.weight, inner))
    first = near.nodes[0].id
    behind: dict[str, list[str]] = {}
    for node in near.nodes[1:]:
        behind.setdefault(best.get(node.id, (0, first))[1], []).append(node.id)
    return behind


def _leaves(ident: str, behind: Mapping[str, Sequence[str]]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for one in behind.get(ident, ()):
        counts.update(_leaves(one, behind))
    counts[ident] = sum(counts[one] for one in behind.get(ident, ())) or 1
    return counts


def _turn(
    ident: str,
    begins: float,
    ends: float,
    behind: Mapping[str, Sequence[str]],
    leaves: Mapping[str, int],
    angles: dict[str, float],
) -> None:
    """Give everything behind a thing its angle within a slice."""
    angles[ident] = (begins + ends) / 2
    whole = ends - begins
    for one in behind.get(ident, ()):
        wide = whole * leaves[one] / leaves[ident]
        _turn(one, begins, begins + wide, behind, leaves, angles)
        begins += wide


def _ends(star: Star, angle: float) -> tuple[tuple[float, float], ...]:
    """Where a dot is, and where its name ends."""
    far = star.radius + LETTER * len(star.label)
    if not star.node.distance:
        return (star.x - far / 2, star.y - 3 * ROW), (star.x + far / 2, star.y)
    return (star.x, star.y), (star.x + far * cos(angle), star.y + far * sin(angle))


def _star(node: Node, angle: float, step: float) -> Star:
    out = node.distance * step
    leftwards = cos(angle) < 0
    turn = degrees(angle) - (180 if leftwards else 0) if node.distance else 0.0
    name = node.name if len(node.name) <= LONGEST else f"{node.name[: LONGEST - 1]}…"
    return Star(
        node,
        name,
        round(out * cos(angle), 1),
        round(out * sin(angle), 1),
        round(min(12.0, 4 + node.mentions**0.5), 1),
        round(turn, 1),
        leftwards and node.distance > 0,
    )


def _line(edge: Edge, one: Star, other: Star) -> Line:
    return Line(edge, one.x, one.y, other.x, other.y, round(min(4.0, 1 + (edge.weight - 1) ** 0.5), 1))
