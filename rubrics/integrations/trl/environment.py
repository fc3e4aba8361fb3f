"""Environments for TRL's `environment_factory` whose tool calls a tree judges."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal
from uuid import uuid4

from rubrics.formats.chat import chat_observation
from rubrics.hosting.tool_calls import ToolCall
from rubrics.hosting.wrapping import outermost
from rubrics.rollouts.functions import text_of
from rubrics.rollouts.scoring import Scorer
from rubrics.rubric import Rubric
from rubrics.score import EpisodeError
from rubrics.trajectory import Record, Step, Trajectory, wrap

NO_TASK = frozenset(
    ("prompt", "completion", "completion_ids", "trainer_state", "log_extra", "log_metric", "environments")
)
"""What TRL's trainers give with a row of the dataset that is no column which rubrics read as the task."""


@dataclass(slots=True)
class _Rollout:
    task: Any
    initial: Any = None
    steps: list[Step] = field(default_factory=list)
    id: str = field(default_factory=lambda: uuid4().hex)


class RubricEnvironment:
    """An environment for TRL's `environment_factory` that records what a tree judges.

        class Guessing(RubricEnvironment):
            rubric = make_rubric()

            def reset(self, secret, **row):
                self.left = 5
                return "Guess a number from 1 to 9."

            def guess(self, number: int) -> str:
                '''Guess the number.

                Args:
                    number: your guess.
                '''
                return "right" if number == self.task.secret else "wrong"

    Authors write `reset(**row)`, which gets a row of the dataset and returns text to append to the prompt, or None, and
    the tools: TRL offers the model every public method, with its docstring and type hints; helpers are properties or
    start with `_`. Tools may be async, and may call one another; only the call from outside is a step:

        action       ToolCall(name, input), the arguments as the model sent them
        observation  {"content": the result as text, "result": the result, "error": None}

    A tool that raises is a step too, with the message as `content` and the error in `error`; TRL gives the message to
    the model. What TRL refuses by itself, such as a tool that there is not, does not get here. The conversation around
    the tools is not seen: to judge it, use `reward_function` with an environment that is none of these.

    A rollout without a call has no steps, so there is nothing to score and it has no reward.

    Attributes:
        rubric: the tree; None: `reward_function` scores the rollouts, all at once and with metrics. TRL asks
            environments for their rewards one by one, which is slow where judges answer.
        on_error: of `rubric`, as in `Scorer`.
    """

    rubric: ClassVar[Rubric | None] = None
    on_error: ClassVar[Literal["unscored", "raise"]] = "unscored"
    _rollout: _Rollout | None = None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if cls.rubric is not None:
            Scorer(cls.rubric, on_error=cls.on_error)  # refuses what is no tree
        for name in ("task", "trajectory", "pays_itself"):
            if getattr(cls, name) is not getattr(RubricEnvironment, name):
                raise TypeError(f"{cls.__name__}.{name} hides what a RubricEnvironment has there; rename it")
        for name, function in inspect.getmembers(cls, inspect.isfunction):
            if name.startswith("_") or name == "get_reward" or hasattr(function, "_recorded"):
                continue
            if isinstance(inspect.getattr_static(cls, name), staticmethod):
                raise TypeError(f"{cls.__name__}.{name} is static, and TRL would offer it as a tool; make it a method")
            if name == "reset" and inspect.iscoroutinefunction(function):
                raise TypeError(f"{cls.__name__}.reset is async, and TRL does not await it")
            setattr(cls, name, _beginning(function) if name == "reset" else _recording(function))
        if "rubric" in cls.__dict__ and "get_reward" not in cls.__dict__:
            # TRL goes by whether the class has this method, and by whether it is a coroutine function
            paying = None if cls.rubric is None else _reward_async if cls.rubric.is_async_tree else _reward
            setattr(cls, "get_reward", paying)  # noqa: B010

    def reset(self, **row: Any) -> str | None:
        """Begin a rollout.

        Args:
            row: the columns of the dataset, the prompt too.

        Returns:
            Text to append to the prompt, or None.
        """
        return None

    @property
    def task(self) -> Any:
        """The row of the dataset without the prompt, as a Record."""
        return self._running().task

    @property
    def trajectory(self) -> Trajectory:
        """The rollout as recorded so far; its end is "terminated"."""
        rollout = self._running()
        return Trajectory(
            id=rollout.id, task=rollout.task, initial=rollout.initial, steps=list(rollout.steps), end="terminated"
        )

    @property
    def pays_itself(self) -> bool:
        """Whether TRL asks the environment for its rewards."""
        return self.rubric is not None and hasattr(self, "get_reward")

    def _running(self) -> _Rollout:
        if self._rollout is None:
            raise EpisodeError(f"{type(self).__name__}: there is no rollout yet; call reset first")
        return self._rollout


def _reward(self: Any) -> float | None:
    return Scorer(self.rubric, on_error=self.on_error).score(self.trajectory).reward


async def _reward_async(self: Any) -> float | None:
    return (await Scorer(self.rubric, on_error=self.on_error).score_async(self.trajectory)).reward


def _beginning(reset: Callable[..., Any]) -> Callable[..., Any]:
    """A `reset` that begins a rollout, where it is not called by another one."""

    @functools.wraps(reset)
    def begin(self: Any, *args: Any, **row: Any) -> Any:
        with outermost(self) as outside:
            if not outside:
                return reset(self, *args, **row)
            self._rollout = _Rollout(wrap({name: value for name, value in row.items() if name not in NO_TASK}))
            said = reset(self, *args, **row)
            self._rollout.initial = _opening(row.get("prompt"), said)
            return said

    begin._recorded = True  # type: ignore[attr-defined]
    return begin


def _opening(prompt: Any, said: Any) -> Record:
    """The prompt as TRL shows it, with what the environment said."""
    messages = [{"role": "user", "content": prompt or ""}] if prompt is None or isinstance(prompt, str) else prompt
    if said is not None:
        *before, last = messages
        content = last["content"]
        if isinstance(content, str) != isinstance(said, str):
            content, said = ([{"type": "text", "text": x}] if isinstance(x, str) else x for x in (content, said))
        messages = [*before, {**last, "content": content + said}]
    return chat_observation(messages)


def _recording(tool: Callable[..., Any]) -> Callable[..., Any]:
    """A tool whose calls are steps, where it is not called by another one."""
    _, *names = inspect.signature(tool).parameters

    @contextmanager
    def step(self: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[Step]:
        with outermost(self) as outside:
            taken = Step(ToolCall(tool.__name__, {**dict(zip(names, args, strict=False)), **kwargs}), None)
            if outside:
                self._running().steps.append(taken)  # now: tools may run at once, and steps are in the order of calls
            try:
                yield taken
            except BaseException as error:
                taken.observation = Record(content=str(error), result=None, error=f"{type(error).__name__}: {error}")
                raise

    if inspect.iscoroutinefunction(tool):

        @functools.wraps(tool)
        async def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            with step(self, args, kwargs) as taken:
                result = await tool(self, *args, **kwargs)
                taken.observation = _answer(result)
                return result

    else:

        @functools.wraps(tool)
        def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            with step(self, args, kwargs) as taken:
                result = tool(self, *args, **kwargs)
                taken.observation = _answer(result)
                return result

    call._recorded = True  # type: ignore[attr-defined]
    return call


def _answer(result: Any) -> Record:
    content = text_of({"content": result}) if isinstance(result, list) else str(result)  # a list is parts of a message
    return Record(content=content, result=result, error=None)
