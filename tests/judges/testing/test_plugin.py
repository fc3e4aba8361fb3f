"""The pytest plugin: suites in files and in Python, cassettes, snapshots, budgets, several processes."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import pytest

import judges.testing.items
import judges.testing.perturbations  # noqa: F401
from judges import Binary, Judge
from tests.judges.loopback import LoopbackServer, Request, text
from tests.judges.testing.scripts import PLUGIN

Run = Callable[..., pytest.RunResult]

PROMPT = """\
---
name: tone
scale: binary
model: openai/m
---
Is this reply courteous?
{{ reply | untrusted }}
"""


def answers(rule: Callable[[str], object]) -> Callable[[Request], object]:
    """A model that answers by what it is shown, and not by what it is told about the form."""

    def behaviour(request: Request) -> object:
        shown = request.body["messages"][1]["content"].split("Reply with JSON")[0]
        said = rule(shown)
        return text(said if isinstance(said, str) else json.dumps({"score": said}))

    return behaviour


def write(path: Path, rows: list[dict[str, object]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def rows(count: int = 40, wrong: int = 0) -> list[dict[str, object]]:
    """Half of them courteous. The judge of `pytester` below is right on all but the first `wrong`."""
    return [
        {
            "id": f"r{i}",
            "inputs": {"reply": f"{'Gladly' if (i % 2) ^ (i < wrong) else 'No'}, number {i}."},
            "label": bool(i % 2),
        }
        for i in range(count)
    ]


@pytest.fixture(scope="module", autouse=True)
def imported() -> None:
    """All that a run imports: `pytester` takes away what is imported while it runs, which litellm does not survive."""
    with LoopbackServer(text('{"score": true}')) as server:
        judge = Judge("Good?", Binary(), reason=False, model="openai/m", api_base=server.url, api_key="none")
        judge.judge_sync()


@pytest.fixture
def suite(pytester: pytest.Pytester, loopback: LoopbackServer, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A suite of 40 rows that a judge on loopback gets right."""
    monkeypatch.setenv("JUDGE_API_BASE", loopback.url)
    monkeypatch.setenv("JUDGE_API_KEY", "none")
    monkeypatch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    loopback.default = answers(lambda shown: "Gladly" in shown)  # type: ignore[assignment]
    folder = pytester.path
    (folder / "tone.md").write_text(PROMPT)
    write(folder / "golden.jsonl", rows())
    (folder / "tone.judge.yaml").write_text(
        "prompt: tone.md\ngolden: golden.jsonl\nresponse: reply\nreason: false\nthresholds: {accuracy: 0.8}\n"
    )
    return folder


@pytest.fixture
def run(pytester: pytest.Pytester) -> Run:
    return lambda *arguments: pytester.runpytest_inprocess(*PLUGIN, "-p", "no:asyncio", *arguments)


def recorded(run: Run) -> None:
    run("--judge-record=once").assert_outcomes(passed=43)


def test_nothing_is_sent_unless_it_is_asked_for(suite: Path, run: Run, loopback: LoopbackServer) -> None:
    result = run()
    result.assert_outcomes(passed=1, failed=42)
    result.stdout.fnmatch_lines(["there is no verdict: not_recorded: *--judge-record=new*", "*golden.jsonl:1"])
    result.stdout.fnmatch_lines(["FAILED tone.judge.yaml::row?r0? - CaseFailed: there is no verdict: not_rec*"])
    result.stdout.fnmatch_lines(["*snapshots/tone.json does not hold what is sent about rows r0, r1, *not there yet*"])
    result.stdout.fnmatch_lines(["*nothing was sent"])
    assert loopback.requests == []


def test_a_cassette_is_recorded_once_and_replayed(suite: Path, run: Run, loopback: LoopbackServer) -> None:
    recorded(run)
    assert len(loopback.requests) == 40
    run().assert_outcomes(passed=43)
    run("--judge-record=once").assert_outcomes(passed=43)
    assert len(loopback.requests) == 40
    assert len((suite / "cassettes/tone.jsonl").read_text().splitlines()) == 40


