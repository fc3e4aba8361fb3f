"""Reward functions that exist, `f(prompt, completion) -> float`, as leaves of a tree."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable, Mapping
from typing import Any

from rubrics.delayed import TrajectoryRubric
from rubrics.engine.frames import FRAME, Run, shared_in_this_run
from rubrics.engine.journal import Pair
from rubrics.formats.chat import message_of
from rubrics.score import RubricError

_NOTHING: Mapping[Any, Any] = {}
_MAPPING = (dict, Mapping)  # Mapping alone takes four times as long to tell that a dict is one


_Told = tuple[dict[str, Any], list[str]]
"""Arguments by name, and which of them are lists of messages."""


class _Called:
    """What the function says of the rollout: a coroutine function where it is one, which then needs no thread."""

    def __get__(self, leaf: RewardFunction | None, _: type) -> Any:
        if leaf is None:
            return self
        return leaf._called_async if leaf.is_async else leaf._called


class RewardFunction(TrajectoryRubric):
    """A function of a prompt and a completion as a leaf, which judges the whole rollout once it has ended.

        def exact(completion, answer):
            return float(completion.strip() == answer)

        tree = WeightedSum({"exact": RewardFunction(exact), "judge": …}, {"exact": 0.5, "judge": 0.5})

    It is called with what its parameters name: `prompt`, `completion`, `task`, or a key of the task; one with
    `**kwargs` gets all of them. It may be async. It returns what a `forward` may return: a number, a `Score`, or None
    for unscored. The names of a function are a rollout's; for functions of whole batches see the adapters of trainers.

    Args:
        function: any callable.
        messages: give prompt and completion as lists of chat messages; by default as text: the text of the prompt's
            last message, and that of the last thing the agent said.
    """

    _parsed = False  # whether its messages have tool calls with parsed arguments
    _shares = True  # whether it is told of a rollout what all functions of its class are told

    def __init__(self, function: Callable[..., Any], *, messages: bool = False) -> None:
        super().__init__()
        if not callable(function):
            raise TypeError(f"a reward function is a callable, not {function!r:.80}")
        self.function = function
        self.messages = messages
        self.is_async = _is_async(function)
        self._parameters = _parameters(function)
        names, everything = self._parameters
        asks = ", ".join([*(name if needed else f"{name}?" for name, needed in names.items()), *["**"] * everything])
        # What `known` depends on beside the rollout, and the arguments do: by these the functions of a tree share them.
        self._known_as: Hashable = (type(self), messages)
        self._told_as: Hashable = (type(self), messages, asks)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls._scores_by_function = cls.score_trajectory is RewardFunction.score_trajectory

    score_trajectory = _Called()
    _scores_by_function = True  # whether that is what scores

    def _called(self, trajectory: list[Pair]) -> Any:
        return self.function(**self._arguments(trajectory))

    async def _called_async(self, trajectory: list[Pair]) -> Any:
        return await self.function(**self._arguments(trajectory))

    def _judge(self, run: Run) -> Any:
        # Most functions are told what one before them was, and need no list of pairs for that.
        if self._scores_by_function and self._shares and self.sees == "steps" and not run.over:
            told = getattr(run.last, "shared", _NOTHING).get(self._told_as)
            if told is not None:
                return self.function(**_own(told))
        return super()._judge(run)

    def _arguments(self, trajectory: list[Pair]) -> dict[str, Any]:
        # All functions of a tree are told the same of a rollout, unless they are called for some of its steps only.
        shared = shared_in_this_run() if self._shares and self.sees == "steps" else {}
        return _own(shared.get(self._told_as) or self._tell(shared, trajectory))

    def _tell(self, shared: dict[Hashable, Any], trajectory: list[Pair]) -> _Told:
        """Work out, for all who share it, what functions with these parameters are called with."""
        known = shared.get(self._known_as)
        if known is None:
            known = shared[self._known_as] = self.known(trajectory)
        names, everything = self._parameters
        try:
            named = {name: known[name] for name, needed in names.items() if needed or name in known}
        except KeyError as error:
            raise RubricError(
                f"{self.name} wants {error.args[0]!r}, and there is: {', '.join(map(str, known))}; "
                "put it into the task (a column of the dataset)"
            ) from None
        given = {**known} if everything else named
        lists = [name for name in ("prompt", "completion") if self.messages and name in given]
        shared[self._told_as] = told = given, lists
        return told

    @property
    def name(self) -> str:
        """The name of the function."""
        return str(getattr(self.function, "__name__", type(self.function).__name__))

    def known(self, trajectory: list[Pair]) -> dict[str, Any]:
        """What the function can ask for, by name."""
        frame = FRAME.get()
        episode = None if frame is None else frame.run.episode
        initial = None if episode is None else episode.initial
        task = None if episode is None else episode.task
        known: dict[str, Any] = dict(task) if isinstance(task, _MAPPING) else {}
        if self.messages:
            known["prompt"] = messages_of(initial)
            known["completion"] = completion_messages(trajectory, parsed=self._parsed)
        else:
            known["prompt"], known["completion"] = _last_text(initial), text_of(trajectory[-1][0])
        known["task"] = task
        return known

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name})"


def _own(told: _Told) -> dict[str, Any]:
    """Arguments for one function: what it does to its list of messages is not to reach the next one."""
    given, lists = told[0].copy(), told[1]
    for name in lists:
        given[name] = [*given[name]]
    return given


def _is_async(function: Callable[..., Any]) -> bool:
    while hasattr(function, "func"):  # functools.partial
        function = function.func
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)


def _parameters(function: Callable[..., Any]) -> tuple[dict[str, bool], bool]:
    """Names of parameters and whether they are needed; and whether the function takes any name."""
    names: dict[str, bool] = {}
    everything = False
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind is parameter.VAR_KEYWORD:
            everything = True
        elif parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            names[name] = parameter.default is parameter.empty
        elif parameter.kind is parameter.POSITIONAL_ONLY:
            raise TypeError(
                f"{function!r:.80} has a parameter that cannot be named: {name}; "
                "give it a name: RewardFunction(lambda completion: function(completion))"
            )
    return names, everything


def text_of(said: Any) -> str:
    """The text of an action or an observation: its `content` (of a list of parts, the text ones), or itself."""
    if isinstance(said, str):
        return said
    content = said.get("content") if isinstance(said, Mapping) else getattr(said, "content", None)
    if isinstance(content, list):
        parts = (part.get("text") for part in content if isinstance(part, Mapping))
        return "\n\n".join(part for part in parts if isinstance(part, str))
    return "" if content is None else str(content)


def _last_text(initial: Any) -> str:
    messages = messages_of(initial)
    return text_of(messages[-1]) if messages else "" if initial is None else text_of(initial)


def messages_of(observation: Any) -> list[Any]:
    """The chat messages that an observation consists of; none where it was made otherwise."""
    messages = observation.get("messages") if isinstance(observation, _MAPPING) else None
    return list(messages) if isinstance(messages, list) else []


def completion_messages(trajectory: list[Pair], *, parsed: bool = False) -> list[Any]:
    """The chat messages that a trajectory was made of, with `tool_calls` in OpenAI's form.

    `arguments` are text there; `parsed` leaves them as the dicts that they were read into.
    """
    messages: list[Any] = []
    for action, observation in trajectory:
        messages += [message_of(action, parsed=parsed), *messages_of(observation)]
    return messages
