"""Which step earned a delayed score, and how a trajectory compares with its group.

Three kinds of numbers, never to be mixed up:

- **Credit strategies** (`Terminal`, `Discounted`, `EqualSplit`, `Broadcast`, `ByEvidence`) spread one delayed score
  over the steps of its trajectory. Those with `conserves = True` hand out rewards: their sum is the score. The others
  hand out credits, which nobody may sum or discount again.
- **Ragged batches**: `returns_to_go`, `gae` and `shaped_rewards` work on a sequence of 1-d arrays, one a trajectory, of
  any lengths and unpadded (a padded step would count), and return a list of float64 arrays; one 1-d array or plain
  list of numbers is one trajectory and gives one array. An empty list is a batch of no trajectories.
- **Groups**: `group_advantages` compares the trajectories that share an id.

An unscored step or trajectory is NaN (or None) on the way in and NaN on the way out, never 0; it reaches the entries
that depend on it and no others. Infinite numbers, text, wrong lengths and wrong shapes raise `CreditError`.
"""

import itertools
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, TypeAlias, get_args, overload, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from rubrics.score import CreditError

Floats: TypeAlias = NDArray[np.float64]
Steps: TypeAlias = NDArray[Any] | Sequence[float | None]
AdvantageMethod: TypeAlias = Literal["grpo", "dr_grpo", "rloo", "maxrl"]

# Rewards that differ by less than this share of the largest one differ by the order of somebody's additions; a division
# by such a spread would make advantages of ±1 out of it.
ROUNDING = 1e-12


@runtime_checkable
class Credit(Protocol):
    """How a score that is known at the end of a trajectory is shared among its steps.

    Called with the score R (finite; it may be a `Score` with metadata) and the number of steps T, it returns the shares
    r_0 … r_{T-1} in the units of R, shape (T,); an empty array for T = 0. `conserves` says whether they sum to R.
    """

    conserves: ClassVar[bool]

    def __call__(self, score: float, steps: int) -> Floats: ...


@dataclass(frozen=True)
class Terminal:
    """The whole score on the last step: r_{T-1} = R, the others 0."""

    conserves: ClassVar[bool] = True

    def __call__(self, score: float, steps: int) -> Floats:
        shares = _no_shares(score, steps)
        shares[-1:] = score
        return shares


@dataclass(frozen=True)
class Discounted:
    """The score discounted by the steps still to go: r_t = gamma^(T-1-t) · R, with 0^0 = 1.

    These are the returns-to-go of a terminal reward R. Raises `CreditError` unless 0 <= gamma <= 1.
    """

    gamma: float
    conserves: ClassVar[bool] = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "gamma", _fraction(self.gamma, "gamma"))

    def __call__(self, score: float, steps: int) -> Floats:
        to_go = np.arange(_no_shares(score, steps).size, dtype=np.float64)[::-1]
        return np.power(self.gamma, to_go) * float(score)


@dataclass(frozen=True)
class EqualSplit:
    """The same share for each step: r_t = R / T."""

    conserves: ClassVar[bool] = True

    def __call__(self, score: float, steps: int) -> Floats:
        return _no_shares(score, steps) + float(score) / max(steps, 1)


@dataclass(frozen=True)
class Broadcast:
    """The whole score on each step: r_t = R, as in trainers that give all tokens of a trajectory one number."""

    conserves: ClassVar[bool] = False

    def __call__(self, score: float, steps: int) -> Floats:
        return _no_shares(score, steps) + float(score)


