"""Which step earned a delayed score, and how a trajectory compares with its group.

Three kinds of numbers, never to be mixed up:

- **Credit strategies** (`Terminal`, `Discounted`, `EqualSplit`, `Broadcast`, `ByEvidence`) spread one delayed score
  over the steps of its trajectory. Those with `conserves = True` hand out rewards: their sum is the score. The others
  hand out credits, which nobody may sum or discount again.
- **Ragged batches**: `returns_to_go`, `gae` and `shaped_rewards` work on a sequence of 1-d arrays, one a trajectory, of
  any lengths and unpadded (a padded step would count), and return a list of float64 arrays; one 1-d array or plain
  list of numbers is one trajectory and gives one array. An empty list is a batch of no trajectories.
- **Groups**: `group_advantages` and `component_advantages` compare the trajectories that share an id (written in
  `rubrics.advantages`).

An unscored step or trajectory is NaN (or None) on the way in and NaN on the way out, never 0; it reaches the entries
that depend on it and no others. Infinite numbers, text, wrong lengths and wrong shapes raise `CreditError`.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import ClassVar, NamedTuple, Protocol, overload, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from rubrics.advantages import AdvantageMethod, component_advantages, group_advantages
from rubrics.arrays import Floats, Steps, floats_of, items_of
from rubrics.score import CreditError

__all__ = [
    "AdvantageMethod",
    "Broadcast",
    "ByEvidence",
    "Credit",
    "Discounted",
    "EqualSplit",
    "Terminal",
    "component_advantages",
    "gae",
    "group_advantages",
    "returns_to_go",
    "shaped_rewards",
]


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
        cited = [] if evidence is None or steps == 0 else items_of(evidence, "evidence")
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
    after = floats_of([bootstrap] * count if isinstance(bootstrap, Real) else bootstrap, "bootstrap")
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
        parts, single = [floats_of(given, what)], True
    else:
        items = items_of(given, what)
        single = bool(items) and all(issubclass(kind, (Real, np.bool_, type(None))) for kind in set(map(type, items)))
        parts = (
            [floats_of(items, what)] if single else [floats_of(part, f"{what}[{i}]") for i, part in enumerate(items)]
        )
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


def _fraction(value: object, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, Real) or not 0.0 <= float(value) <= 1.0:
        raise CreditError(f"{name} is {value!r}: give a number from 0 to 1")
    return float(value)
