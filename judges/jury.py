"""`Jury`: several judges, or several samples of one, and one verdict."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from judges.aggregate import Aggregate, aggregated, check_aggregate
from judges.asking import together
from judges.judge import Judge, Judging
from judges.verdict import JudgeConfigError, JudgeFailure, Verdict


class Jury:
    """Asks several judges the same and makes one verdict of their answers.

    `Jury([strict, lenient, strict])` asks `strict` for two different samples: those of one judge, or of judges that ask
    the very same, are numbered. Where the judges do not share a scale, labels cannot be compared, and the verdict has
    no agreement.

    Args:
        judges: one judge, or several; one that is there more than once is sampled more than once.
        samples: how often each is asked.
        aggregate: `"median"` or `"mean"` of the scores, or `"majority"`: the score of the label that more than half of
            the answers that have a score give. A majority needs judges that share a scale.
        quorum: how many must give a score; by default more than half. The others may fail or abstain.

    Raises:
        JudgeConfigError: there is no judge, one is a jury, or the quorum cannot be met.
    """

    def __init__(
        self,
        judges: Judging | Sequence[Judging],
        samples: int = 1,
        *,
        aggregate: Aggregate = "median",
        quorum: int | None = None,
    ) -> None:
        each = list(judges) if isinstance(judges, Sequence) else [judges]
        if not each:
            raise JudgeConfigError("a jury needs a judge")
        for judge in each:
            if not hasattr(judge, "judge") or not hasattr(judge, "variables"):
                raise JudgeConfigError(f"a jury is made of judges, and {judge!r} is none")
            if isinstance(judge, Jury):  # whose samples could not be told from those of the others
                raise JudgeConfigError("a jury is made of judges, not of juries: give it their judges")
            if isinstance(judge, Judge) and judge.samples != 1:
                raise JudgeConfigError("a judge in a jury is asked once: give samples to the jury, not to the judge")
        if isinstance(samples, bool) or not isinstance(samples, int) or samples < 1:
            raise JudgeConfigError(f"samples is a whole number from 1, not {samples!r}")
        check_aggregate(aggregate)
        self._one_scale = len({judge.scale for judge in each if isinstance(judge, Judge)}) <= 1
        if aggregate == "majority" and not self._one_scale:
            raise JudgeConfigError("a majority is of one label, so the judges must share a scale; they have several")
        self.judges = [judge for judge in each for _ in range(samples)]
        self.aggregate: Aggregate = aggregate
        size = len(self.judges)
        self.quorum = size // 2 + 1 if quorum is None else quorum
        if isinstance(self.quorum, bool) or not isinstance(self.quorum, int) or not 1 <= self.quorum <= size:
            raise JudgeConfigError(f"quorum is a whole number from 1 to {size}, the size of the jury, not {quorum!r}")

    def __repr__(self) -> str:
        return f"Jury(of {len(self.judges)}, aggregate={self.aggregate!r}, quorum={self.quorum})"

    @property
    def variables(self) -> frozenset[str]:
        """The names of the inputs that the judges' templates use."""
        return frozenset().union(*(judge.variables for judge in self.judges))

    async def judge(self, **inputs: Any) -> Verdict | JudgeFailure:
        """The verdict on some inputs; its `samples` are the answers, in the order of the judges.

        Raises:
            PromptError: an input is missing, or cannot be shown.
        """
        calls = [
            judge.sample(number, inputs) if isinstance(judge, Judge) else judge.judge(**inputs)
            for judge, number in zip(self.judges, self._numbers(), strict=True)
        ]
        verdict = aggregated(await together(*calls), self.aggregate, self.quorum)
        if isinstance(verdict, JudgeFailure) or self._one_scale:
            return verdict
        return replace(verdict, agreement=None)

    def _numbers(self) -> list[int]:
        """The number of the sample that each judge is asked for: equal questions have different ones."""
        asked: Counter[Any] = Counter()
        numbers = []
        for judge in self.judges:
            same = (judge.asker.exchanger.endpoint, judge.fingerprint) if isinstance(judge, Judge) else id(judge)
            numbers.append(asked[same])
            asked[same] += 1
        return numbers

    def judge_sync(self, **inputs: Any) -> Verdict | JudgeFailure:
        """`judge`, for sync code; it blocks the thread."""
        from rubrics.engine.loop import block

        return block(lambda: self.judge(**inputs))
