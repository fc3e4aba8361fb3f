"""Rankings of a group out of comparisons: win rates, places, and the strengths of Bradley and Terry."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from math import exp
from typing import TYPE_CHECKING, Any, Literal, get_args

from judges.asking import together
from judges.compare import Comparison, PairwiseJudge, require_two, shuffler
from judges.verdict import JudgeConfigError, JudgeFailure
from rubrics.evaluation import NO_USAGE, Usage

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

Method = Literal["round_robin", "knockout"]
By = Literal["win_rate", "rank", "bradley_terry"]


@dataclass(frozen=True, slots=True)
class Ranking:
    """A group in order.

    Attributes:
        scores: in [0, 1], by candidate.
        order: the indexes of the candidates, best first.
        wins: row i, column j: how often candidate i beat candidate j, a tie half a win each.
        comparisons: the pairs that were compared, with what came of them.
        strengths: with Bradley-Terry, the log strengths, of mean 0; else None.
        usage: what it cost.
    """

    scores: tuple[float, ...]
    order: tuple[int, ...]
    wins: tuple[tuple[float, ...], ...]
    comparisons: dict[tuple[int, int], Comparison] = field(repr=False)
    strengths: tuple[float, ...] | None
    usage: Usage


async def rank_group(
    candidates: Sequence[Any],
    judge: PairwiseJudge,
    *,
    method: Method = "round_robin",
    by: By = "win_rate",
    prior: float = 0.5,
    seed: int = 0,
    **inputs: Any,
) -> Ranking | JudgeFailure:
    """Rank a group by comparing its candidates in pairs.

    Args:
        candidates: texts, or anything that has a JSON form; two or more.
        judge: what compares two.
        method: `"round_robin"` compares all pairs; `"knockout"` one pair less than there are candidates, in rounds, the
            first of which is drawn from the seed. Where a knockout game is a tie, the first of the pair goes on; where
            their number is odd, the last goes on without a game, and is the first of the next round.
        by: what a score is. `"win_rate"`: wins / games. `"rank"`: from 1 for the best evenly down to 0 for the last, by
            wins (in a knockout: by rounds survived), ties sharing the mean of their places. `"bradley_terry"`: the
            probability of beating a candidate of mean strength.
        prior: with Bradley-Terry, the wins that each candidate is given against each other before the first game, so
            that strengths are finite where somebody won or lost all; 0 is maximum likelihood.
        seed: of the knockout's draw.
        inputs: further values of the judge's template.

    Returns:
        The ranking, or the first failure of a comparison, charged with all of them.

    Raises:
        PromptError: an input is missing, or cannot be shown.
        JudgeConfigError: there is nothing to compare, `choix` is not installed, or maximum likelihood has no answer.
    """
    require_two(candidates)
    if not isinstance(judge, PairwiseJudge):
        raise JudgeConfigError(f"rank_group compares by a PairwiseJudge, not by {judge!r}")
    check_ranking(method, by, prior)
    n = len(candidates)
    games: dict[tuple[int, int], Comparison] = {}
    survived = [0] * n
    failure: JudgeFailure | None = None

    async def play(pairs: list[tuple[int, int]]) -> JudgeFailure | None:
        played = await together(*(judge.compare(candidates[i], candidates[j], **inputs) for i, j in pairs))
        spent = _cost([*games.values(), *played])
        for pair, result in zip(pairs, played, strict=True):
            if isinstance(result, JudgeFailure):
                return replace(result, usage=spent)
            games[pair] = result
        return None

    if method == "round_robin":
        failure = await play(list(combinations(range(n), 2)))
    else:
        left = list(range(n))
        shuffler(seed, candidates).shuffle(left)
        while len(left) > 1 and failure is None:
            pairs = list(zip(left[::2], left[1::2], strict=False))
            failure = await play(pairs)
            if failure is None:
                without_game = left[2 * len(pairs) :]
                left = [*without_game, *(j if games[(i, j)].winner == "b" else i for i, j in pairs)]
                for index in left:
                    survived[index] += 1
    if failure is not None:
        return failure
    wins = [[0.0] * n for _ in range(n)]
    for (i, j), game in games.items():
        wins[i][j] += game.score
        wins[j][i] += 1.0 - game.score
    strengths = tuple(float(strength) for strength in bradley_terry(wins, prior)) if by == "bradley_terry" else None
    if strengths is not None:
        scores = [1.0 / (1.0 + exp(-strength)) for strength in strengths]
    elif by == "win_rate":
        scores = [sum(row) / (sum(row) + sum(other[i] for other in wins)) for i, row in enumerate(wins)]
    else:
        scores = _places(survived if method == "knockout" else [sum(row) for row in wins])
    order = tuple(sorted(range(n), key=lambda index: -scores[index]))
    return Ranking(tuple(scores), order, tuple(map(tuple, wins)), games, strengths, _cost(games.values()))


def check_ranking(method: str, by: str, prior: float) -> None:
    """Refuse what cannot be ranked by, before anything is paid for.

    Raises:
        JudgeConfigError: there is no such method or score, or Bradley-Terry cannot be had.
    """
    for name, value, known in (("method", method, get_args(Method)), ("by", by, get_args(By))):
        if value not in known:
            raise JudgeConfigError(f"{name} is one of {', '.join(known)}, not {value!r}")
    _check_prior(prior)
    if by == "bradley_terry":
        _solver()


def _cost(results: Iterable[Comparison | JudgeFailure]) -> Usage:
    return sum((result.usage for result in results), NO_USAGE)


def _places(values: Sequence[float]) -> list[float]:
    """From 1 for the greatest evenly down to 0 for the least; equal values share the mean of their places."""
    n = len(values)
    below = [sum(other < value for other in values) for value in values]
    equal = [sum(other == value for other in values) for value in values]
    return [(b + (e - 1) / 2) / (n - 1) for b, e in zip(below, equal, strict=True)]


def bradley_terry(wins: ArrayLike, prior: float = 0.0) -> NDArray[np.float64]:
    """Log strengths by the model of Bradley and Terry (1952): P(i beats j) = 1 / (1 + exp(s_j - s_i)).

    Args:
        wins: shape (n, n); wins[i, j] is how often i beat j, a tie half a win each. The diagonal counts for nothing.
        prior: wins that each is given against each other beforehand. 0 is maximum likelihood, which has an answer only
            where the graph of wins is strongly connected: from each one a chain of wins leads to each other.

    Returns:
        Shape (n,), of mean 0.

    Raises:
        JudgeConfigError: the wins are no such matrix, the graph is not strongly connected, the wins differ by more than
            floats can tell, or `choix` is not installed.
    """
    import numpy as np

    _check_prior(prior)
    solve, connected_components = _solver()
    try:
        matrix = np.array(wins, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise JudgeConfigError(f"wins is a square matrix of numbers: {error}") from None
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or matrix.shape[0] < 2:
        raise JudgeConfigError(f"wins is a square matrix of two or more, not of shape {matrix.shape}")
    np.fill_diagonal(matrix, 0.0)
    if not np.isfinite(matrix).all() or (matrix < 0.0).any():
        raise JudgeConfigError("wins are finite and not negative")
    matrix += prior
    np.fill_diagonal(matrix, 0.0)
    parts, member = connected_components(matrix > 0.0, directed=True, connection="strong")
    if parts > 1:
        groups = [np.flatnonzero(member == part).tolist() for part in range(parts)]
        raise JudgeConfigError(
            "maximum likelihood has no answer: the graph of wins is not strongly connected (no chain of wins leads "
            f"from each to each other; connected are {groups}). Compare more pairs, or give a prior"
        )
    try:
        with np.errstate(all="ignore"):
            strengths = np.asarray(solve(matrix, alpha=0.0, max_iter=1000), dtype=np.float64)
            centred: NDArray[np.float64] = strengths - strengths.mean()
    except (RuntimeError, ValueError) as error:  # choix gives up
        raise JudgeConfigError(f"no strengths were found: {error}. The wins differ too much: give a prior") from None
    if not np.isfinite(centred).all():
        raise JudgeConfigError("no strengths were found that a float can hold. The wins differ too much: give a prior")
    return centred


def _check_prior(prior: float) -> None:
    if isinstance(prior, bool) or not isinstance(prior, (int, float)) or not 0.0 <= prior < float("inf"):
        raise JudgeConfigError(f"prior is a number from 0, not {prior!r}")


def _solver() -> tuple[Callable[..., Any], Callable[..., Any]]:
    """What fits the strengths, and what finds the connected parts of a graph."""
    try:
        from choix import ilsr_pairwise_dense
        from scipy.sparse.csgraph import connected_components
    except ImportError as error:
        raise JudgeConfigError(f"Bradley-Terry needs {error.name}: pip install 'rubrics[stats]'") from None
    return ilsr_pairwise_dense, connected_components
