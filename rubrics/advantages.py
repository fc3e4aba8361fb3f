"""How a trajectory compares with its group: advantages.

An unscored member is None or NaN on the way in and NaN on the way out, never 0, and has no part in what the others are
compared with.
"""

import itertools
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from numbers import Integral
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from rubrics.arrays import Floats, Steps, floats_of, items_of
from rubrics.score import CreditError

AdvantageMethod: TypeAlias = Literal["grpo", "dr_grpo", "rloo", "maxrl"]

# Rewards that differ by less than this share of the largest one differ by the order of somebody's additions; a division
# by such a spread would make advantages of ±1 out of it.
ROUNDING = 1e-12


def group_advantages(
    rewards: Steps,
    group_ids: Sequence[object] | NDArray[Any],
    method: AdvantageMethod = "grpo",
    exclude: Sequence[bool] | NDArray[np.bool_] | None = None,
) -> Floats:
    """How much better each trajectory did than the others of its group, one number a trajectory.

    With n, mean and std (n - 1 in the denominator) over the members of a group that are scored and not excluded:

    - `"grpo"`: (r - mean) / std; GRPO (Shao et al. 2024, "DeepSeekMath"), with no epsilon added to std.
    - `"dr_grpo"`: r - mean; Dr. GRPO (Liu et al. 2025, "Understanding R1-Zero-Like Training").
    - `"rloo"`: r - mean of the others = (r - mean) · n / (n - 1); RLOO (Kool et al. 2019; Ahmadian et al. 2024).
    - `"maxrl"`: (r - mean) / mean, and 0 where mean <= 0; MaxRL (Tajwar et al. 2026, "Maximum Likelihood
      Reinforcement Learning", for rewards of 0 and 1).

    A group of one, or of equal rewards, has advantage 0. Rewards are equal, and a mean is 0, if that is so up to
    rounding: 1e-12 of the group's largest |reward|.

    Args:
        rewards: shape (n,), one a trajectory, of any finite range; None or NaN where unscored.
        group_ids: shape (n,), hashable and of one type; equal ids are a group, in any order and of any size.
        method: one of the above.
        exclude: shape (n,), booleans; True for members that must not count, such as truncated or failed ones.

    Returns:
        Shape (n,), in the units of the reward for dr_grpo and rloo, without units for grpo and maxrl; NaN for unscored
        and excluded members, which the loss must leave out.

    Raises:
        CreditError: an unknown method; an infinite reward, excluded or not; shapes that differ; ids that are missing,
            unhashable or of several types; an `exclude` that is not boolean.
    """
    if method not in get_args(AdvantageMethod):
        raise CreditError(f"method is {method!r}: use one of {', '.join(get_args(AdvantageMethod))}")
    reward = floats_of(rewards, "rewards")
    group, groups = _group_numbers(group_ids, reward.size)
    takes_part = ~(np.isnan(reward) | _mask(exclude, reward.size))
    x, g = reward[takes_part], group[takes_part]

    n = np.bincount(g, minlength=groups)
    high, low = np.full(groups, -np.inf), np.full(groups, np.inf)
    np.maximum.at(high, g, x)
    np.minimum.at(low, g, x)
    # In units of a power of two near the group's largest |reward|: exact, and no square can over- or underflow.
    exponent = np.frexp(np.where(n > 0, np.maximum(high, -low), 0.0))[1]
    x = np.ldexp(x, -exponent[g])
    varies = np.ldexp(high, -exponent) - np.ldexp(low, -exponent) > ROUNDING

    # Centred twice: the second mean is what rounding left over in the first.
    mean = np.bincount(g, x, groups) / np.maximum(n, 1)
    rest = np.bincount(g, x - mean[g], groups) / np.maximum(n, 1)
    centred = x - mean[g] - rest[g]

    divisor = np.ones(groups)
    if method == "grpo":
        divisor = np.sqrt(np.bincount(g, centred**2, groups) / np.maximum(n - 1, 1))
    elif method == "rloo":
        divisor = (n - 1) / np.maximum(n, 1)
    elif method == "maxrl":
        divisor = mean + rest
        varies &= divisor > ROUNDING
    relative = centred / np.where(varies, divisor, np.inf)[g] + 0.0  # makes 0.0 of -0.0
    advantages = np.full(reward.size, np.nan)
    advantages[takes_part] = np.ldexp(relative, exponent[g]) if method in ("dr_grpo", "rloo") else relative
    return advantages