@dataclass(frozen=True)
class ByEvidence:
    """Equal shares for the steps that the judgement cites in `score.metadata["evidence"]`, a list of 0-based indexes.

    A step cited twice counts once. Nothing cited (a plain float, no such key, None, an empty list): all on the last
    step. Raises `CreditError` for evidence other than ints in 0 … T-1; negative ones do not count from the end.
    """

    conserves: ClassVar[bool] = True

    def __call__(self, score: float, steps: int) -> Floats:
        shares = _no_shares(score, steps)
        metadata = getattr(score, "metadata", None)
        evidence = metadata.get("evidence") if isinstance(metadata, Mapping) else None
        cited = [] if evidence is None or steps == 0 else _items(evidence, "evidence")
        for index in cited:
            if isinstance(index, bool) or not isinstance(index, (int, np.integer)) or not 0 <= index < steps:
                raise CreditError(f"evidence cites {index!r} of {steps} steps: give ints from 0 to {steps - 1}")
        shares[sorted(set(cited)) or slice(-1, None)] = float(score) / max(len(set(cited)), 1)
        return shares


def _no_shares(score: float, steps: int) -> Floats:
    """Zeros, shape (steps,), once the two arguments of every strategy are checked."""
    if isinstance(steps, bool) or not isinstance(steps, (int, np.integer)) or steps < 0:
        raise CreditError(f"steps is {steps!r}: give the number of steps of the trajectory, an int >= 0")
    if not isinstance(score, Real) or not math.isfinite(score):
        raise CreditError(f"score is {score!r}: only a finite score has shares; leave an unscored trajectory out")
    return np.zeros(steps)


@overload
def returns_to_go(rewards: Steps, gamma: float) -> Floats: ...
@overload
def returns_to_go(rewards: Sequence[Steps], gamma: float) -> list[Floats]: ...
def returns_to_go(rewards: Steps | Sequence[Steps], gamma: float) -> Floats | list[Floats]:
    """Discounted sum of the rewards from each step to the end (Sutton and Barto 2018, section 3.3).

    G_t = r_t + gamma · G_{t+1} for t = T-1 … 0, with G_T = 0.

    Args:
        rewards: r, shape (T,), or a sequence of such arrays; r_t is the reward of action t.
        gamma: the discount a step.

    Returns:
        G, in the form, shapes and units of r. An unscored r_t makes G_0 … G_t NaN (with gamma = 0 only G_t).

    Raises:
        CreditError: gamma outside [0, 1]; an infinite reward; not 1-d.
    """
    gamma = _fraction(gamma, "gamma")
    batch = _ragged(rewards, "rewards")
    return _as_given(_sum_to_go(batch.flat, batch.lengths, gamma), batch)


@overload
def gae(rewards: Steps, values: Steps, gamma: float, lam: float, bootstrap: float | Steps = 0.0) -> Floats: ...
@overload
def gae(
    rewards: Sequence[Steps], values: Sequence[Steps], gamma: float, lam: float, bootstrap: float | Steps = 0.0
) -> list[Floats]: ...
def gae(
    rewards: Steps | Sequence[Steps],
    values: Steps | Sequence[Steps],
    gamma: float,
    lam: float,
    bootstrap: float | Steps = 0.0,
) -> Floats | list[Floats]:
    """Generalised advantage estimates (Schulman et al. 2016, "High-Dimensional Continuous Control Using GAE").

    delta_t = r_t + gamma · V_{t+1} - V_t and A_t = delta_t + gamma · lam · A_{t+1}, with V_T = bootstrap and A_T = 0.

    Args:
        rewards: r, shape (T,), or a sequence of such arrays; r_t is the reward of action t.
        values: V, in the form and shapes of r; V_t is the critic's value of the state in which action t was taken.
        gamma: the discount a step.
        lam: λ; 0 trusts the critic after one step, 1 takes the whole return.
        bootstrap: V_T, the value of the state after the last step: one number, or one a trajectory, shape (B,). It is 0
            for a terminated episode, and the critic's value for a truncated one, which would have gone on.

    Returns:
        A, in the form, shapes and units of r, not normalised; A_t + V_t is the critic's target. NaN in r_t, V_t or
        V_{t+1} makes A_0 … A_t NaN (with gamma · lam = 0 only A_t).

    Raises:
        CreditError: gamma or lam outside [0, 1]; an infinite number; forms or lengths that differ; not 1-d.
    """
    gamma, lam = _fraction(gamma, "gamma"), _fraction(lam, "lam")
    batch = _ragged(rewards, "rewards")
    v = _matching(values, "values", batch, "the value after the last step goes into bootstrap")
    count = batch.lengths.size
    after = _floats([bootstrap] * count if isinstance(bootstrap, Real) else bootstrap, "bootstrap")
    if after.size != count:
        raise CreditError(f"bootstrap has {after.size} entries for {count} trajectories: give one number or one each")
    delta = batch.flat + _discounted_next(v, batch.lengths, gamma, after) - v
    return _as_given(_sum_to_go(delta, batch.lengths, gamma * lam), batch)