def test_new_records_only_what_is_missing(suite: Path, run: Run, loopback: LoopbackServer) -> None:
    recorded(run)
    write(suite / "golden.jsonl", rows(42))
    result = run()
    result.assert_outcomes(passed=42, failed=3)
    result.stdout.fnmatch_lines(["*does not hold what is sent about rows r40, r41: *"])
    run("--judge-record=new").assert_outcomes(passed=45)
    assert len(loopback.requests) == 42


def test_disagreements_are_xfails_and_count(suite: Path, run: Run) -> None:
    write(suite / "golden.jsonl", rows(40, wrong=2))
    result = run("--judge-record=once", "-rx")
    result.assert_outcomes(passed=41, xfailed=2)  # 38 of 40: Wilson's lower bound is .835
    result.stdout.fnmatch_lines(["XFAIL*row?r0?*people say false, the judge true*"])


def test_a_must_row_fails_where_the_judge_disagrees(suite: Path, run: Run) -> None:
    changed = rows(40, wrong=2)
    changed[0]["must"] = True
    write(suite / "golden.jsonl", changed)
    result = run("--judge-record=once")
    result.assert_outcomes(passed=41, xfailed=1, failed=1)
    result.stdout.fnmatch_lines(["this row must agree (*golden.jsonl:1): people say false, the judge true"])


def test_a_row_without_a_verdict_fails(suite: Path, run: Run, loopback: LoopbackServer) -> None:
    loopback.default = answers(lambda shown: "I would rather not" if "number 3." in shown else "Gladly" in shown)  # type: ignore[assignment]
    result = run("--judge-record=once")
    result.assert_outcomes(passed=42, failed=1)
    result.stdout.fnmatch_lines(["there is no verdict: format: *", "*golden.jsonl:4"])
    run().assert_outcomes(passed=42, failed=1)  # a failure is replayed as that failure


def test_thresholds_lie_on_the_bounds(suite: Path, run: Run) -> None:
    write(suite / "golden.jsonl", rows(40, wrong=4))  # 36 of 40: .90 [.769, .960]
    result = run("--judge-record=once", "-rs")
    result.assert_outcomes(passed=38, xfailed=4, skipped=1)
    result.stdout.fnmatch_lines(["SKIPPED*accuracy: INCONCLUSIVE: at least 0.8 was asked*0.769 to 0.960*would decide*"])
    run("--judge-strict").assert_outcomes(passed=38, xfailed=4, failed=1)
    write(suite / "golden.jsonl", rows(40, wrong=20))  # 20 of 40: .50 [.352, .648]
    result = run("--judge-record=new", "--judge-update-snapshots", "-k", "threshold")
    result.assert_outcomes(failed=1, deselected=42)
    result.stdout.fnmatch_lines(["accuracy 0.500 *", "FAIL: at least 0.8 was asked*"])


def test_too_few_rows_decide_nothing(suite: Path, run: Run) -> None:
    with (suite / "tone.judge.yaml").open("a") as file:
        file.write("min_n: 60\n")
    result = run("--judge-record=once", "-rs")
    result.assert_outcomes(passed=42, skipped=1)
    result.stdout.fnmatch_lines(["*of 60 items or more; there are 40*"])


def test_a_selection_changes_no_figure(suite: Path, run: Run, loopback: LoopbackServer) -> None:
    write(suite / "golden.jsonl", rows(40, wrong=4))
    run("--judge-record=once", "-k", "r39 or threshold").assert_outcomes(passed=1, skipped=1, deselected=41)
    assert len(loopback.requests) == 40
    run("--judge-strict", "-k", "threshold").assert_outcomes(failed=1, deselected=42)
    result = run("--judge-strict", "--lf")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["accuracy 0.900 [[]0.769, 0.960] (n = 40)"])


