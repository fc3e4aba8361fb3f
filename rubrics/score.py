"""What a node can answer, and the errors of the package.

A node has one of four outcomes, which are never confused:

* **scored**: a finite `float` (or a `Score`, a float that can explain itself);
* **pending**: a `Score` with `pending=True`: a delayed node before the end, carrying its intermediate reward;
* **unscored**: it could not be assessed. `forward` returns `None` or raises `Unscored` with a reason;
* **error**: an exception, which keeps its type and gains a note with the path of the node.

Inside the engine an unscored outcome is an `Unscored` instance, so that its reason is not lost; a caller sees
`None`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import isawaitable
from typing import Any, TypeAlias


class RubricError(Exception):
    """The base of every error of this package; raised itself by hosts, with a message that is safe to send."""


class InvalidScoreError(RubricError, ValueError):
    """A node answered with something that is not a score: NaN, infinity, a string, an awaitable, …"""


class StructureError(RubricError, ValueError):
    """A tree cannot be built like this: a cycle, a name that is taken, weights that do not fit, …"""


class StateError(RubricError, ValueError):
    """A state dict has unknown keys or invalid values; nothing was changed."""


class CaseError(RubricError, LookupError):
    """A `Switch` was asked for a case that it does not have."""


class EpisodeError(RubricError, RuntimeError):
    """An episode was used in a way it does not allow."""


class EpisodeOverError(EpisodeError):
    """A step after the end. The reward of a finished episode is paid once; reset, or start a new episode."""


class CreditError(RubricError, ValueError):
    """Rewards cannot be spread over steps, or compared in groups, as they are."""


class Unscored(RubricError):
    """Raised by a leaf that cannot assess what it was given; the node is then unscored, which is not 0.

    Args:
        reason: why, in words; it is kept in the record of the node.
        metadata: anything else worth keeping.
    """

    def __init__(self, reason: str | None = None, metadata: Mapping[str, Any] | None = None) -> None:
        super().__init__(reason or "unscored")
        self.reason = reason
        self.metadata: dict[str, Any] = dict(metadata or {})


class Score(float):
    """A float that can explain itself.

    Args:
        value: the score. It must be finite by the time a node returns it.
        reason: why, in words.
        metadata: anything else worth keeping, such as the label or the evidence of a judgement.
        pending: True for the intermediate reward of a node whose judgement is still to come.
    """

    __slots__ = ("metadata", "pending", "reason")

    reason: str | None
    metadata: dict[str, Any]
    pending: bool

    def __new__(
        cls,
        value: float,
        reason: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        pending: bool = False,
    ) -> Score:
        if isinstance(value, (str, bytes)):
            raise InvalidScoreError(f"a Score is made of a number, not of text: {value!r}")
        self = super().__new__(cls, value)
        self.reason = reason
        self.metadata = dict(metadata) if metadata else {}
        self.pending = pending
        return self

    def __repr__(self) -> str:
        parts = [float.__repr__(self)]
        if self.reason is not None:
            parts.append(f"reason={self.reason!r}")
        if self.metadata:
            parts.append(f"metadata={self.metadata!r}")
        if self.pending:
            parts.append("pending=True")
        return f"Score({', '.join(parts)})"

    def __reduce__(self) -> tuple[type[Score], tuple[Any, ...]]:
        return type(self), (float(self), self.reason, self.metadata, self.pending)


Outcome: TypeAlias = float | Score | Unscored
"""What the engine passes from node to node; a pending outcome is a `Score` with `pending=True`."""


def is_pending(outcome: object) -> bool:
    """Whether an outcome is the intermediate reward of a delayed judgement."""
    return isinstance(outcome, Score) and outcome.pending


def public(outcome: Outcome | None) -> float | Score | None:
    """An outcome as a caller sees it: unscored is `None`."""
    return None if outcome.__class__ is Unscored else outcome  # type: ignore[return-value]


def checked(value: object, who: Callable[[], str]) -> Outcome:
    """The outcome that the return value of a `forward` stands for.

    Args:
        value: what `forward` returned: a float, int, bool, numpy scalar, `Score` or None.
        who: names the node, for the message.

    Raises:
        InvalidScoreError: for anything else, and for NaN and infinities.
    """
    if value is None:
        return Unscored()
    kind = value.__class__
    if kind is float or isinstance(value, Score):
        number = value
    elif isinstance(value, (float, int)):  # bool is an int; numpy's float64 is a float
        try:
            number = float(value)
        except OverflowError:
            raise InvalidScoreError(f"{who()}: forward returned an integer too large for a float") from None
    elif kind.__module__ == "numpy" and _is_real_scalar(value):
        number = float(value)  # type: ignore[arg-type]
    else:
        raise InvalidScoreError(_refusal(value, who()))
    if number - number != 0.0:  # type: ignore[operator]
        raise InvalidScoreError(f"{who()}: forward returned {float(number)}; a score is a finite number")  # type: ignore[arg-type]
    return number  # type: ignore[return-value]


def _is_real_scalar(value: object) -> bool:
    import numpy as np

    return isinstance(value, (np.bool_, np.integer, np.floating)) and not isinstance(value, np.timedelta64)


def _refusal(value: object, who: str) -> str:
    if isawaitable(value):
        close = getattr(value, "close", None) or getattr(value, "cancel", None)
        if close is not None:
            close()
        return (
            f"{who}: forward returned an awaitable, but the node is sync by structure; write `async def forward`, "
            "or set `is_async = True` on a class whose plain forward hands back an awaitable"
        )
    text = repr(value)
    text = text if len(text) <= 80 else f"{text[:77]}..."
    return f"{who}: forward returned {text} ({type(value).__name__}); it may return a number, a Score or None"
