"""Criteria of choices: which option an answer states."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property
from typing import Any

from rubrics.criteria.base import ReferenceCheck
from rubrics.criteria.values import quoted
from rubrics.score import Score, StructureError, Unscored

LONGEST = 100_000  # characters at the end of a text that are read


class MultipleChoice(ReferenceCheck):
    r"""Whether a text chooses the expected option.

    What counts is the last statement of an answer: `the answer is B`, `Answer: (B)`, `I choose B`, `B is correct`,
    `\boxed{B}`, or a line that is nothing but an option (`**B**`); or, where there is none, the option that a text
    begins with (`B) Paris`, `B. Paris`), if no other line does. Options that are only mentioned do not count. A text
    that states none, or several in its last statement (`the answer is A or B`), scores 0: it is unclear by its own
    fault. Of a longer text the last 100,000 characters are read.

    Args:
        expected, expected_from, of, within: see `ReferenceCheck`; one letter.
        options: the letters there are.
    """

    def __init__(
        self,
        expected: str | Sequence[str] | None = None,
        expected_from: str | None = None,
        options: str = "ABCD",
        of: str = "action",
        within: str | None = None,
    ) -> None:
        super().__init__(expected, expected_from, of, within)
        if not options.isalpha() or not options.isupper() or len(set(options)) != len(options) or len(options) < 2:
            raise StructureError(f"MultipleChoice: options are capital letters, such as 'ABCD', not {options!r}")
        given = [expected] if isinstance(expected, str) else expected or ()
        if wrong := [each for each in given if each.strip().upper() not in list(options)]:
            raise StructureError(f"MultipleChoice: {wrong[0]!r} is not among the options {options}")
        self.options = options

    @cached_property
    def _stated(self) -> re.Pattern[str]:
        """What states an option, and then the option, or several joined by commas and words."""
        opening = r"[*_$({\[\"'`]{0,6}(?:\\?(?:text|textbf|mathrm|mathbf)\{)?\(?"
        closing = r"[*_$)}\]\"'`.]{0,6}"
        option = rf"{opening}[{self.options}](?![^\W_]|['’][^\W_])"
        several = rf"(?P<said>{option}(?:{closing}\s?(?:,|/|&|\bor\b|\band\b|,\s?or\b|,\s?and\b)\s?{option}){{0,9}})"
        small = (
            rf"{opening}(?P<small>[{self.options.lower()}]){closing}[ \t]{{0,3}}(?:\n|\Z)"  # else it may be an article
        )
        verb = r"\s(?:is|would\sbe|should\sbe|must\sbe)"
        answer = (
            rf"(?i:(?:answer|solution|choice|option)[*_]{{0,4}}(?:{verb}[*_]{{0,4}}\s?:?|\s?[:=])[*_]{{0,4}}"
            r"(?:\s(?:either|both|option|choice))?"
            r"|(?<!not\s)(?<!n't\s)(?<!never\s)(?:choose|pick|select|go\swith)(?:\s(?:option|choice|answer))?)\s{0,3}"
        )
        right = rf"{closing}(?i:{verb}\s(?:the\s)?(?:(?:correct|right)|(?:best\s)?(?:answer|choice|option))(?![^\W_]))"
        return re.compile(
            rf"(?<![^\W_])(?:{answer}|\\(?:boxed|fbox)\{{\s?)(?:{several}|{small})"
            rf"|(?<![^\W_])(?P<called>[{self.options}]){right}"
        )

    @cached_property
    def _alone(self) -> re.Pattern[str]:
        return re.compile(rf"^[^\w\n]{{0,6}}([{self.options}])[^\w\n]{{0,6}}$", re.MULTILINE)

    @cached_property
    def _listed(self) -> re.Pattern[str]:
        marked = rf"[(\[]?([{self.options}])[*_]{{0,2}}[)\].:][*_]{{0,2}}"
        return re.compile(rf"^[ \t>*_-]{{0,6}}{marked}(?=\s)", re.MULTILINE)

    def statement_in(self, text: str) -> tuple[str | None, str]:
        """The option that a text states, if it states one, and the words in which it does, or why not."""
        text = text[-LONGEST:]
        stated, alone = self._stated.finditer(text), self._alone.finditer(text)
        statements = [(found.start(), found["said"] or found["called"] or found["small"], found[0]) for found in stated]
        statements += [(found.start(), found[1], found[0]) for found in alone]
        if not statements:
            listed = list(self._listed.finditer(text))
            if len(listed) != 1 or text[: listed[0].start()].strip():
                return None, f"no option is stated in {quoted(text[-80:])}"
            return listed[0][1], quoted(listed[0][0].strip())
        _, signs, words = max(statements)
        chosen = {*re.findall(rf"(?<![^\W_])[{self.options}](?![^\W_])", signs if len(signs) > 1 else signs.upper())}
        if len(chosen) > 1:
            return None, f"{quoted(words)} states several options"
        return chosen.pop(), quoted(words.strip())

    def choice_in(self, text: str) -> str | None:
        """The option that a text chooses; None where it chooses none, or several."""
        return self.statement_in(text)[0]

    def references(self, action: Any, observation: Any, task: Any) -> list[str]:
        found = [each.strip().upper() for each in super().references(action, observation, task)]
        if wrong := [each for each in found if each not in list(self.options)]:
            raise Unscored(f"{quoted(wrong[0], 40)} is not among the options {self.options}")
        return found

    def score_pair(self, text: str, reference: str) -> Score:
        found, words = self.statement_in(text)
        return Score(0.0, words) if found is None else Score(float(found == reference), f"it chooses {found}: {words}")
