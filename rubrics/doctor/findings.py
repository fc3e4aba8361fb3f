"""What the doctor says: findings, and a diagnosis made of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, get_args

from rubrics.shown import printable

Severity = Literal["error", "warning", "note"]


CHECKS: dict[str, tuple[Severity, str]] = {
    # of the tree
    "no-score": ("error", "Combine its rubrics in a container, such as WeightedSum"),
    "unreachable": ("error", "Move it to where it runs, or take it out"),
    "gate-cannot-pass": ("error", "Lower the threshold, or declare the range that its child really has"),
    "gate-cannot-fail": ("warning", "Raise the threshold, or take the gate away"),
    "weight-cannot-matter": ("warning", "Give it a weight that a trainer can see, or take it out"),
    "range": ("error", "Declare the range that it really has: bounds and gates are worked out from it"),
    "judge-before-check": ("warning", "Put the cheap checks first"),
    "no-timeout": ("warning", "Wrap it in Timeout(…, seconds)"),
    "no-budget": ("note", "Give it budget=Budget(usd=…)"),
    "unfenced": ("error", "Write {{ value | untrusted }}, or | trusted where you vouch for it"),
    # of trajectories
    "unreadable": ("error", "Mend the file, or leave it out: nothing is known of what is in it"),
    "errors": ("error", "Mend the node: an episode whose reward cannot be worked out is lost, or ends the run"),
    "unscored": ("warning", "Read the reasons, and give it a Fallback where a score can be had another way"),
    "never-ran": ("warning", "See what keeps it from running: a gate, a case, a check before it"),
    "constant": ("warning", "Make it harder or easier, or take it out: what never varies teaches nothing"),
    "saturated": ("warning", "Make it harder or easier: what hardly varies teaches hardly anything"),
    "flat-groups": (
        "warning",
        "Mix easier and harder tasks, or pay for a part of it: equal rewards give no advantage",
    ),
    "redundant": ("warning", "Keep one of them, or add up their weights on purpose"),
    "decides-alone": ("warning", "Look at its weight, and at whether the other nodes are ever met"),
    "length-bias": ("warning", "Bound the length, or compare answers of like length in the judge's golden set"),
    "disagrees": ("error", "Read some episodes of either kind: 'rubrics rescore --show ID' prints how one was scored"),
    "rises-after-done": ("error", "Pay for the state that was reached, not for each step that has it; end the episode"),
    # of attacks
    "exploit": ("error", "Put a check before what can be had so cheaply, and this attempt into the tests"),
}
"""Each check: how bad what it finds is, and what to do."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that will spoil a training run, or may.

    Attributes:
        check: the name of the check, such as `gate-cannot-pass`.
        severity: `error`: the reward is wrong; `warning`: it will probably teach the wrong thing, or nothing; `note`: a
            choice to know of.
        path: of the node it is about; `""` for the tree as a whole.
        what: is the matter.
        advice: what to do.
        evidence: the numbers behind it, as JSON values.
    """

    check: str
    severity: Severity
    path: str
    what: str
    advice: str
    evidence: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.severity}: {self.path or 'the tree'}: {self.what}. {self.advice}. [{self.check}]"


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What the doctor found.

    Attributes:
        findings: the worst first, then by path.
        looked_at: what was there to look at: `nodes`, `trajectories`, `scored`, `unfinished`, `groups`,
            `attempts` (episodes of attacks).
        not_looked_at: what could not be looked at, and why.
    """

    findings: tuple[Finding, ...]
    looked_at: dict[str, int]
    not_looked_at: tuple[str, ...] = ()

    def of(self, check: str) -> list[Finding]:
        """The findings of one check."""
        return [finding for finding in self.findings if finding.check == check]

    @property
    def worst(self) -> Severity | None:
        """The gravest severity; None where nothing was found."""
        return self.findings[0].severity if self.findings else None

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "findings": [asdict(finding) for finding in self.findings],
            "looked_at": self.looked_at,
            "not_looked_at": list(self.not_looked_at),
        }

    def text(self) -> str:
        """In words, one finding a paragraph."""
        counted = ", ".join(f"{count:,} {name}" for name, count in self.looked_at.items())
        parts = [f"{len(self.findings) or 'no'} finding{'' if len(self.findings) == 1 else 's'} in {counted}"]
        for found in self.findings:
            numbers = ", ".join(f"{name} {_shown(value)}" for name, value in found.evidence.items())
            lines = [f"{found.severity}  {found.path or '(the tree)'}  [{found.check}]", f"  {found.what}."]
            parts.append("\n".join([*lines, *([f"  evidence: {numbers}"] if numbers else []), f"  {found.advice}."]))
        parts += [f"not looked at: {reason}" for reason in self.not_looked_at]
        return printable("\n\n".join(parts))


def found(check: str, path: str, what: str, *, severity: Severity | None = None, **evidence: Any) -> Finding:
    """A finding of a check, with its advice."""
    usual, advice = CHECKS[check]
    return Finding(check, severity or usual, path, what, advice, evidence)


def diagnosis(findings: Sequence[Finding], looked_at: dict[str, int], not_looked_at: Sequence[str] = ()) -> Diagnosis:
    """A diagnosis of findings in any order."""
    severities = get_args(Severity)
    ordered = sorted(findings, key=lambda found: (severities.index(found.severity), found.path, found.check))
    return Diagnosis(tuple(ordered), looked_at, tuple(not_looked_at))


def _shown(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.3g}"
    if isinstance(value, list):
        return f"[{', '.join(map(_shown, value))}]"
    if isinstance(value, dict):
        return ", ".join(f"{count} × {name!r}" for name, count in value.items())
    return str(value)
