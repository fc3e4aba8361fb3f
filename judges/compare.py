"""Several candidates: which of two is better, and how all of a group do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import Any, Literal, Unpack, get_args

from judges.asking import Asker, Options, refuse_unknown, together
from judges.clients.protocol import ChatRequest, Message
from judges.fence import Pieces, Rendered, as_text
from judges.form import Answer, KeyedForm
from judges.judge import Judge, fixed_messages, prompt_from, question
from judges.prompt import Prompt
from judges.scale import Choice, Likert, Scale
from judges.verdict import JudgeConfigError, JudgeFailure, PromptError, Verdict
from rubrics.evaluation import NO_USAGE, Usage

Orders = Literal["both", "shuffle", "given"]
PAIR = """\
Compare two answers.
{% if task is defined and task is not none %}
The task:
{{ task | untrusted }}
{% endif %}
Answer A:
{{ first | untrusted }}

Answer B:
{{ second | untrusted }}

Which answer is better?
"""
GROUP = """\
Grade each of several answers to one task, in comparison with the others.
{% if task is defined and task is not none %}
The task:
{{ task | untrusted }}
{% endif %}
{{ candidates | untrusted }}
"""


@dataclass(frozen=True, slots=True)
class Game:
    """One question about a pair.

    Attributes:
        first: which of the two was shown first, `"a"` or `"b"`.
        verdict: on the answer that was shown first: 1 where it is better, 0.5 for a tie.
    """

    first: Literal["a", "b"]
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class Comparison:
    """Which of two candidates is better.

    Attributes:
        score: how much better `a` is: 1 it wins, 0 it loses, 0.5 a tie, or two orders that disagree.
        winner: `"a"`, `"b"`, or None.
        consistent: whether both orders say the same; None where one was asked.
        games: the questions, in the order in which they were put.
        usage: what it cost.
    """

    score: float
    winner: Literal["a", "b"] | None
    consistent: bool | None
    games: tuple[Game, ...]
    usage: Usage

    @property
    def reason(self) -> str | None:
        """The judge's words on the first question."""
        return self.games[0].verdict.reason


class PairwiseJudge:
    """Asks which of two candidates is better.

    Args:
        prompt: a template that sees `first` and `second`, in the order shown, and what else `compare` is given. The
            answers are called A and B.
        orders: `"both"` asks twice, each shown first once, and takes the mean; `"shuffle"` asks once, in an order drawn
            from the seed and the candidates, for each pair anew; `"given"` asks once, `a` first.
        ties: whether the judge may say that both are equally good.
        seed: of the shuffles.
        reason, expected, min_mass: of the judge (see `Judge`).
        options: the model and how it is asked (see `Options`).

    Raises:
        PromptError: the template is wrong.
        JudgeConfigError: anything else is.
    """

    def __init__(
        self,
        prompt: str | Prompt | Path = PAIR,
        *,
        orders: Orders = "both",
        ties: bool = True,
        seed: int = 0,
        reason: bool | None = None,
        expected: bool = False,
        min_mass: float = 0.5,
        **options: Unpack[Options],
    ) -> None:
        refuse_unknown(options, "PairwiseJudge")
        if orders not in get_args(Orders):
            raise JudgeConfigError(f"orders is one of {', '.join(get_args(Orders))}, not {orders!r}")
        scale = Choice({"A": 1.0, "tie": 0.5, "B": 0.0} if ties else {"A": 1.0, "B": 0.0})
        self.judge = Judge(prompt, scale, reason=reason, expected=expected, min_mass=min_mass, **options)
        missing = sorted({"first", "second"} - self.judge.variables)
        if missing:
            raise PromptError(f"the template of a PairwiseJudge must show {' and '.join(missing)}")
        self.orders: Orders = orders
        self.seed = seed

    async def compare(self, a: Any, b: Any, **inputs: Any) -> Comparison | JudgeFailure:
        """Which of two candidates is better.

        Args:
            a, b: texts, or anything that has a JSON form.
            inputs: further values of the template's variables.

        Returns:
            The comparison, or the failure of a question: half an answer is none.

        Raises:
            PromptError: an input is missing, or cannot be shown.
        """
        firsts: tuple[Literal["a", "b"], ...] = ("a", "b") if self.orders == "both" else (self._first(a, b),)
        shown = [(a, b) if first == "a" else (b, a) for first in firsts]
        answers = await together(*(self.judge.judge(**inputs, first=x, second=y) for x, y in shown))
        usage = sum((answer.usage for answer in answers), NO_USAGE)
        games: list[Game] = []
        for first, answer in zip(firsts, answers, strict=True):
            if isinstance(answer, JudgeFailure):
                return replace(answer, usage=usage)
            games.append(Game(first, answer))
        scores = [_score(game) for game in games]
        score = sum(scores) / len(scores)
        consistent = None if len(scores) == 1 else len({_sign(each) for each in scores}) == 1
        winner: Literal["a", "b"] | None = "a" if score > 0.5 else "b" if score < 0.5 else None
        return Comparison(score, winner, consistent, tuple(games), usage)

    def compare_sync(self, a: Any, b: Any, **inputs: Any) -> Comparison | JudgeFailure:
        """`compare`, for sync code; it blocks the thread."""
        from rubrics.engine.loop import block

        return block(lambda: self.compare(a, b, **inputs))

    def _first(self, a: Any, b: Any) -> Literal["a", "b"]:
        if self.orders == "given":
            return "a"
        return "a" if shuffler(self.seed, [a, b]).random() < 0.5 else "b"


def _score(game: Game) -> float:
    assert game.verdict.score is not None  # a pairwise judge cannot abstain
    return game.verdict.score if game.first == "a" else 1.0 - game.verdict.score


