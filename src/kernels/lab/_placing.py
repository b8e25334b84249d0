"""Where to put the labels of a drawing so that none hides another: deterministic, in pixels."""

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

# What is worse than what, when not everything can be had.
_ON_LABEL = 1000.0
_ON_POINT = 400.0
_LEADER_THROUGH_LABEL = 300.0
_LEADER_THROUGH_POINT = 200.0
_LEADERS_CROSS = 150.0
_ON_LINE = 120.0
_ROUNDS = 30
_STARTS = 40


@dataclass(frozen=True)
class Box:
    """A rectangle; `y` grows upwards."""

    x0: float
    y0: float
    x1: float
    y1: float

    def overlaps(self, other: "Box") -> bool:
        """Whether the two have an area in common."""
        return self.x0 < other.x1 and other.x0 < self.x1 and self.y0 < other.y1 and other.y0 < self.y1

    def inside(self, other: "Box") -> bool:
        """Whether this box lies wholly in the other."""
        return self.x0 >= other.x0 and self.x1 <= other.x1 and self.y0 >= other.y0 and self.y1 <= other.y1

    def grown(self, by: float) -> "Box":
        """Return the box with a margin around it."""
        return Box(self.x0 - by, self.y0 - by, self.x1 + by, self.y1 + by)


Segment = tuple[float, float, float, float]
"""A straight line, as x0, y0, x1, y1."""


@dataclass(frozen=True)
class Spot:
    """One place where a label could go.

    Attributes
    ----------
    box
        The label's rectangle there.
    cost
        How far this is from the best place, were the label alone.
    leader
        The line that ties the label to its point, where it is too far away to be seen as its label.
    anchor
        Which part of the text stays where it is when the reader's font is narrower: 0 its left end, 1 its
        right.
    """

    box: Box
    cost: float
    leader: Segment | None = None
    anchor: float = 0.5


def crosses(segment: Segment, box: Box) -> bool:
    """Whether a straight line passes through a box (Liang-Barsky clipping)."""
    x0, y0, x1, y1 = segment
    enter, leave = 0.0, 1.0
    for start, step, low, high in ((x0, x1 - x0, box.x0, box.x1), (y0, y1 - y0, box.y0, box.y1)):
        if step == 0:
            if not low < start < high:
                return False
            continue
        first, second = sorted(((low - start) / step, (high - start) / step))
        enter, leave = max(enter, first), min(leave, second)
    return enter < leave


def around(x: float, y: float, width: float, height: float, *, gap: float) -> list[Spot]:
    """Return the places around a point for a label of this size: near ones, further ones with a leader."""
    spots = []
    for ring, further in enumerate((0, 9, 20, 34, 50, 70, 94, 122)):
        for turn, degrees in enumerate(_DIRECTIONS):
            if ring > 1 and degrees % 180 == 0:
                continue  # a long level leader would hide on a level line
            dx, dy = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
            anchor = 0.5 - 0.5 * (dx > 0.2) + 0.5 * (dx < -0.2)
            left = x + dx * (gap + further) - anchor * width
            bottom = y + dy * (gap + further) - height * (0.5 - 0.5 * (dy > 0.2) + 0.5 * (dy < -0.2))
            box = Box(left, bottom, left + width, bottom + height)
            leader = None if ring == 0 else (x, y, *_nearest(box, x, y))
            spots.append(Spot(box.grown(1.0), 9.0 * ring + 1.0 * turn, leader, anchor))
    return spots


_DIRECTIONS = (0, -45, 45, 90, -90, 180, 135, -135, -25, 25, -70, 70, 110, -110, 155, -155)


def _nearest(box: Box, x: float, y: float) -> tuple[float, float]:
    return min(max(x, box.x0), box.x1), min(max(y, box.y0), box.y1)


def place(
    labels: Sequence[Sequence[Spot]],
    *,
    bounds: Box,
    points: Sequence[Box] = (),
    lines: Sequence[Segment] = (),
) -> list[Spot]:
    """Choose a spot for each label.

    Each label in turn takes its cheapest spot, then all reconsider until none wants to move; of many
    orders to begin with, drawn from a fixed seed, the best result counts.

    Parameters
    ----------
    labels
        For each label its possible spots.
    bounds
        What labels must stay inside.
    points, lines
        What labels should not cover; points matter more.
    """
    if not labels:
        return []
    allowed = [[spot for spot in spots if spot.box.inside(bounds)] or list(spots) for spots in labels]
    spots = [spot for mine in allowed for spot in mine]
    ends = np.cumsum([len(mine) for mine in allowed])
    ranges = [slice(end - len(mine), end) for mine, end in zip(allowed, ends, strict=True)]
    own = np.array([spot.cost + _in_the_way(spot, points, lines) for spot in spots])
    between = _conflicts(spots)
    orders = [list(range(len(labels)))]
    dice = random.Random(0)
    orders += [dice.sample(orders[0], len(labels)) for _ in range(_STARTS)]
    best = min((_settle(own, between, ranges, order) for order in orders), key=lambda result: result[0])
    return [spots[index] for index in best[1]]


def _in_the_way(spot: Spot, points: Sequence[Box], lines: Sequence[Segment]) -> float:
    """What a spot costs for the points and lines that it, or its leader, covers."""
    cost = _ON_POINT * sum(spot.box.overlaps(point) for point in points)
    cost += _ON_LINE * sum(crosses(line, spot.box) for line in lines)
    if spot.leader:
        x, y = spot.leader[:2]
        others = [point for point in points if not (point.x0 <= x <= point.x1 and point.y0 <= y <= point.y1)]
        cost += _LEADER_THROUGH_POINT * sum(crosses(spot.leader, point) for point in others)
    return cost


