"""The rewards of a finished episode, step by step."""

from __future__ import annotations

from dataclasses import dataclass
from math import fsum, isclose
from typing import TYPE_CHECKING, Any, Literal

from rubrics.engine.journal import Journal
from rubrics.engine.plan import Plan
from rubrics.score import CreditError
from rubrics.trajectory import Reduction

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from rubrics.episode import Episode


@dataclass(frozen=True, slots=True)
class StepRewards:
    """The rewards of a finished episode, step by step.

    Attributes:
        values: (T,) what each step gets once delayed rewards are credited to the steps; NaN where there is none.
        emitted: (T,) what each step paid while the episode ran; NaN where a step was unscored.
        total: `emitted` under the reduction; None where the episode is unscored.
        kind: `"reward"` if every credit conserves its sum, so that `values` may be summed or discounted; `"credit"` if
            not (discounted or broadcast credit), and then nobody may sum or discount `values` again.
        reduction: how `total` follows from `emitted`: `"sum"` or `"last"`.
    """

    values: NDArray[np.float64]
    emitted: NDArray[np.float64]
    total: float | None
    kind: Literal["reward", "credit"]
    reduction: Reduction


def reduced(emitted: list[float | None], reduction: Reduction) -> float | None:
    """The total of what steps paid; None where the last step, or one that counts, was unscored."""
    if not emitted or emitted[-1] is None:
        return None
    if reduction == "last":
        return emitted[-1]
    return None if None in emitted else fsum(emitted)  # type: ignore[arg-type]


def spread(
    episode: Episode, plan: Plan, journal: Journal, paid: list[float | None], shares: dict[int, float]
) -> StepRewards:
    """Credit the delayed scores of an episode that is over to its steps.

    Args:
        episode, plan, journal: the episode, its tree, and what its nodes keep.
        paid: what each step paid.
        shares: how much of each delayed node's score, by node index, the last step was paid.

    Raises:
        CreditError: a credit that should conserve its sum does not, or cites steps that do not exist.
    """
    import numpy as np

    emitted = np.array([np.nan if r is None else r for r in paid], dtype=np.float64)
    delayed: list[Any] = plan.delayed
    kind: Literal["reward", "credit"] = "reward" if all(node._conserves() for node in delayed) else "credit"
    if episode.total is None:
        return StepRewards(np.full(len(paid), np.nan), emitted, None, kind, episode.reduction)
    values = emitted.copy()
    if shares:
        nodes = {plan.by_node[id(node)][0].index: node for node in delayed}
        for index, share in shares.items():
            node = nodes[index]
            score: Any = journal.score_of(node)
            steps = journal.steps_of(node)
            credit = node._credited(episode, score, len(steps))
            credit[-1] -= float(score)  # the last step was paid the whole of it
            values[steps] += share * credit
    if shares and kind == "reward" and not np.isnan(values).any():  # a share on an unscored step is lost with it
        before, after = fsum(emitted), fsum(values)
        if not isclose(before, after, rel_tol=1e-9, abs_tol=1e-9 * max(1.0, float(np.abs(values).max()))):
            raise CreditError(
                f"a credit that should conserve its sum does not: the steps paid {before}, "
                f"the credited values sum to {after}"
            )
    return StepRewards(values, emitted, episode.total, kind, episode.reduction)
