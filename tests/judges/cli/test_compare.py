"""`judges compare`: two reports, or two prompts on one golden set."""

import json
from pathlib import Path
from typing import Any

from judges.testing.golden import GoldenRow
from judges.testing.results import Answer, Case, SuiteReport
from tests.judges.cli.conftest import PROMPT, Run, write_suite
from tests.judges.loopback import LoopbackServer, Request, text


def write_report(name: str, *said: Any, suite: str = "tone", model: str = "m") -> Path:
    """A report about rows whose gold labels are true, with these answers."""
    cases = tuple(
        Case(
            row=GoldenRow.model_validate({"id": f"r{i}", "inputs": {"reply": f"{i}"}, "label": True}),
            place=f"golden.jsonl:{i}",
            answers=(
                Answer(failure=each, message="oh")
                if isinstance(each, str)
                else Answer(label=each, reason=f"{each} it is"),
            ),
        )
        for i, each in enumerate(said)
    )
    report = SuiteReport(suite=suite, kind="labels", model=model, cases=cases)
    path = Path(name)
    suites = [] if not path.exists() else json.loads(path.read_text())["suites"]
    path.write_text(json.dumps({"suites": [*suites, {"results": report.to_dict()}]}), encoding="utf-8")
    return path


def test_two_reports(run: Run) -> None:
    old = write_report("old.json", *[True] * 10, *[False] * 10)
    new = write_report("new.json", *[True] * 9, False, *[True] * 8, "format", False, model="n")
    result = run("compare", old, new)
    assert result.exit_code == 1  # a row has no verdict
    lines = result.stdout.splitlines()
    assert lines[:3] == ["A: tone [m]", "B: tone [n]", "20 answers were compared, and 10 are others"]
    # 8 rows only B has right, 1 only A: 2 * (C(9, 0) + C(9, 1)) / 2**9
    assert lines[3] == "  without a verdict of B, which counts as not right: 1 row"
    assert lines[4].startswith("right: B more than A by +0.350 (95 % between ")
    assert lines[4].endswith("B is better on 8 rows, A on 1; p = 0.0391 (McNemar's exact test)")
    assert lines[5].startswith("the smallest difference that 20 such rows find (power 80 %): 0.")
    assert lines[7:11] == [
        "changed verdicts",
        "  r9: people say true, A true, B false: worse",
        "    A: True it is",
        "    B: False it is",
    ]
    assert "  r18: people say true, A false, B format: as wrong" in lines
    assert result.stderr == "judges: tone [n]: no verdict on 1 of 20 rows, such as format: oh\n"


def test_no_difference_is_told_from_too_few_rows(run: Run) -> None:
    old = write_report("old.json", True, True, False, True, True, True)
    new = write_report("new.json", True, True, True, False, True, True)
    result = run("compare", old, new, "--top", "1")
    assert result.exit_code == 0
    assert "p = 1 (McNemar's exact test)" in result.stdout
    assert "no difference was found; a smaller one than that may be there all the same" in result.stdout
    assert "changed verdicts, the first 1\n  r2:" in result.stdout and "r3" not in result.stdout


def test_suites_of_one_name_and_model_are_compared(run: Run) -> None:
    for name in ("old.json", "new.json"):
        write_report(name, True, model="m")
        write_report(name, False, model="n")
    write_report("new.json", True, suite="other")
    result = run("compare", "old.json", "new.json")
    assert [line for line in result.stdout.splitlines() if line[:2] == "A:"] == ["A: tone [m]", "A: tone [n]"]
    assert result.stderr == "judges: other [m] is in one report alone\n"


def test_two_prompts_on_one_golden_set(run: Run, server: LoopbackServer) -> None:
    def vague(request: Request) -> Any:
        said = request.body["messages"][-1]["content"]
        return text(json.dumps({"reason": "r", "score": "OK?" in said or "Gladly" in said}))

    server.default = vague
    write_suite()
    Path("vague.md").write_text(PROMPT.replace("Is this reply courteous?", "Is it OK?"), encoding="utf-8")
    args = ("compare", "vague.md", "tone.md", "--golden", "tone.golden.jsonl", "--model", "openai/m")
    result = run(*args, "--record", "once")
    assert result.exit_code == 0, result.stderr
    assert "4 answers were compared, and 2 are others" in result.stdout
    assert "B is better on 2 rows, A on 0" in result.stdout
    assert "vague sends 4 requests to openai/m" in result.stderr
    assert sorted(path.name for path in Path("cassettes").iterdir()) == ["tone.jsonl", "vague.jsonl"]
    assert not Path("snapshots").exists()
    assert run(*args).stdout == result.stdout
    assert len(server.requests) == 8


def test_what_is_not_recorded_is_no_verdict_and_nothing_is_compared(run: Run) -> None:
    suite = write_suite()
    result = run("compare", suite, suite)
    assert result.exit_code == 1
    assert result.stdout.splitlines()[2:] == ["nothing can be compared: A and B gave no verdict on any row"]
    assert "no verdict on 4 of 4 rows, such as not_recorded" in result.stderr


def test_a_sample_that_is_not_recorded_is_not_every_answer(run: Run, server: LoopbackServer) -> None:
    suite = write_suite()
    assert run("test", suite, "--record", "once").exit_code == 0
    result = run("compare", suite, suite, "--samples", 2)
    assert result.exit_code == 1
    assert "not every answer on 4 of 4 rows, such as not_recorded" in result.stderr
    assert run("test", suite, "--samples", 2).exit_code == 1


def test_what_is_refused(run: Run) -> None:
    write_suite()
    write_report("a.json", True)
    write_report("b.json", True, suite="x")
    write_report("b.json", True, suite="y")
    Path("c.json").write_text("{}")
    for args, message in (
        (("a.json", "b.json"), "the reports have no suite in common"),
        (("a.json", "c.json"), "c.json is no report of judge tests"),
        (("tone.md", "tone.md"), "tone.md: a prompt is judged on a golden set: give --golden FILE"),
        (("tone.judge.yaml", "tone.judge.yaml", "--live", "--record", "new"), "--live uses no cassette"),
        (("tone.judge.yaml", "tone.judge.yaml", "--price", "1"), "--price is two numbers"),
        (("tone.judge.yaml", "tone.judge.yaml", "--price", "-1,2"), "Price: prompt is a number of dollars from 0"),
    ):
        result = run("compare", *args)
        assert result.exit_code == 2 and message in result.stderr, result.stderr