def test_several_processes_judge_a_suite_once(suite: Path, pytester: pytest.Pytester, loopback: LoopbackServer) -> None:
    pytest.importorskip("xdist")
    (suite / "other.judge.yaml").write_text((suite / "tone.judge.yaml").read_text().replace("0.8", "0.5"))
    write(suite / "golden.jsonl", rows(40, wrong=2))
    result = pytester.runpytest_subprocess(*PLUGIN, "-n", "2", "--judge-live")
    result.assert_outcomes(passed=82, xfailed=4)
    assert len(loopback.requests) == 80  # every row once for each suite
    assert not (suite / "cassettes").exists()


def test_a_changed_template_fails_before_anything_is_sent(suite: Path, run: Run, loopback: LoopbackServer) -> None:
    recorded(run)
    (suite / "tone.md").write_text(PROMPT.replace("courteous", "polite"))
    for mode in ("none", "new", "all"):
        result = run(f"--judge-record={mode}")
        result.assert_outcomes(passed=1, failed=41, skipped=1)
        result.stdout.fnmatch_lines(
            [
                "*what is sent about rows r0, r1, * and 35 more is not what * holds*",
                "-Is this reply courteous?",
                "+Is this reply polite?",
            ]
        )
    assert len(loopback.requests) == 40
    run("--judge-record=new", "--judge-update-snapshots").assert_outcomes(passed=43)
    assert len(loopback.requests) == 80
    run().assert_outcomes(passed=43)


def test_only_the_rows_that_changed_are_stale(suite: Path, run: Run, loopback: LoopbackServer) -> None:
    recorded(run)
    changed = rows()
    changed[5]["inputs"] = {"reply": "Gladly, and with pleasure."}
    write(suite / "golden.jsonl", changed)
    result = run("--judge-record=new")
    result.assert_outcomes(passed=41, failed=2)
    result.stdout.fnmatch_lines(["*what is sent about row r5 is not what * holds*"])
    assert len(loopback.requests) == 40


def test_a_budget_holds_over_all_suites(suite: Path, run: Run, loopback: LoopbackServer) -> None:
    (suite / "other.judge.yaml").write_text((suite / "tone.judge.yaml").read_text().replace("tone.md", "other.md"))
    (suite / "other.md").write_text(PROMPT.replace("courteous", "polite"))
    # A request: 20 tokens for the prompt and 5 for the reply, at a dollar each. It reserves some 270 and 1,024.
    result = run("--judge-live", "--judge-price=1000000,1000000", "--judge-budget-usd=2400")
    result.stdout.fnmatch_lines(["there is no verdict: budget: the request may cost *"])
    spent = len(loopback.requests)
    assert 2 <= spent < 80
    assert spent * 25 <= 2400


def test_models_make_a_matrix(suite: Path, run: Run, loopback: LoopbackServer) -> None:
    result = run("--judge-record=new", "--judge-model=openai/one", "--judge-model=openai/two", "-v")
    result.assert_outcomes(passed=84)  # the prompts are the same
    result.stdout.fnmatch_lines(["*row?r0-openai/two? PASSED*"])
    assert {request.body["model"] for request in loopback.requests} == {"one", "two"}


def test_samples_are_asked_for_anew(suite: Path, run: Run, loopback: LoopbackServer) -> None:
    run("--judge-record=new", "--judge-samples=3").assert_outcomes(passed=43)
    assert len(loopback.requests) == 120


def test_without_a_model_a_suite_is_told_once(suite: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JUDGE_MODEL", raising=False)
    (suite / "tone.md").write_text(PROMPT.replace("model: openai/m\n", ""))
    result = run()
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["no model is named: *model:*--judge-model*JUDGE_MODEL"])


def test_what_is_wrong_in_a_file_is_told_at_collection(suite: Path, run: Run) -> None:
    (suite / "tone.judge.yaml").write_text("prompt: tone.md\ngolden: golden.jsonl\nthreshold: {accuracy: 0.8}\n")
    result = run()
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*tone.judge.yaml: threshold: there is no such field; the fields are *"])
    (suite / "tone.judge.yaml").write_text("prompt: tone.md\ngolden: golden.jsonl\n")
    write(suite / "golden.jsonl", [{"id": "r", "inputs": {"reply": "x"}, "label": "polite"}])
    result = run()
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(['*golden.jsonl:1: label: the score is "polite"; *'])