def component_advantages(
    scores: Mapping[str, Steps],
    weights: Mapping[str, float],
    group_ids: Sequence[object] | NDArray[Any],
    method: AdvantageMethod = "grpo",
    *,
    exclude: Sequence[bool] | NDArray[np.bool_] | None = None,
    whiten: bool = False,
) -> Floats:
    """Advantages of several rewards: each is compared within the group by itself, and then they are added.

    A_i = Σ_k w_k · A_ik, with A_ik the advantage of i by the k-th reward alone (see `group_advantages`). Summed first
    and then compared (`group_advantages` of the weighted sum), a reward that varies much drowns one that varies little;
    here the weights alone decide (GDPO, Liu et al. 2026; TRL's `normalize_then_sum`).

    Args:
        scores: by name, each of shape (n,), of any finite range; None or NaN where unscored.
        weights: by the same names; finite.
        group_ids, method: as for `group_advantages`.
        exclude: shape (n,), booleans; True for members that must not count.
        whiten: whether the sums are normalised over the whole batch, (A - mean) / std with n - 1 in the denominator, as
            GDPO and TRL do after `"grpo"`; where they do not vary, they are 0.

    Returns:
        Shape (n,); NaN for excluded members and for those that any reward with a weight other than 0 is missing of.
        They have no part in any reward's comparison, so that all rewards compare the same members.

    Raises:
        CreditError: names that differ, a weight that is not finite, none at all, and what `group_advantages` refuses.
    """
    if set(scores) != set(weights) or not scores:
        raise CreditError(
            f"scores are of {', '.join(scores) or 'nothing'}, weights of {', '.join(weights) or 'nothing'}"
        )
    if odd := [f"{name} = {weight!r}" for name, weight in weights.items() if not math.isfinite(weight)]:
        raise CreditError(f"weights must be finite: {', '.join(odd)}")
    columns = {name: floats_of(values, f"scores[{name!r}]") for name, values in scores.items() if weights[name] != 0}
    out = _mask(exclude, len(items_of(group_ids, "group_ids")))
    for name, column in columns.items():
        if column.size != out.size:
            raise CreditError(f"scores[{name!r}] has {column.size} rows and group_ids has {out.size}")
        out |= np.isnan(column)
    total = np.where(out, np.nan, 0.0)
    for name, column in columns.items():
        total += weights[name] * group_advantages(column, group_ids, method, out)
    if whiten:
        total = group_advantages(total, np.zeros(total.size, dtype=np.int64), "grpo")
    return total


def _mask(exclude: Sequence[bool] | NDArray[np.bool_] | None, rows: int) -> NDArray[np.bool_]:
    excluded = [False] * rows if exclude is None else items_of(exclude, "exclude")
    if len(excluded) != rows or not set(map(type, excluded)) <= {bool, np.bool_}:
        raise CreditError(f"exclude must hold {rows} booleans, one a reward (no indexes, no 0 and 1)")
    return np.array(excluded, dtype=np.bool_)


def _group_numbers(group_ids: object, rows: int) -> tuple[NDArray[np.int64], int]:
    """Each row's group as a number from 0, and how many groups there are.

    A dict does this in one pass for any hashable; np.unique would sort, which is slow for strings.
    """
    ids = items_of(group_ids, "group_ids")
    if len(ids) != rows:
        raise CreditError(f"group_ids has {len(ids)} rows and rewards has {rows}: give one id a reward")
    kinds = {next((f for f in (bool, str, Integral) if issubclass(k, f)), k) for k in set(map(type, ids))}
    # 0-d tensors hash by identity: each row would be a group of its own.
    unfit = [k for k in kinds if k is type(None) or (hasattr(k, "__array__") and not issubclass(k, np.generic))]
    if unfit or len(kinds) > 1:
        first = {type(known).__name__: row for row, known in reversed(list(enumerate(ids)))}
        held = ", ".join(f"{name} (row {row})" for name, row in first.items())
        raise CreditError(f"group_ids holds {held}: give every reward the id of its group, all ints or all strings")
    numbers: defaultdict[Any, int] = defaultdict(itertools.count().__next__)
    try:
        group = np.fromiter(map(numbers.__getitem__, ids), dtype=np.int64, count=rows)
    except TypeError as error:
        raise CreditError(f"group_ids holds an id that cannot be hashed ({error}): give ints or strings") from error
    if any(isinstance(known, float) and math.isnan(known) for known in numbers):
        raise CreditError("group_ids holds NaN: give every reward the id of its group, all ints or all strings")
    return group, len(numbers)
