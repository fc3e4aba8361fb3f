"""Suites: what they read, what they ask, and the figures of every kind of row, with judges that are scripts."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from judges import (
    Binary,
    ChatError,
    ChatReply,
    Choice,
    GroupwiseJudge,
    Judge,
    Jury,
    Likert,
    Numeric,
    PairwiseJudge,
    PromptError,
    Token,
)
from judges.testing.figures import decisions_of, figures_of
from judges.testing.golden import GoldenError, GoldenSet
from judges.testing.intervals import wilson
from judges.testing.results import SuiteReport
from judges.testing.running import Sending, plan_suite, run_suite
from judges.testing.suite import Suite
from tests.judges.testing.scripts import Script, golden

LIVE = Sending(live=True)


def yes(*, count: int = 20, wrong: int = 0) -> GoldenSet:
    return golden(
        *(
            {"inputs": {"reply": f"{'good' if (i % 2) ^ (i < wrong) else 'bad'} {i}"}, "label": bool(i % 2)}
            for i in range(count)
        )
    )


def says_good(**options: Any) -> Judge:
    client = Script(lambda shown: {"score": "good" in shown.split("Reply with")[0]})
    return Judge("{{ reply | untrusted }}", Binary(), reason=False, model="m", client=client, **options)


def pairs(rule: Callable[[str], Any], **options: Any) -> PairwiseJudge:
    return PairwiseJudge(
        "{{ first | untrusted }}\nor\n{{ second | untrusted }}", reason=False, model="m", client=Script(rule), **options
    )


# -- labels -----------------------------------------------------------------------------------------------------------


def test_a_suite_of_yes_and_no() -> None:
    report = run_suite(Suite.of(says_good(), yes(wrong=2), name="s", response="reply"), LIVE)
    figures = figures_of(report).intervals
    assert [report.status(case) for case in report.cases] == ["disagrees"] * 2 + ["agrees"] * 18
    assert figures["accuracy"].estimate == 0.9
    assert figures["true_positive_rate"].estimate == figures["true_negative_rate"].estimate == 0.9
    assert figures["precision[true]"].estimate == 0.9
    assert figures["kappa"].estimate == pytest.approx(0.8)
    assert figures["verdict_rate"].estimate == 1.0
    assert figures_of(report).confusion is not None
    assert figures_of(report).confusion.counts == ((9, 1), (1, 9))  # type: ignore[union-attr]


def test_what_has_no_verdict_is_not_right_and_is_told_by_its_kind() -> None:
    def rule(shown: str) -> Any:
        if "bad 0" in shown:
            return ChatError("refused", "I would rather not")
        return {"score": "good" in shown.split("Reply with")[0]}

    judge = Judge("{{ reply | untrusted }}", Binary(), reason=False, model="m", client=Script(rule))
    report = run_suite(Suite.of(judge, yes(), name="s"), LIVE)
    figures = figures_of(report).intervals
    assert report.status(report["r0"]) == "no verdict"
    assert figures["accuracy"].estimate == 0.95
    assert figures["accuracy_of_parsed"].estimate == 1.0
    assert figures["refusal_rate"].estimate == 0.05


def test_an_abstention_is_an_answer_and_not_right() -> None:
    judge = Judge(
        "{{ reply | untrusted }}",
        Binary(abstain=True),
        reason=False,
        model="m",
        client=Script(lambda shown: {"score": None}),
    )
    report = run_suite(Suite.of(judge, yes(), name="s"), LIVE)
    assert {report.status(case) for case in report.cases} == {"abstains"}
    assert figures_of(report).intervals["abstention_rate"].estimate == 1.0
    assert figures_of(report).intervals["accuracy"].estimate == 0.0


def test_a_likert_scale_has_the_figures_of_an_ordered_one() -> None:
    rows = golden(*({"inputs": {"reply": f"grade {i % 5 + 1}, number {i}"}, "score": i % 5 + 1} for i in range(20)))

    def rule(shown: str) -> Any:
        grade = int(shown.split("grade ")[1][0])
        return {"score": min(5, grade + 1)}  # one too high, but for the best

    judge = Judge("{{ reply | untrusted }}", Likert(1, 5), reason=False, model="m", client=Script(rule))
    figures = figures_of(run_suite(Suite.of(judge, rows, name="s"), LIVE)).intervals
    assert figures["accuracy"].estimate == 0.2
    assert figures["mean_absolute_error"].estimate == 0.8
    assert figures["spearman"].estimate == pytest.approx(9.5 / 95**0.5)  # ranks 1 2 3 4 5 against 1 2 3 4.5 4.5
    assert figures["quadratic_kappa"].estimate == pytest.approx(0.8)  # observed 0.8; expected 2 + 1.36 + 0.8²
    near = figures_of(run_suite(Suite.of(judge, rows, name="s", tolerance=1.0), LIVE)).intervals
    assert near["accuracy"].estimate == 1.0


def test_numbers_agree_within_the_tolerance() -> None:
    rows = golden(*({"inputs": {"reply": f"x{i}"}, "score": 0.5} for i in range(12)))
    judge = Judge(
        "{{ reply | untrusted }}", Numeric(), reason=False, model="m", client=Script(lambda shown: {"score": 0.58})
    )
    assert figures_of(run_suite(Suite.of(judge, rows, name="s"), LIVE)).intervals["accuracy"].estimate == 0.0
    report = run_suite(Suite.of(judge, rows, name="s", tolerance=0.1), LIVE)
    assert figures_of(report).intervals["accuracy"].estimate == 1.0
    assert report.status(report["r0"]) == "agrees"


def test_samples_count_by_what_most_of_them_say() -> None:
    client = Script(lambda shown: {"score": len(client.requests) % 3 != 0})  # two of three say yes
    judge = Judge("{{ reply | untrusted }}", Binary(), reason=False, model="m", client=client, concurrency=1)
    rows = golden(*({"inputs": {"reply": f"x{i}"}, "label": True} for i in range(10)))
    report = run_suite(Suite.of(judge, rows, name="s", samples=3), LIVE)
    assert len(client.requests) == 30
    assert [answer.sample for answer in report["r0"].answers] == [0, 1, 2]
    assert {report.status(case) for case in report.cases} == {"agrees"}
    figures = figures_of(report).intervals
    assert figures["accuracy"].estimate == pytest.approx(2 / 3)
    assert figures["accuracy"].clusters == 10
    assert figures["self_agreement"].estimate == pytest.approx(1 / 3)
    assert figures["unanimity"].estimate == 0.0


def test_samples_of_a_number_count_by_their_mean_also_where_some_are_whole() -> None:
    said = iter([7, 8, 7.5, 2, 2, 5])
    client = Script(lambda shown: {"score": next(said)})
    judge = Judge("{{ reply | untrusted }}", Numeric(0, 10), reason=False, model="m", client=client, concurrency=1)
    rows = golden({"inputs": {"reply": "x"}, "score": 7.5}, {"inputs": {"reply": "y"}, "score": 3})
    report = run_suite(Suite.of(judge, rows, name="s", samples=3), LIVE)
    assert [case.said() for case in report.cases] == [7.5, 3.0]
    assert {report.status(case) for case in report.cases} == {"agrees"}
    brought = golden({"inputs": {"reply": "x"}, "score": 3, "recorded": [{"label": each} for each in (2, 2, 5)]})
    (case,) = run_suite(Suite.of(None, brought, name="s", scale=Numeric(0, 10))).cases
    assert case.said() == 3.0


def test_probabilities_give_calibration() -> None:
    def rule(shown: str) -> ChatReply:
        p = 0.9 if "good" in shown else 0.2
        label = "true" if p > 0.5 else "false"
        top = (("true", math.log(p)), ("false", math.log(1 - p)))
        head = Token('{"score": ', b'{"score": ', 0.0, ())
        score = Token(label, label.encode(), math.log(max(p, 1 - p)), top)
        return ChatReply(f'{{"score": {label}}}', "stop", logprobs=(head, score, Token("}", b"}", 0.0, ())))

    judge = Judge("{{ reply | untrusted }}", Binary(), expected=True, model="m", client=Script(rule))
    found = figures_of(run_suite(Suite.of(judge, yes(), name="s"), LIVE))
    assert found.intervals["brier_score"].estimate == pytest.approx((0.1**2 + 0.2**2) / 2)
    assert found.intervals["expected_calibration_error"].estimate == pytest.approx(0.15)
    assert [round(point.predicted, 3) for point in found.curve] == [0.2, 0.9]


# -- pairs and groups -------------------------------------------------------------------------------------------------


def test_a_judge_of_pairs_is_asked_in_both_orders() -> None:
    def first(shown: str) -> Any:
        return {"score": "A"}

    rows = golden(*({"inputs": {"a": f"one {i}", "b": f"two {i}"}, "winner": "a"} for i in range(12)))
    report = run_suite(Suite.of(pairs(first), rows, name="s"), LIVE)
    assert [(answer.order, answer.label, answer.score) for answer in report["r0"].answers] == [
        ("given", "a", 1.0),
        ("swapped", "b", 0.0),
    ]
    figures = figures_of(report).intervals
    assert figures["accuracy"].estimate == 0.5
    assert figures["both_orders_accuracy"].estimate == 0.0
    assert figures["consistency"].estimate == 0.0
    assert figures["first_position_rate"].estimate == 1.0
    assert {report.status(case) for case in report.cases} == {"disagrees"}
    once = run_suite(Suite.of(pairs(first, orders="given"), rows, name="s"), LIVE)
    assert {once.status(case) for case in once.cases} == {"agrees"}
    assert "consistency" not in figures_of(once).intervals


def test_samples_of_a_pair_in_two_orders_are_of_one_item() -> None:
    """How sure a judge is of a pair shows in both orders alike: twelve pairs are no twenty-four items."""

    def rule(shown: str) -> Any:
        asked.append(shown)
        return {"score": "AB"[len(asked) % 2] if "hard" in shown else "A"}

    asked: list[str] = []
    rows = golden(
        *({"inputs": {"a": f"{'hard' if i < 6 else 'easy'} {i}", "b": "two"}, "winner": "a"} for i in range(12))
    )
    figures = figures_of(run_suite(Suite.of(pairs(rule), rows, name="s", samples=2), LIVE)).intervals
    assert (figures["unanimity"].estimate, figures["self_agreement"].estimate) == (0.5, 0.5)
    for name in ("unanimity", "self_agreement"):
        assert (figures[name].n, figures[name].clusters) == (24, 12)
    low = wilson(6, 12).low
    assert low is not None and figures["unanimity"].low == pytest.approx(low, abs=0.01)


def test_a_row_that_was_recorded_in_one_order_says_nothing_of_the_order() -> None:
    both = [{"order": "given", "label": "a"}, {"order": "swapped", "label": "a"}]
    inputs = {"a": "one", "b": "two"}
    rows = golden(
        *({"inputs": inputs, "winner": "a", "recorded": both} for _ in range(4)),
        *({"inputs": inputs, "winner": "a", "recorded": both[:1]} for _ in range(4)),
    )
    figures = figures_of(run_suite(Suite.of(None, rows, name="s"))).intervals
    assert (figures["accuracy"].estimate, figures["accuracy"].n, figures["accuracy"].clusters) == (1.0, 12, 8)
    assert (figures["both_orders_accuracy"].estimate, figures["both_orders_accuracy"].n) == (1.0, 4)
    assert figures["consistency"].n == 4


@given(st.data())
@settings(max_examples=60)
def test_the_figures_of_pairs_are_what_a_person_would_count(data: st.DataObject) -> None:
    said = st.sampled_from(["a", "b", "tie", "format"])
    games = data.draw(st.lists(st.tuples(st.sampled_from(["a", "b"]), said, said), min_size=1, max_size=12))

    def entry(order: str, label: str) -> dict[str, str]:
        return {"order": order, **({"failure": label} if label == "format" else {"label": label})}

    rows = golden(
        *(
            {"inputs": {"a": "x", "b": "y"}, "winner": gold, "recorded": [entry("given", one), entry("swapped", two)]}
            for gold, one, two in games
        )
    )
    report = run_suite(Suite.of(None, rows, name="s"))
    figures = figures_of(report).intervals
    right = [(one == gold) + (two == gold) for gold, one, two in games]
    answered = [(one, two) for _, one, two in games if "format" not in (one, two)]
    decided = [(one, two) for one, two in answered if "tie" not in (one, two)]
    assert figures["accuracy"].estimate == pytest.approx(sum(right) / (2 * len(games)))
    assert figures["both_orders_accuracy"].estimate == pytest.approx(right.count(2) / len(games))
    same = [one == two for one, two in answered]
    assert figures["consistency"].estimate == (pytest.approx(sum(same) / len(same)) if same else None)
    first = [(one == "a") + (two == "b") for one, two in decided]
    expected = pytest.approx(sum(first) / (2 * len(first))) if first else None
    assert figures["first_position_rate"].estimate == expected
    lost = ["format" in (one, two) for _, one, two in games]
    assert [report.status(case) == "no verdict" for case in report.cases] == lost
    assert [report.status(case) == "agrees" for case in report.cases] == [count == 2 for count in right]


def test_a_ranking_agrees_where_its_best_is_the_best() -> None:
    def rule(shown: str) -> Any:
        places = [int(part.split(" ")[0]) for part in shown.split("value ")[1:]]
        return {f"candidate_{n}": {"score": value} for n, value in enumerate(places, start=1)}

    judge = GroupwiseJudge("{{ candidates | untrusted }}", Likert(1, 5), reason=False, model="m", client=Script(rule))
    right = {"x": "value 2 ", "y": "value 5 ", "z": "value 1 "}
    rows = golden(
        *({"inputs": {"candidates": right}, "ranking": ["y", "x", "z"]} for _ in range(6)),
        *({"inputs": {"candidates": list(right.values())}, "ranking": [0, 1, 2]} for _ in range(6)),
    )
    report = run_suite(Suite.of(judge, rows, name="s"), LIVE)
    assert [report.status(case) for case in report.cases] == ["agrees"] * 6 + ["disagrees"] * 6
    figures = figures_of(report).intervals
    assert figures["accuracy"].estimate == 0.5
    assert figures["kendall_tau_b"].estimate == pytest.approx((1 + 1 / 3) / 2)


def test_a_report_of_candidates_that_yaml_named_by_numbers_survives_json() -> None:
    judge = GroupwiseJudge(
        "{{ candidates | untrusted }}",
        Likert(1, 5),
        reason=False,
        model="m",
        client=Script(lambda shown: {f"candidate_{n}": {"score": 5 if n == 1 else 1} for n in (1, 2)}),
    )
    rows = golden({"inputs": {"candidates": {1: "one", 2: "two"}}, "ranking": [1, 2]})
    report = run_suite(Suite.of(judge, rows, name="s"), LIVE)
    again = SuiteReport.model_validate(json.loads(json.dumps(report.to_dict())))
    assert [again.status(case) for case in again.cases] == [report.status(case) for case in report.cases]


def test_a_ranking_without_any_grade_is_an_abstention() -> None:
    judge = GroupwiseJudge(
        "{{ candidates | untrusted }}",
        Likert(1, 5, abstain=True),
        reason=False,
        model="m",
        client=Script(lambda shown: {"candidate_1": {"score": None}, "candidate_2": {"score": None}}),
    )
    rows = golden({"inputs": {"candidates": ["one", "two"]}, "ranking": [0, 1]})
    report = run_suite(Suite.of(judge, rows, name="s"), LIVE)
    assert report.status(report["r0"]) == "abstains"
    figures = figures_of(report).intervals
    assert (figures["verdict_rate"].estimate, figures["abstention_rate"].estimate) == (0.0, 1.0)


# -- rows that bring their verdicts along -----------------------------------------------------------------------------


def test_recorded_verdicts_need_no_model() -> None:
    rows = golden(
        *(
            {
                "inputs": {"a": "one", "b": "two"},
                "winner": "a",
                "recorded": [{"order": "given", "label": "a"}, {"order": "swapped", "label": "a" if i else "b"}],
            }
            for i in range(10)
        ),
        {
            "inputs": {"a": "one", "b": "two"},
            "winner": "b",
            "recorded": [{"failure": "format"}, {"order": "swapped", "label": "b"}],
        },
    )
    report = run_suite(Suite.of(None, rows, name="s"))
    figures = figures_of(report).intervals
    assert figures["accuracy"].estimate == 20 / 22
    assert figures["both_orders_accuracy"].estimate == 9 / 11
    assert figures["format_failure_rate"].estimate == 1 / 22
    assert report.status(report["r10"]) == "no verdict"
    assert report.model is None


def test_a_reply_tests_the_extractor() -> None:
    rows = golden(
        {"inputs": {"reply": "x"}, "label": True, "reply": 'Sure!\n```json\n{"score": true}\n```'},
        {"inputs": {"reply": "x"}, "label": True, "reply": "true"},
    )
    judge = says_good()
    report = run_suite(Suite.of(judge, rows, name="s"))
    assert report["r0"].answers[0].label is True
    assert report["r1"].answers[0].failure == "format"
    assert judge.asker.exchanger.client.requests == []  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("name", "right", "both", "same", "first"),
    [("chatgpt_vanilla", 0.815, 0.67, 0.71, 0.605), ("gpt4_swapcot", 0.935, 0.9, 0.93, 0.525)],
)
def test_the_recorded_judges_of_llmbar_come_out(
    name: str, right: float, both: float, same: float, first: float, shared_data: Path
) -> None:
    label = {"1": "a", "2": "b"}
    rows = []
    for item in json.loads((shared_data / f"judging/llmbar_natural_{name}_replies.json").read_text()):
        games = item["results"][0]
        said = [("given", games["swap = False"]["winner"]), ("swapped", games["swap = True"]["winner"])]
        recorded = [{"order": order, "label": label[winner]} for order, winner in said]
        inputs = {"task": item["input"], "a": item["output_1"], "b": item["output_2"]}
        rows.append({"inputs": inputs, "winner": label[str(item["label"])], "recorded": recorded})
    figures = figures_of(run_suite(Suite.of(None, golden(*rows), name="llmbar"))).intervals
    assert figures["accuracy"].estimate == pytest.approx(right)
    assert figures["both_orders_accuracy"].estimate == pytest.approx(both)
    assert figures["consistency"].estimate == pytest.approx(same)
    assert figures["first_position_rate"].estimate == pytest.approx(first)
    assert figures["accuracy"].clusters == 100


# -- the same numbers again -------------------------------------------------------------------------------------------


def test_a_report_survives_json() -> None:
    people = {"ann": True, "ben": False}
    rows = golden(
        *({"inputs": {"reply": f"good {i}"}, "label": False, "annotators": people, "tags": ["t"]} for i in range(12))
    )
    report = run_suite(Suite.of(says_good(), rows, name="s", thresholds={"accuracy": 0.5}, min_n=3), LIVE)
    again = SuiteReport.model_validate(json.loads(json.dumps(report.to_dict())))
    assert again == report
    assert figures_of(again) == figures_of(report)
    assert decisions_of(again, figures_of(again))["accuracy"].outcome == "FAIL"
    assert "people_alpha" in figures_of(again).intervals


def test_a_replay_gives_the_figures_of_the_recording(tmp_path: Path) -> None:
    suite = Suite.of(says_good(), yes(wrong=3), name="s", cassette=tmp_path / "c.jsonl", samples=2)
    first = run_suite(suite, Sending(mode="once"))
    asked = len(suite.subject.asker.exchanger.client.requests)  # type: ignore[union-attr, attr-defined]
    second = run_suite(suite)
    assert asked == len(suite.subject.asker.exchanger.client.requests) == 40  # type: ignore[union-attr, attr-defined]
    names = ("accuracy", "kappa", "self_agreement")
    for name in names:
        assert figures_of(first).intervals[name] == figures_of(second).intervals[name]
    assert all(answer.cached and not answer.usage.calls for case in second.cases for answer in case.answers)
    assert all(answer.worth.calls == 1 for case in second.cases for answer in case.answers)  # what the recording took


def test_the_judge_keeps_its_own_store_after_a_run(tmp_path: Path) -> None:
    judge = says_good(store=tmp_path / "own.jsonl")
    before = judge.asker.exchanger
    run_suite(Suite.of(judge, yes(), name="s", cassette=tmp_path / "c.jsonl"), Sending(mode="new"))
    assert judge.asker.exchanger is before
    assert (tmp_path / "c.jsonl").exists()
    assert not (tmp_path / "own.jsonl").exists()


def test_a_plan_counts_what_would_be_sent(tmp_path: Path) -> None:
    suite = Suite.of(says_good(), yes(), name="s", cassette=tmp_path / "c.jsonl")
    run_suite(suite, Sending(mode="once"))
    assert plan_suite(suite, Sending(mode="new")).total.calls == 0
    assert plan_suite(suite, Sending(live=True)).total.calls == 20


# -- what does not fit ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"response": "answer"}, "no row has the input 'answer'"),
        ({"tolerance": 1.0}, "a tolerance is for numbers"),
        ({"positive": "good"}, "positive is a label"),
        ({"samples": 0}, "samples is a whole number from 1"),
        ({"thresholds": {"accuracy": {}}}, "a threshold is a number"),
        ({"thresholds": {"accuracy": {"at_least": 0.8, "at_most": 0.2}}}, "nothing is at least 0.8 and at most 0.2"),
        ({"thresholds": {"refusal_rate": 0.1}}, r"refusal_rate: .* means at least, .*: write {at_most: 0.1}"),
        ({"perturbations": {"padding": 0.1}}, r"padding: .* means at least, .*: write {at_most: 0.1}"),
        ({"split": "dev"}, "no row of the dev split"),
        ({"tags": ["hard"]}, "has all the tags"),
    ],
)
def test_fields_that_mean_nothing_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(GoldenError, match=message):
        Suite.of(says_good(), yes(), name="s", **change)


def test_a_file_refuses_a_number_alone_where_it_would_be_the_wrong_bound(tmp_path: Path) -> None:
    for field in ("thresholds: {seconds: 2}", "perturbations: {padding: 0.1}", "thresholds: {accuracy: {atleast: 1}}"):
        path = tmp_path / "s.judge.yaml"
        path.write_text(f"prompt: p.md\ngolden: g.jsonl\n{field}\n")
        with pytest.raises(GoldenError) as refused:
            Suite.load(path)
        assert "at_most" in str(refused.value) and "golden" not in str(refused.value)


def test_a_threshold_of_no_figure_is_refused_before_anything_is_sent() -> None:
    suite = Suite.of(says_good(), yes(), name="s", thresholds={"acuracy": 0.8})
    for run in (run_suite, plan_suite):
        with pytest.raises(GoldenError, match=r"no figure 'acuracy' .*; 'accuracy' is meant.*; there are accuracy"):
            run(suite, LIVE)
    assert suite.subject.asker.exchanger.client.requests == []  # type: ignore[union-attr, attr-defined]


def test_every_figure_of_a_suite_can_have_a_threshold() -> None:
    people = {"ann": True, "ben": False}
    winner = golden(*({"inputs": {"a": f"x{i}", "b": f"y{i}"}, "winner": "a"} for i in range(3)))
    both = [{"order": "given", "label": "a"}, {"order": "swapped", "label": "b"}]
    pair = {"inputs": {"a": "x", "b": "y"}, "winner": "a"}
    read = golden({**pair, "recorded": both[:1]}, {**pair, "recorded": both})
    grades = golden(*({"inputs": {"reply": f"x{i}"}, "score": 2} for i in range(3)))
    ranked = golden({"inputs": {"candidates": ["x", "y"]}, "ranking": [0, 1]})
    group = GroupwiseJudge("{{ candidates | untrusted }}", Likert(1, 5), model="m", client=Script(lambda shown: {}))
    stars = Judge("{{ reply | untrusted }}", Likert(1, 5), model="m", client=Script(lambda shown: {"score": 2}))
    suites: list[dict[str, Any]] = [
        {"judge": says_good(), "golden": yes(), "response": "reply", "samples": 2},
        {"judge": says_good(), "golden": golden({"inputs": {"reply": "x"}, "label": True, "annotators": people})},
        {"judge": stars, "golden": grades, "tolerance": 1.0},
        {"judge": pairs(lambda shown: {"score": "A"}), "golden": winner},
        {"judge": pairs(lambda shown: {"score": "A"}), "golden": winner, "orders": "given"},
        {"judge": None, "golden": read, "orders": "given"},
        {"judge": group, "golden": ranked},
    ]
    for fields in suites:
        names = figures_of(run_suite(Suite.of(name="s", **fields), LIVE)).intervals
        limits = {name: {"at_most": 1e9} for name in names}
        run_suite(Suite.of(name="s", thresholds=limits, **fields), LIVE)


def test_rows_must_ask_what_the_judge_answers() -> None:
    winner = golden({"inputs": {"a": "x", "b": "y"}, "winner": "a"})
    with pytest.raises(GoldenError, match="the row has a winner, and the judge asks for a label or a score"):
        Suite.of(says_good(), winner, name="s")
    with pytest.raises(GoldenError, match="the judge compares pairs"):
        Suite.of(pairs(lambda shown: {"score": "A"}), yes(), name="s")
    with pytest.raises(GoldenError, match='the score is "good"'):
        Suite.of(says_good(), golden({"inputs": {"reply": "x"}, "label": "good"}), name="s")
    with pytest.raises(GoldenError, match="there is no prompt to ask with"):
        Suite.of(None, yes(), name="s", scale=Binary())
    jury = Jury([says_good(), says_good()])
    with pytest.raises(GoldenError, match="not Jury; of a jury or a checklist, test the judges"):
        Suite.of(jury, yes(), name="s")  # type: ignore[arg-type]


def test_a_row_that_lacks_an_input_is_named() -> None:
    suite = Suite.of(says_good(), golden({"inputs": {"text": "x"}, "label": True}), name="s")
    with pytest.raises(GoldenError, match=r"^row 'r0': .*reply"):
        run_suite(suite, LIVE)
    suite = Suite.of(says_good(), golden({"inputs": {"reply": b"x"}, "label": True}), name="s")
    for judge_it in (run_suite, plan_suite):  # a plan, too, before it counts anything
        with pytest.raises(GoldenError, match=r"^row 'r0': .*bytes"):
            judge_it(suite, LIVE)


def test_a_file_that_is_not_there_is_told_in_words(tmp_path: Path) -> None:
    suite = tmp_path / "s.judge.yaml"
    suite.write_text("prompt: p.md\ngolden: g.jsonl\n")
    with pytest.raises(PromptError, match=r"p\.md: No such file or directory$"):
        Suite.load(suite)
    (tmp_path / "p.md").write_text("---\nscale: binary\n---\n{{ reply | untrusted }}")
    with pytest.raises(GoldenError, match=r"g\.jsonl: No such file or directory$"):
        Suite.load(suite)


def test_a_choice_is_read_as_the_scale_reads_it() -> None:
    scale = Choice({"Good": 1.0, "Bad": 0.0})
    judge = Judge(
        "{{ reply | untrusted }}", scale, reason=False, model="m", client=Script(lambda shown: {"score": "good"})
    )
    rows = golden(*({"inputs": {"reply": f"x{i}"}, "label": "GOOD"} for i in range(10)))
    figures = figures_of(run_suite(Suite.of(judge, rows, name="s", positive="Good"), LIVE)).intervals
    assert figures["accuracy"].estimate == 1.0
    assert figures["recall[Good]"].estimate == figures["true_positive_rate"].estimate == 1.0


def test_the_winner_of_both_orders_is_by_the_mean_of_their_probabilities() -> None:
    """A judge that always says A, but surer where the better one is A: the letters are a coin, their mean is right."""

    def rule(message: str) -> ChatReply:
        p = 0.9 if message.index("fine") < message.index("poor") else 0.6
        top = (("A", math.log(p)), ("B", math.log(1 - p)))
        tokens = (Token('{"score": "', b'{"score": "', 0.0, ()), Token("A", b"A", math.log(p), top))
        return ChatReply('{"score": "A"}', "stop", logprobs=(*tokens, Token('"}', b'"}', 0.0, ())))

    judge = PairwiseJudge(
        "{{ first | untrusted }}\nor\n{{ second | untrusted }}",
        ties=False,
        expected=True,
        model="m",
        client=Script(rule),
    )
    rows = golden(
        *({"inputs": {"a": f"fine {i}", "b": f"poor {i}"}, "winner": "a"} for i in range(6)),
        *({"inputs": {"a": f"poor {i}", "b": f"fine {i}"}, "winner": "b"} for i in range(6)),
    )
    limits = {"winner_accuracy": 0.5, "brier_score": {"at_most": 0.4}}
    report = run_suite(Suite.of(judge, rows, name="s", thresholds=limits), LIVE)
    figures = figures_of(report).intervals
    assert [round(answer.score or 0.0, 6) for answer in report["r0"].answers] == [0.9, 0.4]
    assert figures["accuracy"].estimate == 0.5
    assert figures["both_orders_accuracy"].estimate == 0.0
    assert figures["winner_accuracy"].estimate == 1.0
