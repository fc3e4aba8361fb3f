"""What the methods of a user's class mean for its tree: one that reads `self.memory`, and an override of `reset`."""

from __future__ import annotations

import dis
import functools
import inspect
import itertools
from collections.abc import Callable
from contextvars import ContextVar, Token
from typing import TYPE_CHECKING, Any, TypeVar, cast

if TYPE_CHECKING:
    from rubrics.rubric import Rubric

F = TypeVar("F", bound=Callable[..., Any])


def asks_for_memory(function: Any) -> bool:
    """Whether a method or property reads `self.memory`, so that its tree keeps state from one step to the next."""
    if isinstance(function, property):
        function = function.fget
    if not inspect.isfunction(function):  # any object can be an attribute of a class, also one that has every name
        return False
    code = getattr(inspect.unwrap(function), "__code__", None)
    return code is not None and code.co_argcount > 0 and _reads_memory(code, code.co_varnames[0])


def _reads_memory(code: Any, myself: str) -> bool:
    if "memory" in code.co_names:
        for before, now in itertools.pairwise(dis.get_instructions(code)):
            loaded = before.argval[-1] if isinstance(before.argval, tuple) else before.argval
            if now.opname == "LOAD_ATTR" and now.argval == "memory" and loaded == myself:
                return True
    return any(_reads_memory(inner, myself) for inner in code.co_consts if hasattr(inner, "co_code"))


class Resetting:
    """One node's part in the reset of a tree: each node is reset once, wherever it hangs, and its children after it.

    Attributes:
        inside: whether this is `super().reset()` within an override of the same node.
        done: whether the node was reset already in this reset of the tree.
    """

    def __init__(self, node: Rubric) -> None:
        self.node = node

    def __enter__(self) -> Resetting:
        progress = _RESETTING.get()
        self.token: Token[dict[int, bool] | None] | None = None
        if progress is None:
            progress = {}
            self.token = _RESETTING.set(progress)
        self.progress = progress
        self.inside = progress.get(id(self.node)) is False
        self.done = progress.get(id(self.node), False)
        progress.setdefault(id(self.node), False)
        return self

    def __exit__(self, *_: object) -> None:
        if not self.inside:
            self.progress[id(self.node)] = True
        if self.token is not None:
            _RESETTING.reset(self.token)


# Nodes of the reset that is going on, and whether each is done. A context variable: resets on one loop take turns.
_RESETTING: ContextVar[dict[int, bool] | None] = ContextVar("rubrics_resetting", default=None)


def reset_override(function: F) -> F:
    """Make an override of reset or reset_async reach the nodes below, whether it calls super() or not."""
    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def reset_async(self: Rubric) -> None:
            with Resetting(self) as resetting:
                if resetting.done:
                    return
                await function(self)
                if not resetting.inside:
                    await self._reset_tree_async()

        return cast("F", reset_async)

    @functools.wraps(function)
    def reset(self: Rubric) -> None:
        with Resetting(self) as resetting:
            if resetting.done:
                return
            function(self)
            if not resetting.inside:
                self._reset_tree()

    return cast("F", reset)
