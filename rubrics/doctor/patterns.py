"""What the scores of many trajectories show."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from rubrics.doctor.findings import Finding, Severity, found
from rubrics.doctor.measured import Measured
from rubrics.doctor.statistics import area_under_curve, correlation, least_share, partial_rank_correlation, ranks
from rubrics.rubric import Rubric

ENOUGH = 20
"""Rows below which nothing is said of how a score is spread."""
SATURATED = 0.9
"""A node is saturated where the share of rows to which it gives one score has an interval above this."""
SAME = 0.98
"""Two leaves whose scores correlate at least so much are redundant; a node that does with the reward decides it."""
LOST = 0.05
"""Unscored rows beyond this share are told."""
MOST_LOST = 0.5
"""A reward that is unscored in so large a share of the rows is an error."""
FLAT = 0.5
"""Groups without variance from this share on are a warning; from a fifth on, a note."""
LENGTH = 0.3
"""The interval of the correlation with length must lie beyond this."""
EFFECT = 0.1
"""And length must move the reward by at least this share of its span."""
CHANCE = 0.5
LATE = 0.1
"""Of the reward, the share paid after the recorded reward had all been paid that is told."""

Floats = NDArray[np.float64]


def patterns(rubric: Rubric, data: Measured) -> Iterator[Finding]:
    """What is wrong with a tree by the scores of its nodes.

    Args:
        rubric: the tree.
        data: scored trajectories.
    """
    yield from _outcomes(data)
    yield from _spread(rubric, data)
    yield from _groups(data)
    yield from _together(rubric, data)
    yield from _length(data)
    yield from _disagreement(data)
    yield from _late(data)


def _outcomes(data: Measured) -> Iterator[Finding]:
    rows = data.rows.total()
    if unread := data.rows["unreadable"]:
        what = f"{unread} of {rows} trajectories could not be read, such as {data.unread[0]}"
        yield found("unreadable", "", what, trajectories=rows, unreadable=unread, examples=data.unread)
    if failed := data.rows["error"]:
        what = f"{failed} of {rows} trajectories have no reward because of an error, such as {data.reasons[0]}"
        yield found("errors", "", what, trajectories=rows, errors=failed, examples=data.reasons)
    for path in data.paths:
        counts = data.statuses[path]
        ran = counts.total() - counts["skipped"]
        if path and not ran and data.scores.shape[0]:
            what = f"it ran in none of {data.scores.shape[0]} trajectories"
            yield found("never-ran", path, what, trajectories=data.scores.shape[0])
        elif ran and counts["unscored"] / ran > LOST:
            share = counts["unscored"] / ran
            what = f"it has no score in {counts['unscored']} of the {ran} trajectories in which it ran"
            severity: Severity | None = "error" if not path and share >= MOST_LOST else None
            reasons = dict(data.why[path].most_common(3))
            yield found(
                "unscored", path, what, severity=severity, ran=ran, unscored=counts["unscored"], reasons=reasons
            )


def _spread(rubric: Rubric, data: Measured) -> Iterator[Finding]:
    for number, path in enumerate(data.paths):
        node = rubric.get_rubric(path) if path else rubric
        column = data.scores[:, number]
        values = column[np.isfinite(column)]
        low, high = node.range
        outside = values[(values < low - 1e-9) | (values > high + 1e-9)]
        if outside.size:
            what = f"it declares the range {low:g} to {high:g}, and scored {outside[0]:g}"
            yield found("range", path, what, declared=[low, high], outside=int(outside.size), example=float(outside[0]))
        if values.size < ENOUGH:
            continue
        distinct, counts = np.unique(values, return_counts=True)
        most = int(counts.argmax())
        share = float(counts[most] / values.size)
        if distinct.size == 1:
            what = f"it scored {distinct[0]:g} in all of {values.size} trajectories"
            yield found("constant", path, what, n=int(values.size), score=float(distinct[0]))
        elif least_share(int(counts[most]), int(values.size)) >= SATURATED:
            what = f"it scored {distinct[most]:g} in {100 * share:.0f} % of {values.size} trajectories"
            yield found("saturated", path, what, n=int(values.size), score=float(distinct[most]), share=share)


def _groups(data: Measured) -> Iterator[Finding]:
    members: dict[object, list[float]] = {}
    for group, reward in zip(data.groups, data.rewards, strict=True):
        if group is not None and np.isfinite(reward):
            members.setdefault(group, []).append(float(reward))
    several = [rewards for rewards in members.values() if len(rewards) > 1]
    if len(several) < 5:
        return
    flat = [rewards for rewards in several if np.ptp(rewards) <= 1e-9 * max(1.0, max(map(abs, rewards)))]
    share = len(flat) / len(several)
    if share >= FLAT / 2.5:
        top = sum(rewards[0] >= float(np.nanmax(data.rewards)) for rewards in flat)
        what = (
            f"{len(flat)} of {len(several)} groups have one reward for all of their rollouts: they teach GRPO nothing"
        )
        severity = "warning" if share >= FLAT else "note"
        yield found("flat-groups", "", what, severity=severity, groups=len(several), flat=len(flat), at_the_top=top)  # type: ignore[arg-type]


def _together(rubric: Rubric, data: Measured) -> Iterator[Finding]:
    leaves = {
        id(node): number
        for number, (path, node) in enumerate([("", rubric), *rubric.named_rubrics()])
        if path and not list(node.named_children())
    }
    numbers = list(leaves.values())
    told: set[int] = set()
    for at, a in enumerate(numbers):
        for b in numbers[at + 1 :]:
            r, n = _related(data.scores[:, a], data.scores[:, b])
            if r is not None and abs(r) >= SAME and b not in told:
                told.add(b)
                one, other = data.paths[a], data.paths[b]
                what = f"it says the {'same' if r > 0 else 'opposite'} as {one}"
                yield found("redundant", other, what, correlation=r, n=n, other=one)
    varying = []
    for number in numbers:
        r, n = _related(data.scores[:, number], data.rewards)
        if r is not None:
            varying.append((abs(r), r, n, number))
    if len(numbers) > 1 and varying:
        strongest, r, n, number = max(varying)
        others = [other for other in varying if other[3] != number and other[3] not in told]
        if strongest >= SAME and all(other[0] < SAME for other in others):
            what = f"it decides the reward alone: the other {len(numbers) - 1} leaves hardly change it"
            yield found("decides-alone", data.paths[number], what, correlation=r, n=n)


def _related(x: Floats, y: Floats) -> tuple[float | None, int]:
    both = np.isfinite(x) & np.isfinite(y)
    n = int(both.sum())
    return (correlation(x[both], y[both]) if n >= ENOUGH else None), n


def _length(data: Measured) -> Iterator[Finding]:
    known = np.isfinite(data.rewards) & np.isfinite(data.lengths)
    held = known & np.isfinite(data.outcomes)
    own = bool(np.array_equal(data.outcomes[held], data.rewards[held]))
    rows, given = (held, data.outcomes[held]) if held.sum() >= ENOUGH and not own else (known, None)
    if rows.sum() < ENOUGH:
        return
    r = partial_rank_correlation(data.rewards[rows], data.lengths[rows], given)
    effect = _effect(data.rewards[rows], data.lengths[rows], given)
    if r is not None and (r.low > LENGTH or r.high < -LENGTH) and abs(effect) >= EFFECT:
        kind = "longer" if r.value > 0 else "shorter"
        beside = "" if given is None else ", among episodes of equal outcome"
        what = f"{kind} answers get more{beside}"
        yield found("length-bias", "", what, correlation=r.value, low=r.low, high=r.high, effect=effect, n=r.n)


def _effect(rewards: Floats, lengths: Floats, given: Floats | None) -> float:
    """What the longest answers get beyond the shortest, by a linear fit on ranks of length, in spans of the reward."""
    beside = [] if given is None else [given]
    design = np.column_stack([np.ones(rewards.size), ranks(lengths) / rewards.size, *beside])
    span = float(np.ptp(rewards))
    return float(np.linalg.lstsq(design, rewards, rcond=None)[0][1]) / span if span else 0.0


def _disagreement(data: Measured) -> Iterator[Finding]:
    held = np.isfinite(data.rewards) & np.isfinite(data.outcomes)
    outcomes = data.outcomes[held]
    if held.sum() < ENOUGH or np.ptp(outcomes) == 0.0:
        return
    middle = (outcomes.max() + outcomes.min()) / 2.0
    area = area_under_curve(data.rewards[held], outcomes > middle)
    if area is not None and area.low <= CHANCE:
        worse = area.high < CHANCE
        what = (
            "the reward is higher where the episode was recorded as a failure"
            if worse
            else "the reward does not tell episodes recorded as a success from the others"
        )
        evidence = {"auc": area.value, "low": area.low, "high": area.high, "n": area.n}
        wide = area.high > 0.75  # too few rows to say more
        yield found("disagrees", "", what, severity="note" if wide and not worse else "error", **evidence)


def _late(data: Measured) -> Iterator[Finding]:
    late = [(episode, share) for episode, share in data.late if share > 1e-9]
    if not late:
        return
    mean = float(np.mean([share for _, share in data.late]))
    if mean >= LATE:
        what = (
            f"in {len(late)} of {len(data.late)} episodes that went on after their recorded reward had all been paid, "
            "this reward went on rising"
        )
        examples = [episode for episode, _ in sorted(late, key=lambda each: -each[1])[:3]]
        yield found("rises-after-done", "", what, episodes=len(data.late), share_paid_late=mean, examples=examples)
