"""What a client is: it sends one request and gives one reply, or says what kind of failure there was.

Clients do not retry, cache, count or limit; the judge does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, Protocol, TypeAlias

from judges.verdict import FailureKind
from rubrics.evaluation import NO_USAGE, Usage

Message: TypeAlias = Mapping[str, str]
"""`{"role": "system" | "user" | "assistant", "content": text}`."""

Wire = Literal["json_schema", "json_object", "tool", "text"]
"""How a provider is asked for an object: by its schema, as JSON, as the arguments of a tool call, in words only."""


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """One question to a model.

    Attributes:
        model: its name, as the client knows it.
        messages: the conversation.
        schema: JSON Schema of the reply; None where any text will do.
        wire: the form in which the provider is asked for it.
        sampling: temperature, top_p, seed and whatever else the provider takes.
        max_tokens: the most the reply may take.
        top_logprobs: how many alternatives a token is to come with; None for no log probabilities.
        sample: the number of this sample among equal requests.
    """

    model: str
    messages: tuple[Message, ...]
    schema: Mapping[str, Any] | None = None
    wire: Wire = "json_schema"
    sampling: Mapping[str, Any] = field(default_factory=dict)
    max_tokens: int = 1024
    top_logprobs: int | None = None
    sample: int = 0


@dataclass(frozen=True, slots=True)
class Token:
    """One token of a reply.

    Attributes:
        text: as the provider wrote it.
        bytes: its UTF-8 bytes; a token may hold a part of a character.
        logprob: natural logarithm of its probability.
        top: alternatives at its place, the token itself included or not, as (text, logprob).
    """

    text: str
    bytes: bytes
    logprob: float
    top: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, slots=True)
class ChatReply:
    """What the model said.

    Attributes:
        text: the reply; empty where there was none.
        finish_reason: `"stop"`, `"length"`, `"content_filter"`, … as the provider said it.
        refusal: the words of a refusal, where the provider marks one.
        logprobs: the tokens of the text, where they were asked for and given.
        usage: what it cost.
        model: the model that answered, as the provider names it.
        seconds: what the request took, time in the queue left out; None where it was not measured.
    """

    text: str
    finish_reason: str | None = None
    refusal: str | None = None
    logprobs: tuple[Token, ...] | None = None
    usage: Usage = NO_USAGE
    model: str | None = None
    seconds: float | None = None


class ChatError(Exception):
    """A request that brought no reply. It carries no other exception: those hold headers, and headers hold keys.

    Args:
        kind: the kind of failure.
        message: what happened, with every known key masked.
        status: the HTTP status, where there was one.
        retry_after: seconds the provider asks to wait; infinity where waiting will not help.
        rejects: the parameter that the provider does not know, `"schema"` or `"logprobs"`, where it named one.
        sent: False where the client refused the request by itself, so that nothing was spent.
    """

    def __init__(
        self,
        kind: FailureKind,
        message: str,
        *,
        status: int | None = None,
        retry_after: float | None = None,
        rejects: Literal["schema", "logprobs"] | None = None,
        sent: bool = True,
    ) -> None:
        super().__init__(message)
        self.kind: FailureKind = kind
        self.message = message
        self.status = status
        self.retry_after = retry_after
        self.rejects = rejects
        self.sent = sent

    def __reduce__(self) -> tuple[Any, ...]:
        again = partial(
            type(self),
            self.kind,
            self.message,
            status=self.status,
            retry_after=self.retry_after,
            rejects=self.rejects,
            sent=self.sent,
        )
        return again, ()


class ChatClient(Protocol):
    """What a judge needs of a client: a name, and `send`. These attributes may be there as well:

    * `address` (str): tells two servers apart, so that requests of one address and model share limits; else `endpoint`;
    * `identity` (hashable): equal for clients that may share a request in flight; else the client itself;
    * `wire`: the form in which structured output is asked for first; else `"json_schema"`;
    * `local` (bool): it answers in this process without input or output, so it runs on its caller's loop; else False;
    * `async prepare()`: what must be done before the first request, such as a slow import;
    * `async prices(model) -> Price | None`: what the model costs, for budgets in dollars.
    """

    @property
    def endpoint(self) -> str:
        """The name of what is asked, for people and for the store; no port of this machine."""
        ...

    async def send(self, request: ChatRequest) -> ChatReply:
        """Send one request, once.

        Raises:
            ChatError: there is no reply.
        """
        ...


@dataclass(frozen=True, slots=True)
class Price:
    """What tokens cost, in US dollars a million.

    Attributes:
        prompt, completion: of the prompt, and of the reply.
        cached: of prompt tokens that the provider had cached; None for the full price.
    """

    prompt: float
    completion: float
    cached: float | None = None

    def __post_init__(self) -> None:
        for name in ("prompt", "completion", "cached"):
            value = getattr(self, name)
            if name == "cached" and value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0.0 <= value < float("inf"):
                raise ValueError(f"Price: {name} is a number of dollars from 0, not {value!r}")

    def of(self, prompt_tokens: int, completion_tokens: int, cached_tokens: int = 0) -> float:
        """Dollars for so many tokens; the cached ones are among those of the prompt."""
        cached = self.prompt if self.cached is None else self.cached
        fresh = max(prompt_tokens - cached_tokens, 0)
        return (fresh * self.prompt + cached_tokens * cached + completion_tokens * self.completion) / 1e6
