"""Sequences of numbers as users give them: lists with None, arrays, tensors; checked, never guessed at."""

from collections.abc import Iterable, Mapping, Sequence, Set
from numbers import Real
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rubrics.score import CreditError

Floats: TypeAlias = NDArray[np.float64]
Steps: TypeAlias = NDArray[Any] | Sequence[float | None]


def items_of(given: object, what: str) -> list[Any]:
    """The entries in order; refuses what has no order, and a bare string, whose characters nobody means."""
    found: object = given
    if hasattr(given, "__array__"):
        array = np.asarray(given)
        found = array.tolist() if array.ndim == 1 else None
    if not isinstance(found, Iterable) or isinstance(found, (str, bytes, Mapping, Set)):
        raise CreditError(f"{what} must be a 1-d sequence, not {type(given).__name__}: {given!r:.80}")
    return list(found)


def floats_of(given: object, what: str) -> Floats:
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
