"""A question until there is an answer: attempts, the repeated question, and what may be replayed."""

from __future__ import annotations

import asyncio
import inspect
import json
import os
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from math import isfinite
from pathlib import Path
from typing import Any, TypedDict, TypeVar, Unpack

from judges.clients.litellm import LiteLLMClient
from judges.clients.protocol import ChatClient, ChatError, ChatReply, ChatRequest, Message, Price
from judges.exchange import Exchanger
from judges.extract import Extracted, extract
from judges.form import Form
from judges.limits import BudgetLike, backoff
from judges.scale import ReadError
from judges.store import Store, store_from
from judges.verdict import JudgeConfigError, JudgeFailure
from rubrics.evaluation import NO_USAGE, Usage

T = TypeVar("T")

_SHOWN = 20_000  # characters of an unusable reply that are shown to the model again
_RETRIED = ("transport", "rate_limit", "timeout")
_ASKED_AGAIN = ("format", "out_of_scale", "ambiguous", "empty", "truncated")
_OURS = frozenset(
    (
        *("model", "messages", "max_tokens", "response_format", "tools", "tool_choice", "stream", "n", "logprobs"),
        *("api_key", "api_base", "base_url", "timeout", "num_retries", "max_retries"),
    )
)


class Options(TypedDict, total=False):
    """What every judge can be told about the model and how to ask it.

    Attributes:
        model: its name, as the client knows it; by default the prompt's, then `JUDGE_MODEL`.
        sampling: temperature, top_p, seed, … as the provider takes them; nothing by default.
        max_tokens: the most a reply may take; four times that where it was cut.
        api_base, api_key: of the default client (see `LiteLLMClient`).
        endpoint: the name of what is asked, in the store; by default the client's.
        timeout: seconds one request may take, by the wall clock.
        retries: attempts after failures of kind transport, rate_limit and timeout; one pool a verdict.
        max_wait: the most seconds to wait before an attempt; a provider that asks for more fails at once.
        concurrency: requests of this judge under way at once.
        budget: what may be spent.
        price: what the model costs, where the client does not know.
        store: where exchanges are kept: a path (mode `new`), or a `Store`.
        client: what sends; by default a `LiteLLMClient`.
    """

    model: str | None
    sampling: Mapping[str, Any]
    max_tokens: int
    api_base: str | None
    api_key: str | None
    endpoint: str | None
    timeout: float
    retries: int
    max_wait: float
    concurrency: int
    budget: BudgetLike | None
    price: Price | None
    store: Store | str | Path | None
    client: ChatClient | None


@dataclass(frozen=True, slots=True)
class Asked:
    """An answer, or why there is none.

    Attributes:
        found: the answer and where it stood; None for a failure.
        failure: the failure; None for an answer.
        reply: the last reply.
        usage, attempts, cached: what it cost, requests sent, whether all came from a store.
    """

    found: Extracted | None
    failure: JudgeFailure | None
    reply: ChatReply | None
    usage: Usage
    attempts: int
    cached: bool