def _sign(score: float) -> int:
    return (score > 0.5) - (score < 0.5)


def shuffler(seed: int, candidates: Sequence[Any]) -> Random:
    """A generator drawn from a seed and what the candidates say, so that a shuffle can be repeated."""
    texts = ["".join(text for _, text in _pieces(candidate)) for candidate in candidates]
    digest = sha256(repr((seed, texts)).encode("utf-8", "replace"))
    return Random(digest.hexdigest())


@dataclass(frozen=True, slots=True)
class Grades:
    """How each candidate of a group does, by one call.

    Attributes:
        scores: in [0, 1], by candidate; None for an abstention.
        labels, reasons: on the scale, and in words.
        order: the indexes of the candidates, in the order in which they were shown.
        usage: what it cost.
    """

    scores: tuple[float | None, ...]
    labels: tuple[Any, ...]
    reasons: tuple[str | None, ...]
    order: tuple[int, ...]
    usage: Usage


class GroupwiseJudge:
    """Grades all candidates of a group in one call, in an order drawn from the seed and the candidates.

    Args:
        prompt: a template that sees `candidates` (`{{ candidates | untrusted }}`), and what else `grade` is given.
        scale: of each grade; by default `Likert(1, 10)`.
        reason: whether a reason is asked for.
        seed: of the shuffles.
        options: the model and how it is asked (see `Options`).

    Raises:
        PromptError: the template is wrong.
        JudgeConfigError: anything else is.
    """

    def __init__(
        self,
        prompt: str | Prompt | Path = GROUP,
        scale: Scale | None = None,
        *,
        reason: bool = True,
        seed: int = 0,
        **options: Unpack[Options],
    ) -> None:
        self.prompt = prompt_from(prompt)
        if "candidates" not in self.prompt.variables:
            raise PromptError("the template of a GroupwiseJudge must show candidates")
        self.scale = scale or self.prompt.scale or Likert(1, 10)
        if not isinstance(self.scale, Scale):
            raise JudgeConfigError(f"a GroupwiseJudge needs a scale, such as Likert(1, 10), not {self.scale!r}")
        self.reason, self.seed = reason, seed
        self.asker = Asker(self.prompt.model, self.prompt.sampling, self.prompt.hash, **options)

    async def grade(self, candidates: Sequence[Any], **inputs: Any) -> Grades | JudgeFailure:
        """How each candidate does.

        Args:
            candidates: texts, or anything that has a JSON form; two or more.
            inputs: further values of the template's variables.

        Raises:
            PromptError: an input is missing, or cannot be shown.
            JudgeConfigError: there is nothing to compare.
        """
        return await self.sample(0, candidates, inputs)

    async def sample(self, number: int, candidates: Sequence[Any], inputs: Mapping[str, Any]) -> Grades | JudgeFailure:
        """One sample of the grades. Samples of other numbers are asked for anew, also where a store holds this one."""
        order, rendered, form = self._rendered(candidates, inputs)
        asked = await self.asker.ask(self._messages(rendered, form), form, rendered.untrusted, number)
        if asked.failure is not None:
            return asked.failure
        assert asked.found is not None
        return self._grades(asked.found.answer, order, asked.usage)

    def messages(self, candidates: Sequence[Any], **inputs: Any) -> list[Message]:
        """The conversation that the model is sent.

        Raises:
            PromptError: an input is missing, or cannot be shown.
            JudgeConfigError: there is nothing to compare.
        """
        _, rendered, form = self._rendered(candidates, inputs)
        return self._messages(rendered, form)

    def request(self, number: int, candidates: Sequence[Any], inputs: Mapping[str, Any]) -> ChatRequest:
        """What is sent first for a sample of the grades (see `Judge.request`).

        Raises:
            PromptError: an input is missing, or cannot be shown.
            JudgeConfigError: there is nothing to compare, or no model is named.
        """
        _, rendered, form = self._rendered(candidates, inputs)
        return self.asker.request(self._messages(rendered, form), form, number)

    def _messages(self, rendered: Rendered, form: KeyedForm) -> list[Message]:
        return [*fixed_messages(self.prompt, form), question(rendered, form)]

    def _rendered(self, candidates: Sequence[Any], inputs: Mapping[str, Any]) -> tuple[list[int], Rendered, KeyedForm]:
        require_two(candidates)
        order = list(range(len(candidates)))
        shuffler(self.seed, candidates).shuffle(order)
        names = [f"candidate_{place}" for place in range(1, len(order) + 1)]
        form = KeyedForm(dict.fromkeys(names, self.scale), self.reason)
        parts: list[tuple[bool, str]] = []
        for name, index in zip(names, order, strict=True):
            parts += [(False, f"{name}:\n"), *_pieces(candidates[index]), (False, "\n\n")]
        return order, self.prompt.render({**inputs, "candidates": Pieces(parts)}), form

    def _grades(self, found: Mapping[str, Answer], order: Sequence[int], usage: Usage) -> Grades:
        by_index = sorted(zip(order, found.values(), strict=True), key=lambda each: each[0])
        given = [answer for _, answer in by_index]
        return Grades(
            tuple(self.scale.score(answer.label) for answer in given),
            tuple(answer.label for answer in given),
            tuple(answer.reason for answer in given),
            tuple(order),
            usage,
        )


def _pieces(candidate: Any) -> Sequence[tuple[bool, str]]:
    return candidate.parts if isinstance(candidate, Pieces) else [(True, as_text(candidate))]


def require_two(candidates: Sequence[Any]) -> None:
    if isinstance(candidates, str) or len(candidates) < 2:
        raise JudgeConfigError("there is nothing to compare: give a list of two candidates or more")
