"""Expected scores: what a judge would answer on average, by the log probabilities at the score's own token.

Source: Liu et al. 2023, "G-Eval: NLG Evaluation using GPT-4 with Better Human Alignment", section 2.3.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import exp, fsum
from typing import Any

from judges.clients.protocol import Token
from judges.extract import Extracted, value_offset
from judges.scale import Choice, ReadError, Scale, folded
from judges.verdict import JudgeConfigError


@dataclass(frozen=True, slots=True)
class Expectation:
    """A distribution over the labels of a scale.

    Attributes:
        score: the mean of their scores, in [0, 1].
        probabilities: by label, normalised to sum to 1.
        mass: what the labels had together before that, in (0, 1].
    """

    score: float
    probabilities: dict[Any, float]
    mass: float


def spoken(label: Any) -> str:
    """A label as it stands in JSON, without quotes."""
    return label if isinstance(label, str) else json.dumps(label)


def check_scale(scale: Scale) -> None:
    """Refuse a scale whose labels their first token cannot tell apart.

    Raises:
        JudgeConfigError: it has no labels, may be abstained from, or one label is the beginning of another.
    """
    if not scale.labels:
        raise JudgeConfigError(f"expected=True needs a scale of few labels, and {scale!r} has too many: use Likert")
    if scale.abstain:
        raise JudgeConfigError(f"expected=True has no place for an abstention, which {scale!r} allows")
    words = [folded(spoken(label)) for label in scale.labels]
    for word in words:
        longer = next((other for other in words if other != word and other.startswith(word)), None)
        if longer is not None:
            hint = "" if isinstance(scale, Choice) else ", for instance Likert(1, 5) or Likert(0, 9)"
            raise JudgeConfigError(
                f"expected=True cannot tell {word!r} from {longer!r} by its first token: choose labels of which none "
                f"is the beginning of another{hint}"
            )


def label_probabilities(alternatives: Iterable[tuple[str, float]], labels: Sequence[str]) -> dict[str, float]:
    """The probability of each label among the alternatives of one token; spellings of one label are summed.

    Args:
        alternatives: (text, natural log probability) of each; a text may begin with white space or a quote, and may be
            only the beginning of a label where no other label begins so.
        labels: as they are written. Letter case counts only where two labels differ in nothing else.

    Returns:
        By label, in [0, 1]; not normalised.
    """
    fold = folded if len({folded(label) for label in labels}) == len(labels) else str.strip
    words = {fold(label): label for label in labels}
    sums: dict[str, list[float]] = {label: [] for label in labels}
    for text, logprob in alternatives:
        word = fold(text.strip().lstrip("\"'“"))
        word = word.rstrip("\"'”},.\n\t ") if word not in words else word
        meant = (
            [words[word]] if word in words else [label for key, label in words.items() if word and key.startswith(word)]
        )
        if len(meant) == 1:
            sums[meant[0]].append(exp(min(logprob, 0.0)))
    return {label: min(fsum(found), 1.0) for label, found in sums.items()}


def expectation(found: Extracted, tokens: Sequence[Token] | None, scale: Scale, min_mass: float) -> Expectation:
    """The expected score of a reply.

    Args:
        found: the answer, and where it stands in the reply.
        tokens: the reply's tokens with their alternatives.
        scale: whose labels were asked for.
        min_mass: the least probability that the labels must have together.

    Raises:
        ReadError: of kind `logprobs`: there are none, the score's token cannot be found in them, or the labels have too
            little of the probability.
    """
    if not tokens or not any(token.top for token in tokens):
        raise ReadError("logprobs", "the reply came without log probabilities")
    token = _score_token(found, tokens)
    if not token.top:
        raise ReadError("logprobs", "the score's token came without alternatives")
    alternatives = dict(token.top)
    alternatives.setdefault(token.text, token.logprob)
    by_word = label_probabilities(alternatives.items(), [spoken(label) for label in scale.labels])
    masses = {label: by_word[spoken(label)] for label in scale.labels}
    mass = fsum(masses.values())
    if not mass >= min_mass or mass == 0.0:  # also where a server sends NaN
        raise ReadError(
            "logprobs",
            f"the labels have {mass:.3f} of the probability at the score's token; at least {min_mass:g} must",
        )
    probabilities = {label: part / mass for label, part in masses.items()}
    score = fsum(part * scale.normalise(label) for label, part in probabilities.items())
    return Expectation(min(max(score, 0.0), 1.0), probabilities, min(mass, 1.0))


def _score_token(found: Extracted, tokens: Sequence[Token]) -> Token:
    """The token in which the score's value begins, by its byte offset."""
    written = b"".join(token.bytes for token in tokens)
    source = _bytes(found.source[found.start : found.end])
    if written == _bytes(found.source):
        start = len(_bytes(found.source[: found.start]))
    else:  # a server may show less than it generated, such as no fence around the object
        start = written.find(source)
        if start < 0 or written.rfind(source) != start:
            raise ReadError("logprobs", "the answer cannot be located in the tokens of the reply")
    value = value_offset(found.source, found.start, "score")
    offset = start + len(_bytes(found.source[found.start : value])) + (found.source[value] == '"')
    at = 0
    for token in tokens:
        at += len(token.bytes)
        if at > offset:
            before = max(offset - (at - len(token.bytes)), 0)
            if token.bytes[before:].strip():
                return _without(token, token.bytes[:before])
    raise ReadError("logprobs", "the score's token is not among the tokens of the reply")


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _without(token: Token, before: bytes) -> Token:
    """The token without what it holds before the value; alternatives that begin so lose it, too."""
    if not before.strip(b' \t\r\n"'):
        return token
    prefix = before.decode("utf-8", "replace")
    top = tuple((text.removeprefix(prefix), logprob) for text, logprob in token.top if text.startswith(prefix))
    return Token(token.text.removeprefix(prefix), token.bytes[len(before) :], token.logprob, top)