def test_a_threshold_of_no_figure_is_told_at_collection_and_nothing_is_sent(
    suite: Path, run: Run, loopback: LoopbackServer
) -> None:
    (suite / "tone.judge.yaml").write_text(
        "prompt: tone.md\ngolden: golden.jsonl\nreason: false\nthresholds: {acuracy: 0.8}\n"
    )
    result = run("--judge-record=once")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*there is no figure 'acuracy'*accuracy, accuracy_of_parsed, *"])
    assert loopback.requests == []


PYTHON = """
    from pathlib import Path

    import pytest

    from judges import Judge

    HERE = Path(__file__).parent

    @pytest.fixture
    def judge():
        return Judge(HERE / "tone.md", reason=False)

    @pytest.mark.judge_suite("golden.jsonl", min_n=20, thresholds={"accuracy": LIMIT})
    def test_suite(judge_report):
        judge_report.require("true_negative_rate", at_least=0.5)
        assert judge_report.results["r3"].said() is True

    @pytest.mark.judge_suite("golden.jsonl", min_n=20)
    def test_row(judge_case):
        assert judge_case.inputs["reply"]
        assert judge_case.id != "r7", "a reason of my own"
"""


def test_suites_in_python(suite: Path, run: Run, pytester: pytest.Pytester, loopback: LoopbackServer) -> None:
    (suite / "tone.judge.yaml").unlink()
    write(suite / "golden.jsonl", rows(40, wrong=2))
    pytester.makepyfile(test_tone=dedent(PYTHON).replace("LIMIT", "0.8"))
    result = run("--judge-record=once")
    result.assert_outcomes(passed=38, xfailed=2, failed=1)
    result.stdout.fnmatch_lines(["*a reason of my own*"])
    assert len(loopback.requests) == 40  # the tests have different markers, and share the cassette
    for wrong, told in (
        ('"kapa", at_least=0.5', "there is no figure 'kapa'; there are *"),
        ('"kappa"', "kappa: *threshold*"),
    ):
        code = dedent(PYTHON).replace("LIMIT", "0.5").replace('"true_negative_rate", at_least=0.5', wrong)
        pytester.makepyfile(test_tone=code)
        result = run("-k", "test_suite")
        result.assert_outcomes(failed=1, deselected=40)
        result.stdout.fnmatch_lines([told])
    pytester.makepyfile(test_tone=dedent(PYTHON).replace("LIMIT", "0.99"))
    run("-k", "test_suite").assert_outcomes(failed=1, deselected=40)
    pytester.makepyfile(test_tone=dedent(PYTHON).replace("LIMIT", "0.9"))
    run("-k", "test_suite").assert_outcomes(skipped=1, deselected=40)


@pytest.mark.parametrize("body", ["pass", 'judge_report.require("accuracy_of_parsed", at_least=0.5)'])
def test_a_report_of_which_nothing_was_judged_fails(
    suite: Path, run: Run, pytester: pytest.Pytester, body: str
) -> None:
    """There is no row test beside it that would tell, and a figure over nothing is not decided: a skip."""
    (suite / "tone.judge.yaml").unlink()
    code = dedent(PYTHON).partition("@pytest.mark")[0]
    code += f'@pytest.mark.judge_suite("golden.jsonl")\ndef test_suite(judge_report):\n    {body}\n'
    pytester.makepyfile(test_tone=code)
    result = run("--judge-update-snapshots")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["40 of 40 questions have no reply (40 not_recorded): rows r0, *", "*nothing was sent"])


