"""The figures of real recorded judges and people, as they were computed elsewhere; and what the module costs."""

import json
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from judges.testing.golden import GoldenRow, GoldenSet
from judges.testing.metrics import (
    Interval,
    OfSums,
    accuracy,
    accuracy_of_parsed,
    accuracy_over_orders,
    alpha_interval,
    answer_rates,
    bootstrap,
    both_orders_accuracy,
    brier_score,
    cohen_kappa,
    consistency,
    expected_calibration_error,
    first_position_rate,
    kappa_interval,
    kendall_tau_b,
    krippendorff_alpha,
    mean,
    mean_absolute_error,
    spearman,
    unanimity,
    verbosity,
)


def rows_of(folder: Path, name: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads((folder / "judging" / name).read_text(encoding="utf-8"))
    return rows


def is_near(found: Interval, estimate: float, low: float, high: float, within: float) -> bool:
    assert found.low is not None and found.high is not None
    assert found.estimate == pytest.approx(estimate, abs=5e-4)
    return (found.low, found.high) == pytest.approx((low, high), abs=within)


@pytest.mark.parametrize(
    ("name", "right", "both", "same", "first"),
    [
        ("chatgpt_vanilla", (0.815, 0.755, 0.865), 0.670, 0.710, (0.605, 0.560, 0.650)),
        ("gpt4_swapcot", (0.935, 0.890, 0.970), 0.900, 0.930, (0.525, 0.500, 0.550)),
    ],
)
def test_llmbar(name: str, right: Any, both: float, same: float, first: Any, shared_data: Path) -> None:
    rows = []
    for place, row in enumerate(rows_of(shared_data, f"llmbar_natural_{name}_replies.json")):
        games = row["results"][0]
        label = {"1": "a", "2": "b"}
        recorded = [
            {"order": order, "label": label[games[f"swap = {swapped}"]["winner"]]}
            for order, swapped in (("given", False), ("swapped", True))
        ]
        inputs = {"task": row["input"], "a": row["output_1"], "b": row["output_2"]}
        data = {"id": place, "inputs": inputs, "winner": label[str(row["label"])], "recorded": recorded}
        rows.append(GoldenRow.model_validate(data))
    gold = [row.gold for row in rows]
    picks = [[each.label for each in row.recorded] for row in rows]
    items = [place for place in range(100) for _ in range(2)]

    # Within ±.01 by the bootstrap that they were found by; Wilson's and Bonett and Price's intervals differ by little.
    hits = [float(pick == truth) for truth, row in zip(gold, picks, strict=True) for pick in row]
    assert is_near(bootstrap(OfSums(lambda sums: sums[:, 0] / 200), hits, items), *right, within=0.006)
    assert is_near(mean(hits, clusters=items), *right, within=0.006)
    assert is_near(accuracy_over_orders(gold, picks), *right, within=0.011)
    firsts = [float(pick == shown) for row in picks for pick, shown in zip(row, "ab", strict=True)]
    assert is_near(mean(firsts, clusters=items), *first, within=0.006)
    assert is_near(first_position_rate(picks), *first, within=0.01)
    assert both_orders_accuracy(gold, picks).estimate == pytest.approx(both)
    assert consistency(picks).estimate == pytest.approx(same)


def majority(votes: list[int]) -> int:
    label, count = Counter(votes).most_common(1)[0]
    return label if count > 1 else 0


def test_pandalm(shared_data: Path) -> None:
    people = rows_of(shared_data, "pandalm_testset_v1.json")
    votes = [[row[f"annotator{rater}"] for row in people] for rater in (1, 2, 3)]
    found = alpha_interval(votes)
    assert found.estimate == pytest.approx(0.8642, abs=5e-5)
    assert found.low is not None and found.high is not None and found.low < 0.8642 < found.high
    kappas = [cohen_kappa(votes[i], votes[j]) for i, j in ((0, 1), (0, 2), (1, 2))]
    assert kappas == pytest.approx([0.852, 0.879, 0.862], abs=5e-4)

    labels = {"1": 1, "2": 2, "Tie": 0}
    label = ["tie", "a", "b"]
    rows = []
    for row, said in zip(people, rows_of(shared_data, "pandalm_gpt35_verdicts.json"), strict=True):
        assert row["idx"] == said["idx"]
        judged = labels.get(said["gpt_result"])
        ballot = [row[f"annotator{rater}"] for rater in (1, 2, 3)]
        data = {
            "id": row["idx"],
            "inputs": {"a": row["response1"], "b": row["response2"]},
            "winner": label[majority(ballot)],
            "annotators": [label[vote] for vote in ballot],
            "recorded": [{"failure": "format"} if judged is None else {"label": label[judged]}],
        }
        rows.append(GoldenRow.model_validate(data))
    golden = GoldenSet(tuple(rows))
    assert krippendorff_alpha(golden.ratings()) == pytest.approx(0.8642, abs=5e-5)
    gold = [row.gold for row in golden]
    picks = [row.recorded[0].label for row in golden]
    assert (accuracy(gold, picks).estimate, accuracy(gold, picks).n) == (pytest.approx(0.698, abs=5e-4), 999)
    parsed = accuracy_of_parsed(gold, picks)
    assert (parsed.estimate, parsed.n) == (pytest.approx(0.716, abs=5e-4), 974)
    kappa = kappa_interval(gold, picks)
    assert (kappa.estimate, kappa.n) == (pytest.approx(0.493, abs=5e-4), 974)
    assert cohen_kappa(gold, [pick or "unusable" for pick in picks]) == pytest.approx(0.476, abs=5e-4)
    rates = answer_rates([row.recorded[0].answer() for row in golden])
    assert rates["format"].estimate == pytest.approx(25 / 999)


def test_prometheus(shared_data: Path) -> None:
    scores = np.array([row["gpt4_score"] for row in rows_of(shared_data, "prometheus_mtbench_gpt4x3.json")])
    assert krippendorff_alpha(scores.T, "ordinal") == pytest.approx(0.8777, abs=5e-5)
    assert unanimity(scores).estimate == pytest.approx(0.458, abs=5e-4)
    first, second = scores[:, 0], scores[:, 1]
    assert cohen_kappa(first, second, "quadratic", [1, 2, 3, 4, 5]) == pytest.approx(0.8846, abs=5e-5)
    assert spearman(first, second).estimate == pytest.approx(0.8762, abs=5e-5)
    assert kendall_tau_b(first, second).estimate == pytest.approx(0.7852, abs=5e-5)


def test_alpaca_eval(shared_data: Path) -> None:
    for name, expected in (("nullmodel_injection", (0.8086, 0.766, 0.851)), ("claude21", (0.1156, None, None))):
        with (shared_data / "judging" / f"alpacaeval_{name}_logprobs.jsonl").open(encoding="utf-8") as file:
            preferences = [json.loads(line)["preference"] - 1.0 for line in file]
        found = mean(preferences)
        assert found.estimate == pytest.approx(expected[0], abs=5e-5)
        if expected[1] is not None:
            assert (found.low, found.high) == pytest.approx(expected[1:], abs=0.01)


# -- costs ------------------------------------------------------------------------------------------------------------


def test_a_report_of_a_thousand_rows_takes_no_three_seconds() -> None:
    rng = np.random.default_rng(0)
    gold = rng.integers(1, 6, 1000)
    judged = np.where(rng.random(1000) < 0.7, gold, rng.integers(1, 6, 1000))
    lengths = rng.integers(20, 2000, 1000)
    sure = rng.random(1000)
    started = time.process_time()
    accuracy(gold, judged)
    kappa_interval(gold, judged, "quadratic")
    alpha_interval([gold, judged], "ordinal")
    spearman(gold, judged)
    kendall_tau_b(gold, judged)
    mean_absolute_error(gold, judged)
    verbosity(judged, lengths, gold)
    expected_calibration_error(sure, gold == judged)
    brier_score(sure, gold == judged)
    assert time.process_time() - started < 3.0


def test_importing_judges_stays_light() -> None:
    heavy = "[name for name in ('numpy', 'scipy', 'sklearn', 'pydantic', 'krippendorff') if name in sys.modules]"
    code = f"import sys, judges, judges.testing; print({heavy}); import judges.testing.metrics; print({heavy})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.splitlines() == ["[]", "['numpy']"]
