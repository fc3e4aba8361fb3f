"""Methods that authors write and a host's base class surrounds, however they call one another."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from rubrics.engine.loop import block


class _Call:
    """A surrounded method of an object at work; `open` is False once it is over."""

    __slots__ = ("of", "open")

    def __init__(self, of: object) -> None:
        self.of = of
        self.open = True


_CALLS: ContextVar[tuple[_Call, ...]] = ContextVar("rubrics_surrounded_calls", default=())


@contextmanager
def outermost(of: object) -> Iterator[bool]:
    """Enter a method of an object.

    Whether it was called from outside, and not by another one (or itself, by `super()`).
    """
    calls = _CALLS.get()
    if any(call.of is of and call.open for call in calls):
        yield False
        return
    call = _Call(of)
    token = _CALLS.set((*calls, call))
    try:
        yield True
    finally:
        call.open = False
        _CALLS.reset(token)


def written(cls: type, name: str, bases: Collection[type]) -> Any:
    """The method that instances of a class have, from the class or a mixin; None where only one of `bases` has it."""
    return next((base.__dict__[name] for base in cls.__mro__ if base not in bases and name in base.__dict__), None)


def named_arguments(signature: inspect.Signature, *args: Any, **kwargs: Any) -> dict[str, Any]:
    """The arguments of a call of a method by name, without the first, which is self."""
    arguments = dict(signature.bind(*args, **kwargs).arguments)
    arguments.pop(next(iter(signature.parameters)))
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.VAR_KEYWORD:
            arguments.update(arguments.pop(parameter.name, {}))
    return arguments


def blocking(name: str) -> Callable[..., Any]:
    """A sync method that runs the async one of this name on the library's loop and waits for it."""

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        return block(functools.partial(getattr(self, name), *args, **kwargs))

    call.__name__ = name.removesuffix("_async")
    return call