def test_markers_that_differ_make_suites_of_their_own(suite: Path, run: Run, pytester: pytest.Pytester) -> None:
    (suite / "tone.judge.yaml").unlink()
    write(suite / "golden.jsonl", rows(40, wrong=1))
    code = dedent(PYTHON).partition("@pytest.mark")[0]
    for name, more in (("a", "positive=True"), ("b", "positive=False"), ("c", "cassette='empty.jsonl'")):
        code += f'@pytest.mark.judge_suite("golden.jsonl", {more})\ndef test_{name}(judge_report):\n'
        code += f"    print('{name}:', judge_report['true_positive_rate'].estimate)\n"
    pytester.makepyfile(test_tone=code)
    run("--judge-record=once", "-k", "test_a").assert_outcomes(passed=1, deselected=2)
    result = run("-s")
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(["*a: 1.0", "*b: 0.95", "*40 of 40 questions have no reply (40 not_recorded)*"])


def test_a_baseline_holds_for_suites_in_python(suite: Path, run: Run, pytester: pytest.Pytester) -> None:
    (suite / "tone.judge.yaml").unlink()
    pytester.makepyfile(test_tone=dedent(PYTHON).replace("LIMIT", "0.5"))
    only = ("-k", "test_suite")
    run("--judge-record=once", "--judge-report=base.json", *only).assert_outcomes(passed=1, deselected=40)
    base = json.loads((suite / "base.json").read_text())
    base["suites"][0]["results"]["cases"][4]["answers"][0].update(label=True, score=1.0)
    (suite / "base.json").write_text(json.dumps(base))
    result = run("--judge-baseline=base.json", *only)
    result.assert_outcomes(failed=1, deselected=40)
    result.stdout.fnmatch_lines(["1 verdicts are not those of the baseline", "*r4: true → false"])


def test_a_fixture_without_a_marker_is_told(suite: Path, run: Run, pytester: pytest.Pytester) -> None:
    (suite / "tone.judge.yaml").unlink()
    pytester.makepyfile("def test_row(judge_case): ...")
    result = run()
    assert result.ret == pytest.ExitCode.INTERRUPTED  # at collection
    result.stdout.fnmatch_lines(["*test_row: judge_case and judge_report need the marker*judge_suite*"])


def test_what_is_wrong_with_a_marker_is_told(suite: Path, run: Run, pytester: pytest.Pytester) -> None:
    (suite / "tone.judge.yaml").unlink()
    code = dedent(PYTHON).replace("LIMIT", "0.5")
    pytester.makepyfile(test_tone=code.replace("min_n=20, thresholds", "minn=20, thresholds"))
    result = run("-k", "test_suite")
    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.stdout.fnmatch_lines(["*judge_suite: there is no argument minn; there are judge, name, *"])
    pytester.makepyfile(test_tone=code.replace("golden.jsonl", "gold.jsonl"))
    result = run()
    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.stdout.fnmatch_lines(["*gold.jsonl: No such file or directory"])
    write(suite / "golden.jsonl", [{"id": "r1", "inputs": {"reply": "x"}, "label": "polite"}])
    pytester.makepyfile(test_tone=code)
    result = run("-k", "test_row")
    assert result.ret == pytest.ExitCode.TESTS_FAILED  # the scale is the judge's, which a test has
    result.stdout.fnmatch_lines(['*golden.jsonl:1: label: the score is "polite"; *'])


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("path='x'", "there is no argument path; there are *"),
        ("golden='x'", "there is no argument golden; there are *"),
        ("thresholds=0.8", "thresholds: *, got '0.8'"),
        ("tags='short'", "tags: give a list of names, got 'short'"),
        ("tags=3", "tags: give a list of names, got '3'"),
        ("perturbations='padding'", "perturbations: give a list of names, got 'padding'"),
        ("cassette=3", "cassette: give a path, got '3'"),
        ("orders='bth'", "orders: *'both' or 'given', got 'bth'"),
        ("split='tset'", "split: *, got 'tset'"),
        ("name=3, min_n='x'", "name: *, got '3'; min_n: *, got 'x'"),
    ],
)
def test_a_keyword_of_a_marker_that_cannot_be_is_told_at_collection(
    suite: Path, run: Run, pytester: pytest.Pytester, said: str, told: str
) -> None:
    (suite / "tone.judge.yaml").unlink()
    pytester.makepyfile(test_tone=dedent(PYTHON).replace('min_n=20, thresholds={"accuracy": LIMIT}', said))
    result = run("-k", "test_suite")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([f"*test_tone.py: judge_suite: {told}"])