@overload
def shaped_rewards(rewards: Steps, potentials: Steps, gamma: float) -> Floats: ...
@overload
def shaped_rewards(rewards: Sequence[Steps], potentials: Sequence[Steps], gamma: float) -> list[Floats]: ...
def shaped_rewards(
    rewards: Steps | Sequence[Steps], potentials: Steps | Sequence[Steps], gamma: float
) -> Floats | list[Floats]:
    """Potential-based reward shaping, which keeps the best policy the best (Ng, Harada and Russell 1999).

    r'_t = r_t + gamma · phi(s_{t+1}) - phi(s_t), with phi(s_T) = 0 after the end. The discounted sum of r' is then that
    of r minus phi(s_0), whatever the policy did.

    Args:
        rewards: r, shape (T,), or a sequence of such arrays; r_t is the reward of action t.
        potentials: phi(s_t), in the form and shapes of r, where s_t is the state in which action t was taken.
        gamma: the discount a step, the one that the training uses.

    Returns:
        r', in the form, shapes and units of r. NaN in r_t, phi(s_t) or phi(s_{t+1}) makes r'_t NaN.

    Raises:
        CreditError: gamma outside [0, 1]; an infinite number; forms or lengths that differ; not 1-d.
    """
    gamma = _fraction(gamma, "gamma")
    batch = _ragged(rewards, "rewards")
    phi = _matching(potentials, "potentials", batch, "the potential after the end is 0")
    after = np.zeros(batch.lengths.size)
    return _as_given(batch.flat + _discounted_next(phi, batch.lengths, gamma, after) - phi, batch)


class _Ragged(NamedTuple):
    flat: Floats  # the trajectories one after the other, shape (sum of lengths,)
    lengths: NDArray[np.int64]  # shape (B,)
    single: bool  # one array was given, not a sequence of arrays


def _ragged(given: object, what: str) -> _Ragged:
    if hasattr(given, "__array__") and np.asarray(given).dtype != object:
        parts, single = [_floats(given, what)], True
    else:
        items = _items(given, what)
        single = bool(items) and all(issubclass(kind, (Real, np.bool_, type(None))) for kind in set(map(type, items)))
        parts = [_floats(items, what)] if single else [_floats(part, f"{what}[{i}]") for i, part in enumerate(items)]
    lengths = np.array([part.size for part in parts], dtype=np.int64)
    return _Ragged(np.concatenate([np.zeros(0), *parts]), lengths, single)


def _matching(given: object, what: str, rewards: _Ragged, hint: str) -> Floats:
    other = _ragged(given, what)
    if other.single != rewards.single or other.lengths.size != rewards.lengths.size:
        forms = ["one array" if batch.single else f"{batch.lengths.size} arrays" for batch in (other, rewards)]
        raise CreditError(f"{what} is {forms[0]} and rewards is {forms[1]}: give both in the same form")
    for i in np.flatnonzero(other.lengths != rewards.lengths):
        where = what if rewards.single else f"{what}[{i}]"
        raise CreditError(f"{where} has {other.lengths[i]} entries for {rewards.lengths[i]} steps: one a step; {hint}")
    return other.flat


def _as_given(flat: Floats, batch: _Ragged) -> Floats | list[Floats]:
    ends = np.cumsum(batch.lengths).tolist()
    return flat if batch.single else [flat[start:end] for start, end in zip([0, *ends], ends, strict=False)]


