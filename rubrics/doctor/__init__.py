"""Finds what will spoil a training run before it starts: in a tree, in the scores of trajectories, and by attacks.

```python
diagnosis = examine(rubric, read("runs.jsonl"))
print(diagnosis.text())
```

Every finding names its check, the node, the numbers behind it, and what to do. `CHECKS` lists the checks.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from rubrics.doctor.attacks import Attack, attacks_on, attempts
from rubrics.doctor.findings import CHECKS, Diagnosis, Finding, Severity, diagnosis, found
from rubrics.doctor.measured import Measured, measured
from rubrics.doctor.patterns import ENOUGH, patterns
from rubrics.doctor.structure import asks_models, structural_findings
from rubrics.evaluation import Evaluation
from rubrics.formats.parsing import FormatProblem
from rubrics.rescoring.rows import Row
from rubrics.rescoring.run import AssumedEnd, rescore
from rubrics.rescoring.types import Types
from rubrics.rubric import Rubric
from rubrics.trajectory import Trajectory

GAIN = 1e-6
"""An attempt is paid more than a real answer where the difference is greater than this."""
OFTEN = 0.25
"""The share of real answers that an attempt must beat, where it does not beat their mean."""


def examine(
    rubric: Rubric,
    trajectories: Iterable[Trajectory | FormatProblem] | None = None,
    *,
    rows: Iterable[Row] | None = None,
    outcome: Callable[[Trajectory], Any] | None = None,
    types: Types | None = None,
    assume_end: AssumedEnd | None = None,
    attack: bool = True,
    ask_models: bool = False,
    sample: int = 30,
    seed: int = 0,
) -> Diagnosis:
    """Examine a rubric.

    Args:
        rubric: the tree.
        trajectories: recorded episodes, as `rubrics.formats.read` gives them; they are scored under the rubric.
        rows: of a run that scored them already, such as `read_rows` gives; then nothing is scored, but attacks.
        outcome: what an episode is held against, a number or a boolean; by default the reward it was recorded with.
        types, assume_end: as for `rubrics.rescoring.rescore`.
        attack: whether exploits are tried, on episodes that have a reward.
        ask_models: whether a rubric that asks models may do so, for trajectories and attacks.
        sample: episodes that attacks are made of, at most, drawn with `seed`.

    Raises:
        ValueError: neither rows nor trajectories are given where an outcome is.
    """
    findings = list(structural_findings(rubric))
    looked_at = {"nodes": 1 + len(list(rubric.rubrics()))}
    skipped: list[str] = []
    drawn = _Drawn(sample, seed)
    asks = asks_models(rubric) and not ask_models
    if rows is not None:
        pairs: Iterator[tuple[Row, Trajectory | None]] = _matched(rows, trajectories)
    elif trajectories is not None and not asks:
        pairs = _scored(rubric, trajectories, types, assume_end)
    else:
        if asks and trajectories is not None:
            skipped.append("trajectories and attacks: the rubric asks models; allow that, or give the rows of a run")
        return diagnosis(findings, looked_at, skipped)
    data = measured(rubric, drawn.passing(pairs), outcome)
    findings += _without_twice(findings, patterns(rubric, data))
    scored = int(np.isfinite(data.rewards).sum())
    if scored < ENOUGH:
        skipped.append(f"how scores are spread: {scored} trajectories have a reward, {ENOUGH} are needed")
    looked_at |= {
        "trajectories": data.rows.total(),
        "scored": scored,
        **({"unfinished": data.rows["unfinished"]} if data.rows["unfinished"] else {}),
        "groups": len({group for group in data.groups if group is not None}),
    }
    if not attack:
        return diagnosis(findings, looked_at, skipped)
    if asks:
        skipped.append("attacks: the rubric asks models; allow that")
    elif live := [path or "the root" for path, node in _nodes(rubric) if node.needs_live_state]:
        skipped.append(f"attacks: {', '.join(live[:5])} cannot be scored without the live environment")
    elif not drawn.episodes:
        skipped.append("attacks: no trajectory has a reward that an attempt could be compared with")
    else:
        looked_at["attempts"] = 0
        for each in attacks_on(rubric):
            made = list(attempts(each, drawn.episodes))
            looked_at["attempts"] += len(made)
            findings += _tried(rubric, each, made, drawn.rewards, types)
    return diagnosis(findings, looked_at, skipped)


class _Drawn:
    """Episodes that have a reward, drawn evenly as they pass."""

    def __init__(self, size: int, seed: int) -> None:
        self.size, self.random = size, random.Random(seed)
        self.episodes: list[Trajectory] = []
        self.rewards: list[float] = []
        self.seen = 0

    def passing(self, pairs: Iterable[tuple[Row, Trajectory | None]]) -> Iterator[tuple[Row, Trajectory | None]]:
        for row, trajectory in pairs:
            if trajectory is not None and trajectory.steps and row.reward is not None:
                self.seen += 1
                if len(self.episodes) < self.size:
                    self.episodes.append(trajectory)
                    self.rewards.append(row.reward)
                elif (place := self.random.randrange(self.seen)) < self.size:
                    self.episodes[place], self.rewards[place] = trajectory, row.reward
            yield row, trajectory


def _scored(
    rubric: Rubric,
    trajectories: Iterable[Trajectory | FormatProblem],
    types: Types | None,
    assume_end: AssumedEnd | None,
) -> Iterator[tuple[Row, Trajectory | None]]:
    under_way: deque[Trajectory | FormatProblem] = deque()

    def passing() -> Iterator[Trajectory | FormatProblem]:
        for trajectory in trajectories:
            under_way.append(trajectory)
            yield trajectory

    for row in rescore(passing(), rubric, types=types, assume_end=assume_end, record="last"):
        trajectory = under_way.popleft()
        yield row, trajectory if isinstance(trajectory, Trajectory) else None


def _matched(
    rows: Iterable[Row], trajectories: Iterable[Trajectory | FormatProblem] | None
) -> Iterator[tuple[Row, Trajectory | None]]:
    known = {each.id: each for each in trajectories or () if isinstance(each, Trajectory)}
    for row in rows:
        yield row, None if row.id is None else known.get(row.id)


def _tried(
    rubric: Rubric, attack: Attack, made: list[tuple[int, Trajectory]], rewards: list[float], types: Types | None
) -> Iterator[Finding]:
    rows = list(rescore([attempt for _, attempt in made], rubric, types=types, record="last"))
    failed = [row for row in rows if row.status == "error"]
    if failed:
        what = f"{attack.what} makes the rubric raise in {len(failed)} of {len(rows)} attempts: {failed[0].reason}"
        yield found("errors", "", what, attack=attack.name, attempts=len(rows), errors=len(failed))
    paid = [
        (row.reward, rewards[number], row)
        for (number, _), row in zip(made, rows, strict=True)
        if row.reward is not None
    ]
    if not paid:
        return
    got, real = np.array([each[0] for each in paid]), np.array([each[1] for each in paid])
    beats = float((got > real + GAIN).mean())
    above = bool(got.mean() > real.mean() + GAIN)
    if not (beats >= OFTEN or (above and beats > 0.0)):
        return
    best = max(paid, key=lambda each: each[0] - each[1])
    said = "more than it" if attack.keeps_answer else "more than the real answers"
    what = f"{attack.what} gets {got.mean():.3g} on average, where the real answers get {real.mean():.3g}"
    if not above:
        what = f"{attack.what} gets {said} in {100 * beats:.0f} % of the episodes"
    yield found(
        "exploit",
        "",
        what,
        severity="error" if above else "warning",
        attack=attack.name,
        attempts=len(paid),
        beats=beats,
        mean=float(got.mean()),
        mean_of_real=float(real.mean()),
        example=str(best[2].id),
        paid_by=_paying(best[2].evaluation),
    )


def _paying(evaluation: Evaluation | None) -> list[str]:
    """The leaves that gave something, the most generous first."""
    leaves: list[tuple[float, str]] = []
    todo = [evaluation] if evaluation is not None else []
    while todo:
        node = todo.pop()
        todo += node.children
        if not node.children and node.score is not None and node.score > 0.0:
            leaves.append((-node.score, node.path))
    return [path for _, path in sorted(leaves)[:5]]


def _without_twice(known: list[Finding], more: Iterable[Finding]) -> Iterator[Finding]:
    """Findings, but for those that the tree itself has shown already."""
    told = {(each.check, each.path) for each in known}
    return (each for each in more if (each.check, each.path) not in told)


def _nodes(rubric: Rubric) -> list[tuple[str, Rubric]]:
    return [("", rubric), *rubric.named_rubrics()]


__all__ = ["CHECKS", "Attack", "Diagnosis", "Finding", "Measured", "Severity", "attacks_on", "examine"]