@pytest.mark.parametrize("said", ["split='dev'", "tags=['hard']"])
def test_rows_that_no_row_is_like_are_no_skipped_test(
    suite: Path, run: Run, pytester: pytest.Pytester, said: str
) -> None:
    (suite / "tone.judge.yaml").unlink()
    pytester.makepyfile(test_tone=dedent(PYTHON).replace("LIMIT", "0.5").replace("min_n=20)", f"{said})"))
    result = run("-k", "test_row")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*test_row: *golden.jsonl: no row has the split and the tags of the marker"])


def test_an_unused_plugin_imports_nothing(tmp_path: Path) -> None:
    (tmp_path / "test_one.py").write_text("def test_one(): ...\n")
    (tmp_path / "conftest.py").write_text(
        "import sys\n\ndef pytest_unconfigure():\n"
        "    ours = [n for n in sys.modules if n.split('.')[0] in ('judges', 'rubrics', 'numpy', 'pydantic')]\n"
        "    print('IMPORTED', sorted(ours))\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", *PLUGIN, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=True)
    assert "IMPORTED ['judges', 'judges.testing', 'judges.testing.plugin']" in done.stdout


def test_suites_that_share_a_cassette_record_it_together(suite: Path, run: Run, loopback: LoopbackServer) -> None:
    (suite / "easy.judge.yaml").write_text(
        (suite / "tone.judge.yaml").read_text() + "name: tone\ntags: [easy]\nmin_n: 5\n"
    )
    tagged = [{**row, **({"tags": ["easy"]} if number < 10 else {})} for number, row in enumerate(rows())]
    write(suite / "golden.jsonl", tagged)
    for mode in ("once", "none", "rewrite", "none"):
        run(f"--judge-record={mode}").assert_outcomes(passed=43 + 12, skipped=1)
    assert len((suite / "cassettes/tone.jsonl").read_text().splitlines()) == 40
    assert len(loopback.requests) == 80


def test_the_verdicts_of_a_baseline_may_not_change(suite: Path, run: Run, loopback: LoopbackServer) -> None:
    run("--judge-record=once", "--judge-report=base.json").assert_outcomes(passed=43)
    run("--judge-baseline=base.json").assert_outcomes(passed=44)
    loopback.default = answers(lambda shown: "Gladly" in shown or "number 4." in shown)  # type: ignore[assignment]
    result = run("--judge-record=rewrite", "--judge-baseline=base.json")
    result.assert_outcomes(passed=42, xfailed=1, failed=1)
    result.stdout.fnmatch_lines(["1 verdicts are not those of the baseline", "*r4: false → true"])
    result = run("--judge-baseline=none.json")
    result.stderr.fnmatch_lines(["*--judge-baseline=none.json: there is no such file"])


def test_a_collection_alone_leaves_an_older_report(suite: Path, run: Run) -> None:
    (suite / "report.json").write_text("of before")
    run("--collect-only", "--judge-report=report.json")
    assert (suite / "report.json").read_text() == "of before"


def test_an_id_that_is_no_text_is_told_at_collection(suite: Path, run: Run) -> None:
    write(suite / "golden.jsonl", [*rows(2), {"id": "\ud800", "inputs": {"reply": "x"}, "label": True}])
    result = run()
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*golden.jsonl:3: id: an id is text, and half a surrogate pair is none"])


@pytest.mark.parametrize("option", ["--judge-samples=0", "--judge-budget-usd=-1", "--judge-budget-usd=nan"])
def test_a_number_that_cannot_be_is_told_before_anything_is_collected(suite: Path, run: Run, option: str) -> None:
    result = run(option)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: {option.split('=')[0]}=*: *"])
