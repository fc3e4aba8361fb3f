"""What is tested: a judge of one response, of pairs, or of groups, asked about the rows of a golden set."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from copy import copy
from hashlib import sha256
from typing import Any, TypeAlias

from judges.asking import Asker
from judges.clients.protocol import ChatRequest, Message
from judges.compare import Grades, GroupwiseJudge, PairwiseJudge
from judges.judge import Judge
from judges.prompt import Prompt
from judges.scale import Numeric, Scale
from judges.testing.golden import GoldenError, GoldenRow
from judges.testing.replies import read_replies
from judges.testing.results import Answer, Kind, Order, ReplyCheck
from judges.verdict import JudgeFailure, PromptError, Verdict

Tested: TypeAlias = Judge | PairwiseJudge | GroupwiseJudge

_WINNER = {"A": "a", "B": "b", "tie": "tie"}
_OTHER = {"a": "b", "b": "a", "tie": "tie"}


class Subject:
    """A judge, as a suite asks it; None where all rows bring their verdicts along.

    Args:
        judge: the judge.
        scale: of labels, where there is no judge.

    Raises:
        GoldenError: it is no judge that can be tested.
    """

    def __init__(self, judge: Tested | None, scale: Scale | None = None) -> None:
        if judge is not None and not isinstance(judge, (Judge, PairwiseJudge, GroupwiseJudge)):
            raise GoldenError(
                f"a suite tests a Judge, a PairwiseJudge or a GroupwiseJudge, not {type(judge).__name__}; of a jury or "
                "a checklist, test the judges it is made of"
            )
        self.judge = judge
        self._asking = judge.judge if isinstance(judge, PairwiseJudge) else judge
        self.scale = scale if self._asking is None else self._asking.scale

    @property
    def kind(self) -> Kind | None:
        """What rows it can be asked about; None for any."""
        if self.judge is None:
            return None
        kinds: dict[type, Kind] = {Judge: "labels", PairwiseJudge: "pairs", GroupwiseJudge: "rankings"}
        return next(kind for each, kind in kinds.items() if isinstance(self.judge, each))

    @property
    def prompt(self) -> Prompt | None:
        """The prompt."""
        return None if self._asking is None else self._asking.prompt

    @property
    def asker(self) -> Asker | None:
        """What asks the model."""
        return None if self._asking is None else self._asking.asker

    @property
    def expected(self) -> bool:
        """Whether its answers come with probabilities."""
        return isinstance(self._asking, Judge) and self._asking.expected

    @property
    def fingerprint(self) -> str | None:
        """What decides its verdicts, hashed."""
        if self._asking is None:
            return None
        if isinstance(self._asking, Judge):
            return self._asking.fingerprint
        scale = json.dumps(self._asking.scale.to_dict())
        decides = [
            self._asking.prompt.hash,
            self._asking.asker.fingerprint,
            scale,
            self._asking.reason,
            self._asking.seed,
        ]
        return sha256(json.dumps(decides).encode()).hexdigest()

    def messages(self, row: GoldenRow, order: Order = "given") -> list[Message]:
        """The conversation that the model is sent about a row.

        Raises:
            GoldenError: the row lacks what the prompt needs, or an input cannot be shown.
        """
        assert self._asking is not None
        try:
            return self._asking.messages(**self._inputs(row, order))
        except PromptError as error:
            raise GoldenError(f"row {row.id!r}: {error}") from None

    def request(self, row: GoldenRow, order: Order = "given", sample: int = 0) -> ChatRequest:
        """What is sent first about a row; a reply that cannot be used leads to another request.

        Raises:
            GoldenError: the row lacks what the prompt needs.
            PromptError: an input cannot be shown.
            JudgeConfigError: no model is named.
        """
        inputs = self._inputs(row, order)
        if isinstance(self._asking, GroupwiseJudge):
            return self._asking.request(sample, inputs.pop("candidates"), inputs)
        assert self._asking is not None
        return self._asking.request(sample, inputs)

    async def ask(self, row: GoldenRow, order: Order, sample: int) -> Answer:
        """Ask about a row.

        Raises:
            GoldenError: the row lacks what the prompt needs.
            PromptError: an input cannot be shown.
        """
        inputs = self._inputs(row, order)
        if isinstance(self._asking, GroupwiseJudge):
            candidates = inputs.pop("candidates")
            return _answer(await self._asking.sample(sample, candidates, inputs), order, sample)
        assert self._asking is not None
        return self._in_terms_of_row(await self._asking.sample(sample, inputs), order, sample)

    def read(self, row: GoldenRow) -> Answer:
        """The answer that the row's own reply is.

        Raises:
            GoldenError: there is no judge that could read it, or the row lacks what the prompt needs.
            PromptError: an input cannot be shown.
        """
        if not isinstance(self._asking, Judge):
            raise GoldenError("a row with a reply needs a Judge or a PairwiseJudge, whose extractor it tests")
        assert row.reply is not None
        answer = self._in_terms_of_row(self._asking.read(row.reply, **self._inputs(row, "given")), "given", 0)
        return answer.model_copy(update={"cached": True})

    def replies(self, row: GoldenRow) -> list[ReplyCheck]:
        """How the judge reads forms of reply about a row; none for a judge of groups.

        Raises:
            GoldenError: the row lacks what the prompt needs.
            PromptError: an input cannot be shown.
        """
        if not isinstance(self._asking, Judge):
            return []
        return read_replies(self._asking, self._inputs(row, "given"))

    def recorded(self, row: GoldenRow) -> list[Answer]:
        """The verdicts that a row brings along."""
        scale = None if row.gold_field == "winner" else self.scale
        samples: dict[Order, int] = {"given": 0, "swapped": 0}
        answers = []
        for each in row.recorded:
            answer = self._as_number(_answer(each.answer(scale), each.order, samples[each.order]))
            samples[each.order] += 1
            answers.append(answer.model_copy(update={"cached": True}))
        return answers

    def _in_terms_of_row(self, verdict: Verdict | JudgeFailure, order: Order, sample: int) -> Answer:
        answer = _answer(verdict, order, sample)
        if not isinstance(self.judge, PairwiseJudge) or answer.failure is not None:
            return self._as_number(answer)
        label, score = _WINNER[answer.label], answer.score
        probabilities = [(_WINNER[each], p) for each, p in answer.probabilities]
        if order == "swapped":
            label, score = _OTHER[label], None if score is None else 1.0 - score
            probabilities = [(_OTHER[each], p) for each, p in probabilities]
        return answer.model_copy(update={"label": label, "score": score, "probabilities": probabilities})

    def _as_number(self, answer: Answer) -> Answer:
        """A label of a `Numeric` scale as a float, so that `Case.said` does not take 7 for a label and 7.5 for none."""
        if answer.label is None or not isinstance(self.scale, Numeric):
            return answer
        return answer.model_copy(update={"label": float(answer.label)})

    def _inputs(self, row: GoldenRow, order: Order) -> dict[str, Any]:
        inputs = dict(row.inputs)
        if isinstance(self.judge, PairwiseJudge):
            _require(row, ("a", "b"), "a row of pairs")
            a, b = inputs.pop("a"), inputs.pop("b")
            inputs["first"], inputs["second"] = (a, b) if order == "given" else (b, a)
        elif isinstance(self.judge, GroupwiseJudge):
            _require(row, ("candidates",), "a row with a ranking")
            candidates = inputs["candidates"]
            inputs["candidates"] = list(candidates.values()) if isinstance(candidates, Mapping) else list(candidates)
        return inputs


def _require(row: GoldenRow, names: Sequence[str], who: str) -> None:
    missing = [name for name in names if name not in row.inputs]
    if missing:
        raise GoldenError(f"row {row.id!r}: {who} has the inputs {' and '.join(names)}; {missing[0]!r} is missing")


def _answer(verdict: Verdict | JudgeFailure | Grades, order: Order, sample: int) -> Answer:
    if isinstance(verdict, Grades):
        reasons = [reason for reason in verdict.reasons if reason]
        said = "\n".join(reasons) or None
        grades = list(verdict.scores) if any(score is not None for score in verdict.scores) else None
        return Answer(order=order, sample=sample, label=grades, reason=said, usage=verdict.usage)
    if isinstance(verdict, JudgeFailure):
        return Answer(
            order=order,
            sample=sample,
            failure=verdict.kind,
            message=verdict.message,
            reply=verdict.reply,
            usage=verdict.usage,
            cached=verdict.cached,
        )
    return Answer(
        order=order,
        sample=sample,
        label=verdict.label,
        score=verdict.score,
        reason=verdict.reason,
        reply=verdict.reply,
        probabilities=list(verdict.metadata.get("probabilities", {}).items()),
        usage=verdict.usage,
        cached=verdict.cached,
    )


def prompt_hash(messages: Sequence[Message]) -> str:
    """What a model is sent, hashed: the first 16 hex digits of a SHA-256."""
    sent = json.dumps([[each["role"], each["content"]] for each in messages], ensure_ascii=False)
    return sha256(sent.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def with_model(judge: Tested, model: str) -> Tested:
    """The same judge, asking another model."""
    found = copy(judge)
    asking = found
    if isinstance(found, PairwiseJudge):
        asking = found.judge = copy(found.judge)
    asking.asker = copy(asking.asker)  # type: ignore[union-attr]
    asking.asker._model = model  # type: ignore[union-attr]
    vars(asking).pop("fingerprint", None)  # was worked out for the other model
    return found
