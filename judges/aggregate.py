"""Several answers to one question, made into one verdict."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from statistics import fmean, median
from typing import Literal, get_args

from judges.verdict import JudgeConfigError, JudgeFailure, Verdict
from rubrics.evaluation import NO_USAGE

Aggregate = Literal["mean", "median", "majority"]


def check_aggregate(aggregate: str) -> None:
    """Refuse what is no way to aggregate."""
    if aggregate not in get_args(Aggregate):
        raise JudgeConfigError(f"aggregate is one of {', '.join(get_args(Aggregate))}, not {aggregate!r}")


def aggregated(answers: Sequence[Verdict | JudgeFailure], aggregate: Aggregate, quorum: int) -> Verdict | JudgeFailure:
    """One verdict out of several.

    Args:
        answers: verdicts and failures, in the order of their numbers.
        aggregate: `"mean"` or `"median"` of the scores, or the score of the label that more than half of the scored
            answers give (`"majority"`).
        quorum: how many answers must have a score. Abstentions and failures have none.

    Returns:
        A verdict whose `samples` are the answers and whose `agreement` is the share of the most frequent label. Where
        the quorum is not met: an abstention if enough judges answered, abstentions counted, else the failure that was
        most frequent. Without a majority: a failure of kind `ambiguous`.
    """
    samples = tuple(answers)
    usage = sum((answer.usage for answer in samples), NO_USAGE)
    verdicts = [answer for answer in samples if isinstance(answer, Verdict)]
    failures = [answer for answer in samples if isinstance(answer, JudgeFailure)]
    scored = [(verdict, verdict.score) for verdict in verdicts if verdict.score is not None]
    cached = all(answer.cached for answer in samples)
    counted = f"{len(scored)} of {len(samples)} gave a score, and {quorum} must"
    if len(scored) < quorum:
        if len(verdicts) >= quorum:
            reasons = [verdict.reason for verdict in verdicts if verdict.abstained and verdict.reason]
            return Verdict(None, reason=reasons[0] if reasons else counted, usage=usage, cached=cached, samples=samples)
        kind = Counter(failure.kind for failure in failures).most_common(1)[0][0]
        told = next(failure for failure in failures if failure.kind == kind)
        return JudgeFailure(
            kind,
            f"{counted}; {told.message}",
            usage,
            told.model,
            told.reply,
            cached,
            told.status,
            sum(failure.attempts for failure in failures),
            samples,
        )
    labels = Counter(verdict.label for verdict, _ in scored)
    label, votes = labels.most_common(1)[0]
    if aggregate == "majority":
        if 2 * votes <= len(scored):
            split = ", ".join(f"{label!r} {n}" for label, n in labels.most_common())
            return JudgeFailure(
                "ambiguous", f"no label has a majority ({split})", usage, cached=cached, samples=samples
            )
        score = fmean(score for verdict, score in scored if verdict.label == label)
    else:
        score = (fmean if aggregate == "mean" else median)([score for _, score in scored])
    # Label and reason are those of one answer: of the majority's, where there is one, the nearest to the score.
    speaking = [pair for pair in scored if pair[0].label == label] if 2 * votes > len(scored) else scored
    nearest = min(speaking, key=lambda pair: abs(pair[1] - score))[0]
    return Verdict(
        score,
        nearest.label,
        nearest.reason,
        usage,
        nearest.model,
        nearest.reply,
        cached,
        nearest.metadata,
        samples,
        votes / len(scored),
    )
