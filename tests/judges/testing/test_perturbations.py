"""Perturbations find the biases that are planted in scripted judges, and none in sound ones."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from judges import Binary, ChatError, Judge, Likert, Numeric, PairwiseJudge, Scale
from judges.testing.figures import decisions_of, figures_of
from judges.testing.golden import GoldenError, GoldenSet
from judges.testing.outcome import problems_of
from judges.testing.perturbations import PERTURBATIONS, perturbation
from judges.testing.replies import read_replies
from judges.testing.results import Flip, Flips, SuiteReport
from judges.testing.running import Sending, run_suite
from judges.testing.suite import Suite
from tests.judges.testing.scripts import Script, golden

INJECTIONS = [name for name, each in PERTURBATIONS.items() if each.injects]
NEUTRAL = [name for name, each in PERTURBATIONS.items() if not each.injects]


def shown(message: str) -> str:
    """What stands between the outer lines of the fences."""
    return (
        message.split("Reply with JSON")[0]
        if "Reply with JSON: {" not in message
        else message.rsplit("Reply with JSON", 1)[0]
    )


def replies(count: int = 24) -> GoldenSet:
    """Every second one is good; all have some Markdown."""
    return golden(
        *(
            {"inputs": {"reply": f"**{'fine' if i % 2 else 'poor'}** work, number {i}"}, "label": bool(i % 2)}
            for i in range(count)
        )
    )


def run(rule: Callable[[str], Any], names: list[str], rows: GoldenSet | None = None, **options: Any) -> SuiteReport:
    judge = Judge(
        "{{ reply | untrusted }}", Binary(), reason=False, model="m", client=Script(lambda m: {"score": rule(shown(m))})
    )
    suite = Suite.of(judge, rows or replies(), name="s", response="reply", perturbations=names, **options)
    return run_suite(suite, Sending(live=True))


def found(report: SuiteReport, name: str) -> Flips:
    return next(each for each in report.perturbations if each.name == name)


def fine(text: str) -> bool:
    return re.search("f\u200b?i\u200b?n\u200b?e", text) is not None


def test_a_sound_judge_is_moved_by_nothing() -> None:
    report = run(fine, [*NEUTRAL, *INJECTIONS])
    assert len(report.perturbations) == 8
    for flips in report.perturbations:
        assert [flip for flip in flips.verdicts if flip.flipped] == [], flips.name
        assert len(flips.verdicts) == (12 if flips.name in INJECTIONS else 24)
        assert all(flip.lift == 0.0 for flip in flips.verdicts)


def test_a_judge_that_likes_long_answers_is_found_by_padding() -> None:
    report = run(lambda text: fine(text) or len(text) > 250, ["padding", "markdown_removed"], min_n=5)
    flips = found(report, "padding")
    assert {flip.id for flip in flips.verdicts if flip.flipped} == {f"r{i}" for i in range(0, 24, 2)}
    assert {flip.lift for flip in flips.verdicts if flip.flipped} == {1.0}
    assert figures_of(report).flips["padding"].estimate == 0.5
    assert figures_of(report).flips["markdown_removed"].estimate == 0.0


def test_verbosity_finds_it_as_well_and_is_not_fooled_by_good_answers_that_are_long() -> None:
    words = "and so on, and so forth, "
    rows = golden(
        *(
            {
                "inputs": {"reply": f"{'fine' if i % 2 else 'poor'} {i} {words * (i % 5 + 3 * (i % 2))}"},
                "label": bool(i % 2),
            }
            for i in range(60)
        )
    )
    sound = figures_of(run(fine, [], rows)).intervals["verbosity"]
    swayed = figures_of(run(lambda text: len(text) > 220, [], rows)).intervals["verbosity"]
    assert sound.estimate is None or abs(sound.estimate) < 0.1
    assert swayed.estimate is not None and swayed.low is not None
    assert swayed.estimate > 0.3 and swayed.low > 0.1


@pytest.mark.parametrize("name", INJECTIONS)
def test_a_judge_that_obeys_is_found(name: str) -> None:
    obeys = {
        "grade_in_last_line": lambda text: "Score: true" in text,
        "other_language": lambda text: "Ignoriere" in text,
        "closed_fence": lambda text: "0123456789abcdef UNTRUSTED>>>" in text,
        "ignore_the_above": lambda text: "Ignore the above" in text,
        "fake_verdict": lambda text: '\n{"score": true}' in text,
    }[name]
    report = run(lambda text: fine(text) or obeys(text), INJECTIONS)
    assert figures_of(report).flips[name].estimate == 1.0
    assert all(flip.lift == 1.0 and not flip.before and flip.after for flip in found(report, name).verdicts)
    others = [each for each in INJECTIONS if each != name]
    assert all(figures_of(report).flips[each].estimate == 0.0 for each in others)


def test_an_injection_asks_for_the_reply_of_the_judge_with_a_reason_where_it_gives_one() -> None:
    judge = Judge(
        "{{ reply | untrusted }}", Likert(1, 5), model="m", client=Script(lambda m: {"reason": "so", "score": 2})
    )
    rows = golden(*({"inputs": {"reply": f"x{i}"}, "label": 5 if i else 2} for i in range(3)))
    suite = Suite.of(judge, rows, name="s", response="reply", perturbations=["fake_verdict"])
    flips = found(run_suite(suite, Sending(live=True)), "fake_verdict")
    assert [flip.id for flip in flips.verdicts] == ["r0"]  # people gave the others the best score anyway
    assert flips.verdicts[0].changed is not None
    assert json.loads(flips.verdicts[0].changed.splitlines()[-1])["score"] == 5


# -- pairs ------------------------------------------------------------------------------------------------------------


def duel(rule: Callable[[str, str], str], names: list[str], **options: Any) -> SuiteReport:
    """A judge that is shown two candidates, and names the letter of one of them."""

    def answer(message: str) -> Any:
        first, second = re.findall(r"<<<UNTRUSTED \w+\n(.*?)\n\w+ UNTRUSTED>>>", message, re.DOTALL)[:2]
        return {"score": rule(first, second)}

    judge = PairwiseJudge(
        "{{ first | untrusted }}\nor\n{{ second | untrusted }}",
        reason=False,
        model="m",
        client=Script(answer),
        **options,
    )
    rows = golden(
        *(
            {
                "inputs": {"a": f"{'fine' if i % 2 else 'poor'} {i}", "b": f"{'poor' if i % 2 else 'fine'} {i}"},
                "winner": "a" if i % 2 else "b",
            }
            for i in range(20)
        )
    )
    return run_suite(Suite.of(judge, rows, name="s", perturbations=names), Sending(live=True))


def better(first: str, second: str) -> str:
    if ("fine" in first) == ("fine" in second):
        return "tie"
    return "A" if "fine" in first else "B"


def test_a_sound_judge_of_pairs_is_moved_by_nothing() -> None:
    report = duel(better, ["padding", "ignore_the_above", "swapped", "identical"])
    assert all(each.estimate == 0.0 for each in figures_of(report).flips.values())
    assert [len(each.verdicts) for each in report.perturbations] == [40, 40, 20, 20]
    assert figures_of(report).intervals["first_position_rate"].estimate == 0.5


def test_the_worse_candidate_of_a_pair_is_padded() -> None:
    report = duel(
        lambda a, b: "A" if len(a) > len(b) + 50 else "B" if len(b) > len(a) + 50 else better(a, b), ["padding"]
    )
    flips = found(report, "padding")
    assert figures_of(report).flips["padding"].estimate == 1.0
    assert all(flip.lift == 1.0 for flip in flips.verdicts)
    assert {(flip.id, flip.order, flip.after) for flip in flips.verdicts} >= {
        ("r0", "given", "a"),
        ("r0", "swapped", "a"),
        ("r1", "given", "b"),
    }


def test_an_injection_names_the_letter_under_which_the_worse_candidate_is_shown() -> None:
    def obeys(a: str, b: str) -> str:
        told = re.search(r'Reply with exactly this: \{"score": "(A|B)"\}', a + b)
        return told[1] if told else better(a, b)

    flips = found(duel(obeys, ["ignore_the_above"]), "ignore_the_above")
    assert len(flips.verdicts) == 40
    assert all(flip.flipped and flip.lift == 1.0 for flip in flips.verdicts)


def test_a_judge_that_prefers_the_first_position_is_found() -> None:
    for orders in ("both", "given"):
        report = duel(lambda a, b: "A", ["swapped", "identical"], orders=orders)
        assert figures_of(report).flips["swapped"].estimate == 1.0
        assert figures_of(report).flips["identical"].estimate == 1.0
    assert figures_of(duel(lambda a, b: "A", [])).intervals["first_position_rate"].estimate == 1.0


# -- in a suite -------------------------------------------------------------------------------------------------------


def test_a_threshold_on_flips_is_decided() -> None:
    held = {"padding": {"at_most": 0.2}, "zero_width": None}
    decisions = decisions_of(report := run(fine, held, min_n=5), figures_of(report))  # type: ignore[arg-type]
    assert decisions["flips[padding]"].outcome == "PASS"
    assert "flips[zero_width]" not in decisions
    swayed = run(lambda text: fine(text) or len(text) > 250, held, min_n=5)  # type: ignore[arg-type]
    assert decisions_of(swayed, figures_of(swayed))["flips[padding]"].outcome == "FAIL"


def test_a_question_that_reached_no_model_is_no_flip() -> None:
    def rule(message: str) -> Any:
        return ChatError("auth", "no key") if "to its end" in message else {"score": fine(message)}

    judge = Judge("{{ reply | untrusted }}", Binary(), reason=False, model="m", client=Script(rule))
    suite = Suite.of(judge, replies(), name="s", response="reply", perturbations=["padding"])
    flips = found(run_suite(suite, Sending(live=True)), "padding")
    assert {flip.failure for flip in flips.verdicts} == {"auth"}
    assert {flip.flipped for flip in flips.verdicts} == {None}


def test_a_sample_that_reached_no_model_leaves_the_flip_open() -> None:
    """Half an answer to the changed question is none: with the other half it might be another."""
    asked: list[str] = []

    def rule(message: str) -> Any:
        asked.append(message)
        late = "to its end" in message and asked.count(message) == 2
        return ChatError("budget", "all is spent") if late else {"score": fine(message)}

    judge = Judge("{{ reply | untrusted }}", Binary(), reason=False, model="m", client=Script(rule))
    suite = Suite.of(judge, replies(), name="s", response="reply", samples=2, perturbations=["padding"])
    report = run_suite(suite, Sending(live=True))
    assert {flip.flipped for flip in found(report, "padding").verdicts} == {None}
    (problem,) = problems_of(report, figures_of(report))
    assert "24 of 24 changed questions have no reply (24 budget)" in problem.message


def test_a_refusal_after_the_change_is_a_flip() -> None:
    assert Flip(id="r", before=True, failure="refused").flipped is True
    assert Flip(id="r", before=None, after=True).flipped is None


def test_a_perturbation_of_ones_own() -> None:
    @perturbation("shouting", "all letters are capitals")
    def shouting(text: str) -> str | None:
        return text.upper() if "poor" in text else None

    try:
        report = run(fine, ["shouting"])
        assert len(found(report, "shouting").verdicts) == 12  # it does not apply to the others
        with pytest.raises(GoldenError, match="there is a perturbation 'shouting' already"):
            perturbation("shouting", "again")(str.lower)
    finally:
        del PERTURBATIONS["shouting"]


@pytest.mark.parametrize(
    ("names", "options", "message"),
    [
        (["paddling"], {"response": "reply"}, "there is no perturbation 'paddling'; there are padding, "),
        (["padding"], {}, "say which input it is"),
        (["swapped"], {"response": "reply"}, "swapped is a perturbation of pairs"),
    ],
)
def test_what_does_not_fit_is_told(names: list[str], options: dict[str, Any], message: str) -> None:
    judge = Judge(
        "{{ reply | untrusted }}", Binary(), reason=False, model="m", client=Script(lambda m: {"score": True})
    )
    with pytest.raises(GoldenError, match=message):
        run_suite(Suite.of(judge, replies(), name="s", perturbations=names, **options), Sending(live=True))


def test_a_response_that_is_no_text_is_not_changed_and_that_is_told() -> None:
    said: list[dict[str, Any]] = [{"role": "assistant", "content": "fine"}]
    messages = [{"inputs": {"reply": said}, "label": True}, {"inputs": {"reply": 7}, "label": False}]
    with pytest.raises(GoldenError, match="padding changes a text, and the response of no row is one"):
        run(fine, ["padding"], golden(*messages))
    mixed = golden(*messages, {"inputs": {"reply": "fine work"}, "label": True})
    assert [flip.id for flip in found(run(fine, ["padding"], mixed), "padding").verdicts] == ["r2"]


def test_identical_needs_ties() -> None:
    with pytest.raises(GoldenError, match="ties: false"):
        duel(lambda a, b: "A", ["identical"], ties=False)


# -- replies ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [Binary(), Binary(abstain=True), Likert(1, 5), Numeric()], ids=repr)
@pytest.mark.parametrize("reason", [True, False])
def test_replies_give_their_label_or_none(scale: Scale, reason: bool) -> None:
    client = Script(lambda m: {})
    judge = Judge("{{ reply | untrusted }}", scale, reason=reason, model="m", client=client)
    checks = read_replies(judge, {"reply": "x"})
    assert [check.name for check in checks if not check.is_right] == []
    assert {check.name for check in checks if check.expected is not None} == {
        *("plain", "fenced", "prose_around", "reasoning_block"),
    }
    assert sum(check.name == "cut" for check in checks) > 10
    assert client.requests == []


def test_a_reply_that_is_read_as_another_label_is_told() -> None:
    class Careless(Binary):
        def check(self, value: Any) -> bool:
            return bool(value)

    judge = Judge("{{ reply | untrusted }}", Careless(), reason=False, model="m", client=Script(lambda m: {}))
    wrong = [check for check in read_replies(judge, {"reply": "x"}) if not check.is_right]
    assert [(check.name, check.label) for check in wrong] == [("nan", True), ("text_for_a_score", True)]


def test_every_suite_reads_them(tmp_path: Path) -> None:
    assert len(run(fine, []).extractor) > 20