class Asker:
    """Asks one model, within limits.

    Args:
        prompt_model, prompt_sampling: the prompt's own, used where the options name none.
        template: the hash of the prompt.
        options: see `Options`.
    """

    def __init__(
        self,
        prompt_model: str | None,
        prompt_sampling: Mapping[str, Any],
        template: str | None,
        **options: Unpack[Options],
    ) -> None:
        refuse_unknown(options, "a judge")
        self._model = options.get("model") or prompt_model
        _check_kinds(options)
        self.sampling = {**prompt_sampling, **(options.get("sampling") or {})}
        self.max_tokens = _whole(options.get("max_tokens", 1024), "max_tokens", 1)
        self.retries = _whole(options.get("retries", 3), "retries", 0)
        self.max_wait = _seconds(options.get("max_wait", 60.0), "max_wait", zero=True)
        self.top_logprobs = 20
        self._check_sampling()
        client = options.get("client")
        given = [name for name in ("api_base", "api_key") if options.get(name)]
        if client is not None and given:
            raise JudgeConfigError(f"give {' and '.join(given)} to the client, not beside it")
        if client is None:
            client = LiteLLMClient(options.get("api_base"), options.get("api_key"))
        if not hasattr(client, "send") or not hasattr(client, "endpoint"):
            raise JudgeConfigError(f"a client has an endpoint and `async send(request)`; {client!r} has not")
        self.exchanger = Exchanger(
            client,
            options.get("endpoint") or client.endpoint,
            store_from(options.get("store")),
            options.get("budget"),
            options.get("price"),
            _seconds(options.get("timeout", 60.0), "timeout"),
            _whole(options.get("concurrency", 32), "concurrency", 1),
            self.max_wait,
            template,
        )

    def _check_sampling(self) -> None:
        if taken := sorted(_OURS.intersection(self.sampling)):
            raise JudgeConfigError(f"sampling cannot set {', '.join(taken)}: the judge does")
        if "top_logprobs" in self.sampling:
            self.top_logprobs = _whole(self.sampling.pop("top_logprobs"), "top_logprobs", 1)
        try:
            json.dumps(self.sampling, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise JudgeConfigError(f"sampling cannot be sent as JSON: {error}") from None

    @property
    def named_model(self) -> str | None:
        """The model that would be asked now; None where none is named."""
        return self._model or os.environ.get("JUDGE_MODEL") or None

    @property
    def model(self) -> str:
        """The model that is asked.

        Raises:
            JudgeConfigError: none is named.
        """
        model = self.named_model
        if model is None:
            raise JudgeConfigError(
                "no model is named: give model= (in front matter and suites `model:`, on the command line --model, to "
                "pytest --judge-model), or set JUDGE_MODEL"
            )
        return model

    @property
    def fingerprint(self) -> str:
        """What decides a reply beside the messages, hashed: model, sampling and the limit of tokens."""
        how = [self.named_model, self.sampling, self.max_tokens, self.top_logprobs]
        return sha256(json.dumps(how, sort_keys=True).encode()).hexdigest()

    async def ask(
        self,
        messages: Sequence[Message],
        form: Form,
        untrusted: Sequence[str] = (),
        sample: int = 0,
        logprobs: bool = False,
    ) -> Asked:
        """Ask until there is an answer or a failure that stands.

        Args:
            messages: the conversation.
            form: what the reply is to be.
            untrusted: the values that are judged, so that quotations from them are known.
            sample: the number of this sample among equal questions.
            logprobs: whether the reply must come with log probabilities.
        """
        request = self.request(messages, form, sample, logprobs)
        asked = await _Chain(self, form, untrusted, request).run()
        store = self.exchanger.store
        if asked.failure is not None and asked.cached and store is not None and store.records:
            asked = await _Chain(self, form, untrusted, request, replay=False).run()
        return asked

    def request(self, messages: Sequence[Message], form: Form, sample: int = 0, logprobs: bool = False) -> ChatRequest:
        """What is sent first; the arguments are those of `ask`."""
        return ChatRequest(
            self.model,
            tuple(messages),
            form.schema,
            sampling=self.sampling,
            max_tokens=self.max_tokens,
            top_logprobs=self.top_logprobs if logprobs else None,
            sample=sample,
        )


@dataclass
class _Chain:
    """The requests that one answer takes."""

    asker: Asker
    form: Form
    untrusted: Sequence[str]
    request: ChatRequest
    replay: bool = True
    usage: Usage = NO_USAGE
    attempts: int = 0
    cached: bool = True
    left: int = field(init=False)
    reply: ChatReply | None = None

    def __post_init__(self) -> None:
        self.left = self.asker.retries

    async def run(self) -> Asked:
        outcome = await self._answer()
        if isinstance(outcome, Extracted):
            return self._asked(outcome, None)
        if outcome.kind not in _ASKED_AGAIN:
            return self._failed(outcome)
        first = outcome
        self._ask_again(first)
        outcome = await self._answer()
        if isinstance(outcome, Extracted):
            return self._asked(outcome, None)
        if first.kind == "truncated" and outcome.kind in ("too_long", "request"):  # there is no more room
            outcome = ChatError(
                "truncated", f"{first.message}; with more room: {outcome.message}", status=outcome.status
            )
        return self._failed(outcome)

    async def _answer(self) -> Extracted | ChatError:
        """One question, attempted until there is a reply, and the reply read."""
        attempt = 0
        while True:
            exchange = await self.asker.exchanger.exchange(self.request, self.replay)
            self.usage = self.usage + exchange.usage
            self.cached = self.cached and exchange.cached
            outcome = exchange.outcome
            if isinstance(outcome, ChatReply):
                self.attempts += not exchange.cached
                self.reply = outcome
                return read(outcome, self.form, self.untrusted)
            self.attempts += outcome.sent and not exchange.cached
            if outcome.kind not in _RETRIED or exchange.cached or self.left == 0:
                return outcome
            wait = outcome.retry_after
            if wait is None:
                wait = backoff(attempt, min(8.0, self.asker.max_wait))
            elif wait > self.asker.max_wait:
                return outcome
            self.left -= 1
            attempt += 1
            await asyncio.sleep(wait)

    def _ask_again(self, problem: ChatError) -> None:
        """The same question with the reply and what is wrong with it."""
        assert self.reply is not None
        wrong = f"That reply cannot be used: {problem.message}.\n{self.form.instruction}"
        messages = list(self.request.messages)
        if self.reply.text.strip():
            said = self.reply.text if len(self.reply.text) <= _SHOWN else f"{self.reply.text[:_SHOWN]} […]"
            messages += [{"role": "assistant", "content": said}, {"role": "user", "content": wrong}]
        else:  # a provider may refuse an empty turn, or two turns of one role
            messages[-1] = {**messages[-1], "content": f"{messages[-1]['content']}\n\n{wrong}"}
        more = 4 if problem.kind == "truncated" else 1
        self.request = replace(self.request, messages=tuple(messages), max_tokens=self.request.max_tokens * more)

    def _failed(self, error: ChatError) -> Asked:
        reply = self.reply
        failure = JudgeFailure(
            error.kind,
            error.message,
            self.usage,
            reply.model if reply is not None and reply.model else self.request.model,
            None if reply is None else reply.text,
            self.cached,
            error.status,
            self.attempts,
        )
        return self._asked(None, failure)

    def _asked(self, found: Extracted | None, failure: JudgeFailure | None) -> Asked:
        return Asked(found, failure, self.reply, self.usage, self.attempts, self.cached)


def read(reply: ChatReply, form: Form, untrusted: Sequence[str]) -> Extracted | ChatError:
    """The answer of a reply, or what is wrong with it."""
    if reply.refusal is not None:
        return ChatError("refused", f"the model refused: {reply.refusal}")
    if reply.finish_reason in ("content_filter", "refusal"):
        return ChatError("refused", "the provider's content filter stopped the reply")
    try:
        found = extract(reply.text, form, untrusted)
        if reply.finish_reason == "length" and found.source[found.end :].replace("`", "").strip():
            return ChatError("truncated", "it was cut by the token limit, and there was more after the answer")
        return found
    except ReadError as problem:
        if reply.finish_reason == "length" and problem.kind in ("empty", "format"):
            return ChatError("truncated", "it was cut by the token limit before there was an answer")
        return ChatError(problem.kind, problem.message)


async def together(*coroutines: Coroutine[Any, Any, T]) -> list[T]:
    """Run coroutines at once. When one raises, or the caller is cancelled, the others are cancelled and awaited."""
    tasks = [asyncio.create_task(coroutine) for coroutine in coroutines]
    try:
        return await asyncio.gather(*tasks)
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        raise


def refuse_unknown(options: Options, who: str) -> None:
    """Refuse arguments that are no options: a mistyped one, or one of another kind of judge."""
    if unknown := sorted(set(options) - set(Options.__annotations__)):
        raise TypeError(
            f"{who} takes no argument {', '.join(unknown)}; options are {', '.join(Options.__annotations__)}"
        )


def _check_kinds(options: Options) -> None:
    for name in ("model", "endpoint", "api_base", "api_key"):
        value = options.get(name)
        if value is not None and not isinstance(value, str):
            raise JudgeConfigError(f"{name} is a text, not {value!r}" if name != "api_key" else "api_key is a text")
    sampling, budget, price = options.get("sampling"), options.get("budget"), options.get("price")
    if sampling is not None and not isinstance(sampling, Mapping):
        raise JudgeConfigError(f'sampling is a mapping, such as {{"temperature": 0}}, not {sampling!r}')
    if budget is not None and not (hasattr(budget, "reserve") and hasattr(budget, "settle") and hasattr(budget, "usd")):
        raise JudgeConfigError(f"budget is a Budget, or has usd, reserve and settle; {budget!r} has not")
    if inspect.iscoroutinefunction(getattr(budget, "reserve", None)):
        raise JudgeConfigError("reserve of a budget is a plain function, not an async one")
    if price is not None and not isinstance(price, Price):
        raise JudgeConfigError(f"price is a Price(prompt, completion), not {price!r}")


def _whole(value: Any, name: str, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise JudgeConfigError(f"{name} is a whole number from {least}, not {value!r}")
    return value


def _seconds(value: Any, name: str, zero: bool = False) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not isfinite(value) or value < 0:
        raise JudgeConfigError(f"{name} is a number of seconds, not {value!r}")
    if not value and not zero:
        raise JudgeConfigError(f"{name} must be more than 0 seconds")
    return float(value)
