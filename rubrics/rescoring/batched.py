"""Steps of many trajectories scored at once, ahead of their replay.

Where one step is recorded, the last, it is replayed as ever, for its reasons. Of the steps before it only the scores
count: where all leaves of a tree have a `forward_batch`, those of many trajectories are scored in one batch. What is
unscored there, or raises, is replayed too.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from rubrics.batch.driver import batches, columns_of, has_batch
from rubrics.batch.rows import Batch
from rubrics.engine.plan import LEAF
from rubrics.rescoring.replay import Method, Replay

_STEPS = 128  # scored in one batch, about
_TRAJECTORIES = 64  # read ahead at most


def gains(method: Method) -> bool:
    """Whether steps are scored ahead: a leaf without a `forward_batch` may ask for more than its row, the episode."""
    plan = method.rubric._compiled()
    if method.record != "last" or method.live or plan.is_async or not batches(plan):
        return False
    return all(has_batch(place) for place in plan.root if place.kind == LEAF)


def scored_ahead(replays: Iterable[tuple[int, Replay]], method: Method) -> Iterator[tuple[int, Replay]]:
    """The same replays, in order, with the scores of steps before their last one where those are known."""
    source = iter(replays)
    while some := list(_as_many(source)):
        _score([replay for _, replay in some], method)
        yield from some


def _as_many(replays: Iterator[tuple[int, Replay]]) -> Iterator[tuple[int, Replay]]:
    steps = 0
    for number, replay in islice(replays, _TRAJECTORIES):
        yield number, replay
        steps += len(replay.steps)
        if steps >= _STEPS:
            return


def _score(replays: Sequence[Replay], method: Method) -> None:
    places = [(replay, index) for replay in replays for index in replay.steps_before_the_last()]
    if not places:
        return
    steps = [replay.steps[index] for replay, index in places]
    batch = Batch(
        method.rubric,
        [step.action for step in steps],
        [step.observation for step in steps],
        [replay.task for replay, _ in places],
    )
    try:
        scores = columns_of(batch)
    except Exception as error:  # the replay is as good, and can tell whose fault it is
        warnings.warn(
            f"steps are scored one by one, since a batch of them raised {type(error).__name__}: {error}",
            RuntimeWarning,
            stacklevel=2,
        )
        return
    if batch.spent:  # by which row, nobody knows
        return
    for (replay, index), score in zip(places, scores.tolist(), strict=True):
        if score - score == 0.0:
            replay.known[index] = score
