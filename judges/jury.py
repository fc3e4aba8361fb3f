"""`Jury`: several judges, or several samples of one, and one verdict."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from judges.aggregate import Aggregate, aggregated, check_aggregate
from judges.asking import together
from judges.judge import Judge, Judging
from judges.verdict import JudgeConfigError, JudgeFailure, Verdict


class Jury:
    """Asks several judges the same and makes one verdict of their answers.

    `Jury([strict, lenient, strict])` asks `strict` for two different samples: those of one judge are numbered.

    Args:
        judges: one judge, or several; one that is there more than once is sampled more than once.
        samples: how often each is asked.
        aggregate: `"median"` or `"mean"` of the scores, or `"majority"`: the label that more than half give.
        quorum: how many must give a score; by default more than half. The others may fail or abstain.

    Raises:
        JudgeConfigError: there is no judge, or the quorum cannot be met.
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
            if isinstance(judge, Judge) and judge.samples != 1:
                raise JudgeConfigError("a judge in a jury is asked once: give samples to the jury, not to the judge")
        if isinstance(samples, bool) or not isinstance(samples, int) or samples < 1:
            raise JudgeConfigError(f"samples is a whole number from 1, not {samples!r}")
        check_aggregate(aggregate)
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
        asked: dict[int, int] = {}
        calls = []
        for judge in self.judges:
            number = asked[id(judge)] = asked.get(id(judge), -1) + 1
            calls.append(judge.sample(number, inputs) if isinstance(judge, Judge) else judge.judge(**inputs))
        return aggregated(await together(*calls), self.aggregate, self.quorum)

    def judge_sync(self, **inputs: Any) -> Verdict | JudgeFailure:
        """`judge`, for sync code; it blocks the thread."""
        from rubrics.engine.loop import block

        return block(lambda: self.judge(**inputs))