def _conflicts(spots: Sequence[Spot]) -> Floats:
    """What it costs that two spots are both taken, for every pair."""
    box = np.array([(s.box.x0, s.box.y0, s.box.x1, s.box.y1) for s in spots]).T
    # A spot without a leader has one of no length, which crosses nothing.
    line = np.array([s.leader or (s.box.x0, s.box.y0, s.box.x0, s.box.y0) for s in spots]).T
    x0, y0, x1, y1 = box
    apart = (x0[:, None] >= x1) | (x1[:, None] <= x0) | (y0[:, None] >= y1) | (y1[:, None] <= y0)
    through = _leaders_through_boxes(line, box)
    cost: Floats = _ON_LABEL * ~apart + _LEADERS_CROSS * _crossing(line)
    cost += _LEADER_THROUGH_LABEL * through + _LEADER_THROUGH_LABEL * through.T
    return cost


def _leaders_through_boxes(line: Floats, box: Floats) -> Bools:
    """`crosses` for every leader (rows) and every box (columns)."""
    enter, leave = np.zeros((1, 1)), np.ones((1, 1))
    for axis in (0, 1):
        start, step = line[axis][:, None], (line[axis + 2] - line[axis])[:, None]
        low, high = box[axis][None, :], box[axis + 2][None, :]
        # Along an axis in which the leader does not move it is inside all the way, or never.
        still, inside = step == 0, (low < start) & (start < high)
        step = np.where(still, 1.0, step)
        first, second = (low - start) / step, (high - start) / step
        enter = np.maximum(enter, np.where(still, np.where(inside, 0.0, 1.0), np.minimum(first, second)))
        leave = np.minimum(leave, np.where(still, np.where(inside, 1.0, 0.0), np.maximum(first, second)))
    moves = (line[0] != line[2]) | (line[1] != line[3])
    through: Bools = (enter < leave) & moves[:, None]
    return through


def _crossing(line: Floats) -> Bools:
    """Whether two leaders cross, for every pair."""
    x0, y0, x1, y1 = (side[:, None] for side in line)

    def side(x: Floats, y: Floats) -> Floats:
        which: Floats = (x1 - x0) * (y - y0) - (y1 - y0) * (x - x0)
        return which

    # The ends of one lie on either side of the other, and the other way round.
    parted = side(line[0], line[1]) * side(line[2], line[3]) < 0
    return parted & parted.T


def _settle(
    own: Floats, between: Floats, ranges: Sequence[slice], order: Sequence[int]
) -> tuple[float, list[int]]:
    chosen: dict[int, int] = {}
    for _ in range(_ROUNDS):
        before = dict(chosen)
        for label in order:
            others = [spot for other, spot in chosen.items() if other != label]
            costs = own[ranges[label]] + between[ranges[label]][:, others].sum(axis=1)
            chosen[label] = ranges[label].start + int(costs.argmin())
        if chosen == before:
            break
    taken = [chosen[label] for label in range(len(ranges))]
    pairs = between[np.ix_(taken, taken)]
    return float(own[taken].sum() + np.triu(pairs, 1).sum()), taken


def spread(wanted: Sequence[float], heights: Sequence[float], low: float, high: float) -> list[float]:
    """Move labels in a column apart, each as little as can be, inside `low` to `high`.

    Parameters
    ----------
    wanted
        Where the middle of each label would best be.
    heights
        How tall each is.

    Returns
    -------
    list
        The middles, in the order given. Where the labels are taller than the room together, they overlap
        evenly.
    """
    if not wanted:
        return []
    room = min(1.0, (high - low) / sum(heights))
    order = sorted(range(len(wanted)), key=lambda index: wanted[index])
    # Labels that touch move as one block, whose middle is where its members would like it to be on average.
    blocks: list[tuple[float, float, list[int]]] = []  # bottom, height, members
    for index in order:
        height = heights[index] * room
        bottom, members = wanted[index] - height / 2, [index]
        blocks.append((_clamp(bottom, low, high - height), height, members))
        while len(blocks) > 1 and blocks[-2][0] + blocks[-2][1] > blocks[-1][0]:
            _, upper_height, upper = blocks.pop()
            _, lower_height, lower = blocks.pop()
            members, height = lower + upper, lower_height + upper_height
            bottom = _block_bottom(members, wanted, [heights[i] * room for i in members])
            blocks.append((_clamp(bottom, low, high - height), height, members))
    middles = [0.0] * len(wanted)
    for bottom, _, members in blocks:
        for index in members:
            middles[index] = bottom + heights[index] * room / 2
            bottom += heights[index] * room
    return middles


def _block_bottom(members: Sequence[int], wanted: Sequence[float], heights: Sequence[float]) -> float:
    below = 0.0
    bottoms = []
    for index, height in zip(members, heights, strict=True):
        bottoms.append(wanted[index] - height / 2 - below)
        below += height
    return sum(bottoms) / len(bottoms)


def _clamp(value: float, low: float, high: float) -> float:
    return max(low, min(value, high))


def wrap(text: str, limit: float, measured: Callable[[str], float]) -> str:
    """Break a text at spaces into lines no wider than `limit`, as `measured`, where its words allow."""
    lines = [""]
    for word in text.split():
        longer = f"{lines[-1]} {word}".strip()
        if lines[-1] and measured(longer) > limit:
            lines.append(word)
        else:
            lines[-1] = longer
    return "\n".join(lines)
