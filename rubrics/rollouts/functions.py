"""Reward functions that exist, `f(prompt, completion) -> float`, as leaves of a tree."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable, Mapping
from typing import Any

from rubrics.delayed import TrajectoryRubric
from rubrics.engine.frames import FRAME, of_this_run
from rubrics.engine.journal import Pair
from rubrics.score import RubricError


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

    def __init__(self, function: Callable[..., Any], *, messages: bool = False) -> None:
        super().__init__()
        if not callable(function):
            raise TypeError(f"a reward function is a callable, not {function!r:.80}")
        self.function = function
        self.messages = messages
        self.is_async = _is_async(function)
        self._parameters = _parameters(function)

    score_trajectory = _Called()

    def _called(self, trajectory: list[Pair]) -> Any:
        return self.function(**self._arguments(trajectory))

    async def _called_async(self, trajectory: list[Pair]) -> Any:
        return await self.function(**self._arguments(trajectory))

    def _arguments(self, trajectory: list[Pair]) -> dict[str, Any]:
        # All functions of a tree are told the same of a rollout, unless they are called for some of its steps only.
        if self.sees == "steps":
            known = of_this_run(self._known_as(), lambda: self.known(trajectory))
        else:
            known = self.known(trajectory)
        names, everything = self._parameters
        try:
            named = {name: known[name] for name, needed in names.items() if needed or name in known}
        except KeyError as error:
            raise RubricError(
                f"{self.name} wants {error.args[0]!r}, and there is: {', '.join(map(str, known))}; "
                "put it into the task (a column of the dataset)"
            ) from None
        given = {**known} if everything else named
        if self.messages:  # what a function does to its list of messages is not to reach the next one
            for name in ("prompt", "completion"):
                if name in given:
                    given[name] = list(given[name])
        return given

    def _known_as(self) -> Hashable:
        """What `known` depends on, beside the rollout."""
        return type(self), self.messages

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
        known = dict(task) if isinstance(task, Mapping) else {}
        if self.messages:
            completion = completion_messages(trajectory, parsed=self._parsed)
            known |= {"prompt": messages_of(initial), "completion": completion}
        else:
            known |= {"prompt": _last_text(initial), "completion": text_of(trajectory[-1][0])}
        return {**known, "task": task}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name})"


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
    messages = observation.get("messages") if isinstance(observation, Mapping) else None
    return list(messages) if isinstance(messages, list) else []


def completion_messages(trajectory: list[Pair], *, parsed: bool = False) -> list[Any]:
    """The chat messages that a trajectory was made of, with `tool_calls` in OpenAI's form.

    `arguments` are text there; `parsed` leaves them as the dicts that they were read into.
    """
    from rubrics.formats.chat import message_of

    messages: list[Any] = []
    for action, observation in trajectory:
        messages += [message_of(action, parsed=parsed), *messages_of(observation)]
    return messages
