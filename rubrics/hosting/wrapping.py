"""Methods that authors write and a host's base class surrounds, however they call one another."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection
from contextvars import ContextVar, Token
from typing import Any

from rubrics.engine.loop import block


class _Call:
    """A surrounded method of an object at work; `open` is False once it is over."""

    __slots__ = ("of", "open")

    def __init__(self, of: object) -> None:
        self.of = of
        self.open = True


_CALLS: ContextVar[tuple[_Call, ...]] = ContextVar("rubrics_surrounded_calls", default=())


class outermost:  # contextlib's would take three times as long
    """Enter a method of an object; says whether it was called from outside, and not by another one or by `super()`."""

    __slots__ = ("call", "token")
    token: Token[tuple[_Call, ...]] | None

    def __init__(self, of: object) -> None:
        self.call = _Call(of)

    def __enter__(self) -> bool:
        calls = _CALLS.get()
        of = self.call.of
        for call in calls:
            if call.of is of and call.open:
                self.token = None
                return False
        self.token = _CALLS.set((*calls, self.call))
        return True

    def __exit__(self, *_: object) -> None:
        if self.token is not None:
            self.call.open = False
            _CALLS.reset(self.token)


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
