"""`RewardModel`: a sequence classifier as a leaf, behind an endpoint or as a function."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from contextvars import Context
from copy import copy
from functools import cached_property
from math import exp, isfinite
from typing import TYPE_CHECKING, Any, Literal, get_args
from weakref import WeakKeyDictionary

from rubrics.criteria.endpoints import Item, Protocol, RewardModelError, Server, refuse_no_url
from rubrics.criteria.values import Value
from rubrics.engine.loop import block
from rubrics.rubric import Rubric
from rubrics.score import Score, StructureError, Unscored

if TYPE_CHECKING:
    import aiohttp
    import numpy as np
    from numpy.typing import NDArray


class RewardModel(Rubric):
    """The score that a reward model, or any other sequence classifier, gives a text.

    Texts of steps that are scored at the same time are sent together.

    Args:
        endpoint: the address of the route, such as `http://localhost:8000/classify`.
        scorer: in its place, a plain function from a list of texts to as many numbers (in Python only).
        protocol: what the endpoint speaks: `"classify"` (vLLM, SGLang), `"pooling"` (vLLM; of values one a token, the
            last token's), `"score"` (vLLM's pairs, `question` before text), `"predict"` (text-embeddings-inference) or
            `"text-classification"` (as hosted by Hugging Face).
        model: the name that the server knows it by, where it wants one.
        of: the path of the text.
        question: the path of the text before it, such as `"task.question"`; it is part of a pair where the protocol has
            pairs (`"score"`, `"predict"`), else of the template.
        template: the text that is sent, with `{question}` and `{text}` replaced, such as a chat template written out.
        label: which class's number is the score, by name or by index; needed where there are several.
        raw: ask for numbers before sigmoid or softmax.
        transform: `"none"`; `"sigmoid"` of the number; `"affine"`: `bounds` become 0 and 1, and what is outside is cut.
        bounds: the least and the greatest number. Under `"none"` they are the range, and what is outside is unscored.
        batch_size: texts in one request at most.
        concurrency: requests under way at once, on each event loop.
        timeout: seconds for an attempt.
        retries: attempts after the first, where there was no answer, or one that asks for another (429, 5xx).
        key_env: the environment variable with the key; the key itself is kept nowhere.
        on_error: what becomes of a text without a score: it is `"unscored"`, or the error is `"raise"`d.

    Range: (0, 1), or `bounds` under `"none"`. Unscored: there is no text, or the model gave no score for it.

    Raises:
        RewardModelError: the model gave no score, under `on_error="raise"`.
    """

    def __init__(
        self,
        endpoint: str | None = None,
        *,
        scorer: Callable[[list[str]], Sequence[float]] | None = None,
        protocol: Protocol = "classify",
        model: str | None = None,
        of: str = "action",
        question: str | None = None,
        template: str | None = None,
        label: str | int | None = None,
        raw: bool = False,
        transform: Literal["none", "sigmoid", "affine"] = "none",
        bounds: tuple[float, float] = (0.0, 1.0),
        batch_size: int = 32,
        concurrency: int = 8,
        timeout: float = 60.0,
        retries: int = 2,
        key_env: str | None = None,
        on_error: Literal["unscored", "raise"] = "unscored",
    ) -> None:
        super().__init__()
        if (endpoint is None) == (scorer is None):
            raise StructureError("RewardModel: give an endpoint, or a scorer, and not both")
        if endpoint is not None:
            refuse_no_url(endpoint)
        if scorer is not None and (not callable(scorer) or asyncio.iscoroutinefunction(scorer)):
            raise StructureError(f"RewardModel: scorer is a plain function of a list of texts, not {scorer!r}")
        _one_of("protocol", protocol, get_args(Protocol))
        _one_of("transform", transform, ("none", "sigmoid", "affine"))
        _one_of("on_error", on_error, ("unscored", "raise"))
        if len(bounds) != 2 or not all(map(isfinite, bounds)) or bounds[0] >= bounds[1]:
            raise StructureError(f"RewardModel: bounds are two numbers, the smaller one first, not {bounds!r}")
        for name, value, least in (
            ("batch_size", batch_size, 1),
            ("concurrency", concurrency, 1),
            ("retries", retries, 0),
        ):
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise StructureError(f"RewardModel: {name} is a whole number from {least}, not {value!r}")
        if not (isfinite(timeout) and timeout > 0):
            raise StructureError(f"RewardModel: timeout is a positive number of seconds, not {timeout!r}")
        if endpoint is not None and protocol == "score" and question is None:
            raise StructureError(
                "RewardModel: the protocol 'score' compares two texts: give question, the path of the first"
            )
        if template is not None and "{text}" not in template:
            raise StructureError(f"RewardModel: the template has no {{text}} in it: {template!r}")
        if template is not None and ("{question}" in template) != (question is not None):
            raise StructureError(
                "RewardModel: give question, the path of it, and {question} in the template, or neither"
            )
        self.endpoint, self.scorer, self.protocol, self.model = endpoint, scorer, protocol, model
        self.of, self.question, self.template, self.label, self.raw = of, question, template, label, raw
        self.transform, self.bounds = transform, (float(bounds[0]), float(bounds[1]))
        self.batch_size, self.concurrency, self.timeout, self.retries = batch_size, concurrency, float(timeout), retries
        self.key_env, self.on_error = key_env, on_error
        self._paths  # noqa: B018 - so that a wrong path is told here
        if endpoint is not None:
            self.is_async = True

    @property
    def range(self) -> tuple[float, float]:
        """The least and the greatest score."""
        return self.bounds if self.transform == "none" else (0.0, 1.0)

    def forward(self, action: Any, observation: Any) -> Any:
        """The score of one step; a coroutine where there is an endpoint."""
        item = self._item(action, observation, self.task)
        if self.endpoint is not None:
            return self._asked(item)
        return self._settled(self._called([item])[0])

    async def _asked(self, item: Item) -> Score:
        return self._settled(await _queue_of(self).score(item))

    def forward_batch(self, actions: Sequence[Any], observations: Sequence[Any]) -> NDArray[np.float64]:
        """The scores of many steps; this thread waits for the endpoint."""
        import numpy as np

        found = np.full(len(actions), np.nan)
        items: dict[int, Item] = {}
        for row, step in enumerate(zip(actions, observations, self.tasks, strict=True)):
            try:
                items[row] = self._item(*step)
            except Unscored:
                continue
        given = list(items.values())
        numbers = self._called(given) if self.endpoint is None else block(_all, self, given)
        for row, number in zip(items, numbers, strict=True):
            try:
                found[row] = self._score(number)
            except Unscored:
                continue
        return found

    @cached_property
    def _paths(self) -> tuple[Value | None, Value]:
        return None if self.question is None else Value(self.question), Value(self.of)

    def _item(self, action: Any, observation: Any, task: Any) -> Item:
        """What is sent for a step."""
        before, of = self._paths
        text = of.text(action, observation, task)
        question = None if before is None else before.text(action, observation, task)
        if self.template is not None:
            head, _, tail = self.template.partition("{text}")  # what is in a text is not replaced again
            head, tail = (part.replace("{question}", question or "") for part in (head, tail))
            return None, f"{head}{text}{tail}"
        if question is not None and (self.endpoint is None or self.protocol not in ("score", "predict")):
            return None, f"{question}\n\n{text}"
        return question, text

    def _called(self, items: Sequence[Item]) -> list[float | Exception]:
        """What the function says of each item; where it fails, for all that were given to it with that one."""
        found: list[float | Exception] = []
        for start in range(0, len(items), self.batch_size):
            texts = [text for _, text in items[start : start + self.batch_size]]
            try:
                numbers = list(self.scorer(texts))  # type: ignore[misc]
                if len(numbers) != len(texts):
                    raise RewardModelError(f"the scorer gave {len(numbers)} numbers for {len(texts)} texts")
                found += [float(number) for number in numbers]
            except Exception as error:
                found += [error] * len(texts) if len(texts) == 1 else self._called_apart(texts)
        return found

    def _called_apart(self, texts: Sequence[str]) -> list[float | Exception]:
        return [found for text in texts for found in self._called([(None, text)])]

    def _settled(self, number: float | Exception) -> Score:
        """The score that a number of the model stands for, and why."""
        return Score(self._score(number), f"the reward model gave {number:.4g}", {"raw": number})

    def _score(self, number: float | Exception) -> float:
        if isinstance(number, Exception):
            if self.on_error == "raise" or isinstance(number, StructureError):
                raise copy(number)  # several texts may have failed by the same one, and each is noted its own place
            raise Unscored(f"the reward model gave no score: {number or type(number).__name__}")
        low, high = self.bounds
        if not isfinite(number):
            return self._score(RewardModelError(f"it gave {number}"))
        if self.transform == "sigmoid":
            return 1.0 / (1.0 + exp(-number)) if number >= 0 else exp(number) / (1.0 + exp(number))
        if self.transform == "affine":
            return min(max((number - low) / (high - low), 0.0), 1.0)
        if low <= number <= high:
            return number
        outside = f"it gave {number:g}, outside of the bounds {low:g} to {high:g}; give others, or a transform"
        return self._score(RewardModelError(outside))

    def _server(self) -> Server:
        assert self.endpoint is not None
        return Server(
            self.endpoint,
            self.protocol,
            self.model,
            self.label,
            self.raw,
            self.timeout,
            self.retries,
            self.key_env,
        )


class _Queue:
    """Texts of one node that wait on one event loop, and the workers that send them, as many together as wait."""

    def __init__(self, node: RewardModel) -> None:
        self.server, self.size, self.limit = node._server(), node.batch_size, node.concurrency
        self.waiting: deque[tuple[Item, asyncio.Future[float | Exception]]] = deque()
        self.idle = self.busy = 0  # workers that are about to take texts, and those that send some
        self.tasks: set[asyncio.Task[None]] = set()  # a loop refers to its tasks weakly

    async def score(self, item: Item) -> float | Exception:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[float | Exception] = loop.create_future()
        self.waiting.append((item, answer))
        if self.idle + self.busy < self.limit and self.idle * self.size < len(self.waiting):
            self.idle += 1
            task = loop.create_task(self._work(), context=Context())  # of nobody's run
            self.tasks.add(task)
            task.add_done_callback(self.tasks.discard)
        return await answer

    async def _work(self) -> None:
        import aiohttp

        connector = aiohttp.TCPConnector(limit=1)
        async with aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar()) as session:
            self.idle -= 1
            self.busy += 1
            try:
                while self.waiting:
                    taken = [self.waiting.popleft() for _ in range(min(self.size, len(self.waiting)))]
                    await self._send(session, [(item, answer) for item, answer in taken if not answer.done()])
            finally:
                self.busy -= 1

    async def _send(
        self, session: aiohttp.ClientSession, taken: list[tuple[Item, asyncio.Future[float | Exception]]]
    ) -> None:
        if not taken:  # nobody waits any more
            return
        found: Sequence[float | Exception]
        try:
            found = await self.server.scores(session, [item for item, _ in taken])
        except Exception as error:
            found = [error] * len(taken)
        except BaseException:
            for _, answer in taken:
                answer.cancel()
            raise
        for (_, answer), number in zip(taken, found, strict=True):
            if not answer.done():
                answer.set_result(number)


_QUEUES: WeakKeyDictionary[RewardModel, WeakKeyDictionary[asyncio.AbstractEventLoop, _Queue]] = WeakKeyDictionary()


def _queue_of(node: RewardModel) -> _Queue:
    """The queue of a node on this loop. One that waits for nothing is made anew, so that settings may change."""
    queues = _QUEUES.setdefault(node, WeakKeyDictionary())
    loop = asyncio.get_running_loop()
    queue = queues.get(loop)
    if queue is None or not (queue.idle or queue.busy):
        queue = queues[loop] = _Queue(node)
    return queue


async def _all(node: RewardModel, items: Sequence[Item]) -> list[float | Exception]:
    """What the endpoint says of each item."""
    queue = _Queue(node)
    return list(await asyncio.gather(*(queue.score(item) for item in items)))


def _one_of(name: str, value: object, allowed: Sequence[str]) -> None:
    if value not in allowed:
        raise StructureError(f"RewardModel: {name} is one of {', '.join(map(repr, allowed))}, not {value!r}")
