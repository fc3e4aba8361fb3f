"""Holders of rubrics that a parent's own `forward` calls."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rubrics.containers.container import Holder, named_children_of
from rubrics.engine.plan import HOLDER
from rubrics.rubric import Rubric


class _Collection(Holder):
    """Holds children for a parent's custom forward; it does not aggregate."""

    def forward(self, action: Any, observation: Any) -> Any:
        raise NotImplementedError(
            f"{type(self).__name__} holds rubrics and does not combine them; call one of them in a parent's forward"
        )

    def __bool__(self) -> bool:
        return bool(self._rubric_children)

    def _kind(self) -> str:
        return HOLDER


class RubricList(_Collection):
    """A list of rubrics, like `nn.ModuleList`; a parent's `forward` calls them."""

    def __init__(self, rubrics: Sequence[Rubric] | None = None) -> None:
        super().__init__()
        self.extend(rubrics or ())

    def append(self, rubric: Rubric) -> None:
        """Add a rubric at the end."""
        number = len(self)
        while f"rubric_{number}" in self._rubric_children:  # after one was deleted
            number += 1
        self._add_child(*named_children_of({f"rubric_{number}": rubric}, "RubricList").popitem())

    def extend(self, rubrics: Sequence[Rubric]) -> None:
        """Add rubrics at the end."""
        for rubric in rubrics:
            self.append(rubric)

    def __setitem__(self, index: int, rubric: Rubric) -> None:
        name = list(self._rubric_children)[index]
        self._add_child(*named_children_of({name: rubric}, "RubricList").popitem())

    def __delitem__(self, index: int) -> None:
        delattr(self, list(self._rubric_children)[index])


class RubricDict(_Collection):
    """Rubrics by key, like `nn.ModuleDict`; a parent's `forward` calls them."""

    def __init__(self, rubrics: Mapping[str, Rubric] | None = None) -> None:
        super().__init__()
        self.update(rubrics or {})

    def __setitem__(self, key: str, rubric: Rubric) -> None:
        self._add_child(*named_children_of({key: rubric}, "RubricDict").popitem())

    def __getitem__(self, key: str) -> Rubric:
        return self._rubric_children[key]

    def __delitem__(self, key: str) -> None:
        if key not in self._rubric_children:
            raise KeyError(key)
        delattr(self, key)

    def __contains__(self, key: object) -> bool:
        return key in self._rubric_children

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._rubric_children))

    def keys(self) -> Iterator[str]:
        """The keys."""
        return iter(list(self._rubric_children))

    def values(self) -> Iterator[Rubric]:
        """The rubrics."""
        return iter(list(self._rubric_children.values()))

    def items(self) -> Iterator[tuple[str, Rubric]]:
        """(key, rubric) pairs."""
        return iter(list(self._rubric_children.items()))

    def update(self, rubrics: Mapping[str, Rubric]) -> None:
        """Add or replace rubrics."""
        for name, rubric in rubrics.items():
            self[name] = rubric
