"""What a judge answers: a `Verdict`, or a `JudgeFailure` that says why there is none; never a bare number."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from rubrics.evaluation import NO_USAGE, Usage
from rubrics.score import RubricError

FailureKind = Literal[
    "transport",  # no connection, 408, 5xx, a body that cannot be read
    "rate_limit",  # 429
    "timeout",  # the request took longer than the judge allows
    "auth",  # 401, 403: the key
    "request",  # any other 4xx: the request itself
    "too_long",  # the prompt does not fit the model's context
    "refused",  # the model or a content filter declined
    "truncated",  # the reply was cut by the token limit
    "empty",  # there was no text
    "format",  # the reply holds no object of the form that was asked for
    "out_of_scale",  # a score that is not on the scale
    "ambiguous",  # two different scores, or one key twice
    "logprobs",  # an expected score was asked for, and the log probabilities do not give it
    "budget",  # the request would exceed the budget, and was not sent
    "not_recorded",  # the store only replays, and does not hold the request
]
KINDS: frozenset[str] = frozenset(get_args(FailureKind))


@dataclass(frozen=True, slots=True)
class Verdict:
    """A judgement that was made.

    Attributes:
        score: in [0, 1]; None where the judge abstained.
        label: the value on the scale, such as 4 on a Likert scale or "A" of a choice; None for an abstention.
        reason: the judge's words, where it was asked for them.
        usage: what it cost, failed attempts included; zero where it came from a store, or where an identical request in
            flight paid for it.
        model: the model that was asked.
        reply: the text the verdict was read from.
        cached: whether every reply came from a store.
        metadata: more about it: `evidence`, `probabilities` and `mass` of an expected score.
        samples: the verdicts and failures it was aggregated from, in the order of their numbers; else empty.
        agreement: the share of the scored samples that gave the most frequent label, in (0, 1]; None for a single one.
    """

    score: float | None
    label: Any = None
    reason: str | None = None
    usage: Usage = NO_USAGE
    model: str | None = None
    reply: str | None = None
    cached: bool = False
    metadata: Mapping[str, Any] = field(default_factory=dict)
    samples: tuple[Verdict | JudgeFailure, ...] = ()
    agreement: float | None = None

    @property
    def abstained(self) -> bool:
        """Whether the judge said that it cannot tell."""
        return self.score is None


@dataclass(frozen=True, slots=True)
class JudgeFailure:
    """Why there is no verdict.

    Attributes:
        kind: one of the kinds of `FailureKind`.
        message: what happened, with every known key masked.
        usage: what it cost all the same.
        model: the model that was asked.
        reply: the text of the last reply, where there was one.
        cached: whether it was replayed from a store.
        status: the HTTP status, where there was one.
        attempts: requests sent.
        samples: the verdicts and failures it was aggregated from; empty for a single one.
    """

    kind: FailureKind
    message: str
    usage: Usage = NO_USAGE
    model: str | None = None
    reply: str | None = None
    cached: bool = False
    status: int | None = None
    attempts: int = 0
    samples: tuple[Verdict | JudgeFailure, ...] = ()

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"{self.kind!r} is no kind of failure; the kinds: {', '.join(sorted(KINDS))}")

    def __str__(self) -> str:
        return f"{self.kind}: {self.message}"


class JudgeError(RubricError):
    """A judge in a tree gave no verdict, and its leaf was told to raise.

    Attributes:
        failure: what happened.
    """

    def __init__(self, failure: JudgeFailure) -> None:
        super().__init__(str(failure))
        self.failure = failure

    def __reduce__(self) -> tuple[type[JudgeError], tuple[JudgeFailure]]:
        return type(self), (self.failure,)


class JudgeConfigError(RubricError, ValueError):
    """A judge cannot be built, or cannot be asked, the way it was set up."""


class PromptError(JudgeConfigError):
    """A prompt cannot be compiled or rendered: a syntax error, an unknown variable, a value that is no text, …"""