def _sum_to_go(x: Floats, lengths: NDArray[np.int64], factor: float) -> Floats:
    """y_t = x_t + factor · y_{t+1} in each trajectory, for all of them at once.

    Laid out by steps to go, the longest trajectory first, those with k steps to go are a prefix of those with k-1, so
    that the loop over k works on contiguous slices.
    """
    if factor == 0.0:  # y_t does not depend on y_{t+1}, and 0 · NaN would say that it does
        return x.copy()
    to_go = np.repeat(np.cumsum(lengths), lengths) - 1 - np.arange(x.size)
    rank = np.empty_like(lengths)
    rank[np.argsort(-lengths, kind="stable")] = np.arange(lengths.size)
    alive = np.bincount(to_go)
    starts = np.cumsum(alive) - alive
    position = starts[to_go] + np.repeat(rank, lengths)
    y = np.empty_like(x)
    y[position] = x
    before = 0
    for start, count in zip(starts[1:].tolist(), alive[1:].tolist(), strict=True):
        y[start : start + count] += factor * y[before : before + count]
        before = start
    in_order: Floats = y[position]
    return in_order


def _discounted_next(x: Floats, lengths: NDArray[np.int64], gamma: float, after: Floats) -> Floats:
    """gamma · x_{t+1}, with `after`, shape (B,), as the x_T of each trajectory."""
    if gamma == 0.0:  # as in _sum_to_go
        return np.zeros_like(x)
    following = np.append(x[1:], 0.0)[: x.size]
    following[(np.cumsum(lengths) - 1)[lengths > 0]] = after[lengths > 0]
    return gamma * following


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
    reward = _floats(rewards, "rewards")
    group, groups = _group_numbers(group_ids, reward.size)
    takes_part = ~np.isnan(reward)
    if exclude is not None:
        excluded = _items(exclude, "exclude")
        if len(excluded) != reward.size or not set(map(type, excluded)) <= {bool, np.bool_}:
            raise CreditError(f"exclude must hold {reward.size} booleans, one a reward (no indexes, no 0 and 1)")
        takes_part &= ~np.array(excluded, dtype=np.bool_)
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


def _group_numbers(group_ids: object, rows: int) -> tuple[NDArray[np.int64], int]:
    """Each row's group as a number from 0, and how many groups there are.

    A dict does this in one pass for any hashable; np.unique would sort, which is slow for strings.
    """
    ids = _items(group_ids, "group_ids")
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


def _fraction(value: object, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, Real) or not 0.0 <= float(value) <= 1.0:
        raise CreditError(f"{name} is {value!r}: give a number from 0 to 1")
    return float(value)


def _items(given: object, what: str) -> list[Any]:
    """The entries in order; refuses what has no order, and a bare string, whose characters nobody means."""
    found: object = given
    if hasattr(given, "__array__"):
        array = np.asarray(given)
        found = array.tolist() if array.ndim == 1 else None
    if not isinstance(found, Iterable) or isinstance(found, (str, bytes, Mapping, Set)):
        raise CreditError(f"{what} must be a 1-d sequence, not {type(given).__name__}: {given!r:.80}")
    return list(found)


def _floats(given: object, what: str) -> Floats:
    """A 1-d float64 array in which None has become NaN; no text is read as a number, and nothing is infinite."""
    try:
        array = np.asarray(given)
        kinds = set(map(type, array.flat)) if array.dtype == object else {array.dtype.type}
        odd = [kind.__name__ for kind in kinds if not issubclass(kind, (Real, np.bool_, type(None)))]
        if odd:
            raise TypeError(f"it holds {', '.join(odd)}")
        floats = array.astype(np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise CreditError(f"{what} is no array of numbers ({error}): give floats, and None where unscored") from error
    if floats.ndim != 1:
        raise CreditError(f"{what} has shape {floats.shape}: give 1-d arrays, one a trajectory, without padding")
    if np.isinf(floats).any():
        step = int(np.isinf(floats).argmax())
        raise CreditError(f"{what}[{step}] is {floats[step]}: give finite numbers, and None where unscored")
    return floats
