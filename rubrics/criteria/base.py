"""What criteria of texts share: where the text is, what it is held against, and scoring many at once."""

from __future__ import annotations

import inspect
import re
from collections.abc import Sequence
from contextlib import suppress
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar

from rubrics.criteria.values import Value, text_of
from rubrics.rubric import Rubric
from rubrics.score import Score, StructureError, Unscored

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class TextCheck(Rubric):
    """A leaf that looks at one text. Subclasses write `score_text(text)`.

    Args:
        of: a path to the text, such as `action` or `observation.answer` (see `rubrics.criteria.values`).
        within: a tag; what is looked at is the text in the last `<within>…</within>`. Without one, the score is the
            least there is (0, or the whole penalty): an answer that is not where it was asked for is no answer.

    Unscored where there is no such text.
    """

    extra: ClassVar[str | None] = None
    """The extra of this package that it needs, such as `text`."""
    _worked_out: ClassVar[frozenset[str]] = frozenset()  # attributes that are worked out of the arguments

    def __init__(self, of: str = "action", within: str | None = None) -> None:
        super().__init__()
        self.of, self.within = of, within
        self._value  # noqa: B018  # a wrong path is told when the leaf is made
        if within is not None and not re.fullmatch(r"[A-Za-z][\w-]*", within):
            raise StructureError(
                f"{type(self).__name__}: within is the name of a tag, such as 'answer', not {within!r}"
            )
        if self.extra is not None:
            self._require()

    def _require(self) -> None:
        """Raise ImportError where a library of the extra is missing."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        named = (item for base in cls.__mro__ for item in vars(base).items())
        cls._worked_out = frozenset(name for name, is_ in named if isinstance(is_, cached_property))

    def __setattr__(self, name: str, value: Any) -> None:
        """An argument that is set anew leaves nothing that was worked out of the old one."""
        super().__setattr__(name, value)
        for cache in self._worked_out & self.__dict__.keys():
            del self.__dict__[cache]

    def __getstate__(self) -> dict[str, Any]:
        """Without what is worked out of the arguments: some of it cannot be copied."""
        return {name: value for name, value in super().__getstate__().items() if name not in self._worked_out}

    def extra_repr(self) -> str:
        """The arguments that are not their defaults."""
        given = inspect.signature(type(self)).parameters.values()
        kept = {each.name: (getattr(self, each.name, each.default), each.default) for each in given}
        return ", ".join(f"{name}={value!r}" for name, (value, default) in kept.items() if value != default)

    @cached_property
    def _value(self) -> Value:
        return Value(self.of)

    def score_text(self, text: str) -> float | Score:
        """The score of a text.

        Raises:
            Unscored: it cannot be assessed.
        """
        raise NotImplementedError

    def score_step(self, action: Any, observation: Any, task: Any) -> float | Score:
        """The score of a step; for subclasses that look at more than one text.

        Raises:
            Unscored: it cannot be assessed.
        """
        text = self._value.text(action, observation, task)
        if self.within is None:
            return self.score_text(text)
        found = inside(text, self.within)
        return self.score_text(found) if found is not None else self._absent()

    def _absent(self) -> Score:
        return Score(self.range[0], f"there is no <{self.within}>")

    def forward(self, action: Any, observation: Any) -> Any:
        return self.score_step(action, observation, self.task)

    def forward_batch(self, actions: Sequence[Any], observations: Sequence[Any]) -> NDArray[np.float64]:
        """The scores of many steps, shape (rows,); NaN where one cannot be assessed."""
        import numpy as np

        scores = np.full(len(actions), np.nan)
        for row, step in enumerate(zip(actions, observations, self.tasks, strict=True)):
            with suppress(Unscored):  # it stays NaN
                scores[row] = self.score_step(*step)
        return scores


class ReferenceCheck(TextCheck):
    """A leaf that holds a text against others. Subclasses write `score_pair(text, reference)`; the best one counts.

    Args:
        expected: the text, or several of which any will do.
        expected_from: a path to them, such as `task.answer`. One of the two is given.
        of, within: see `TextCheck`.
    """

    def __init__(
        self,
        expected: str | Sequence[str] | None = None,
        expected_from: str | None = None,
        of: str = "action",
        within: str | None = None,
    ) -> None:
        super().__init__(of, within)
        name = type(self).__name__
        if (expected is None) == (expected_from is None):
            raise StructureError(f"{name}: give either expected or expected_from")
        texts = [expected] if isinstance(expected, str) else expected
        if texts is not None and (not texts or not all(isinstance(text, str) for text in texts)):
            raise StructureError(f"{name}: expected is a text or a list of texts, not {expected!r:.80}")
        self.expected, self.expected_from = expected, expected_from
        self._reference  # noqa: B018

    @cached_property
    def _reference(self) -> Value | None:
        return None if self.expected_from is None else Value(self.expected_from)

    def references(self, action: Any, observation: Any, task: Any) -> list[str]:
        """The texts that it is held against.

        Raises:
            Unscored: there are none.
        """
        if self._reference is None:
            return [self.expected] if isinstance(self.expected, str) else list(self.expected or ())
        value = self._reference.read(action, observation, task)
        each = list(value) if isinstance(value, list | tuple) else [value]
        texts = [text for one in each if (text := text_of(one)) is not None]
        if not texts or len(texts) != len(each):
            raise Unscored(f"{self.expected_from} is no text")
        return texts

    def score_pair(self, text: str, reference: str) -> float | Score:
        """The score of a text against one reference."""
        raise NotImplementedError

    def score_step(self, action: Any, observation: Any, task: Any) -> float | Score:
        text: str | None = self._value.text(action, observation, task)
        references = self.references(action, observation, task)
        if self.within is not None:
            text = inside(str(text), self.within)
            if text is None:
                return self._absent()
        return max(self.score_pair(str(text), reference) for reference in references)


def inside(text: str, tag: str) -> str | None:
    """What stands in the last `<tag>…</tag>`; None where there is none."""
    end = text.rfind(f"</{tag}>")
    start = text.rfind(f"<{tag}>", 0, end) if end >= 0 else -1
    return text[start + len(tag) + 2 : end] if start >= 0 else None


def library(name: str, extra: str, who: object) -> Any:
    """A module of an extra.

    Raises:
        ImportError: it is not installed; the message says how to get it.
    """
    try:
        return import_module(name)
    except ImportError as error:
        raise ImportError(
            f"{type(who).__name__} needs {name.partition('.')[0]}: pip install 'rubrics[{extra}]'", name=name
        ) from error


def clean(text: str) -> str:
    """A text without the halves of surrogate pairs, which no encoding has."""
    return text.encode("utf-8", "replace").decode() if not text.isascii() else text
