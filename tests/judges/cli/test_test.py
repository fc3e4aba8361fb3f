"""`judges test`, from outside: a server answers, is recorded, and is not needed any more."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.judges.cli.conftest import PROMPT, REPLIES, Run, judge, write_suite
from tests.judges.loopback import LoopbackServer, Request, text

MANY = [
    {"id": f"r{i}", "inputs": {"reply": f"{'Gladly' if i % 2 else 'No'}, {i}."}, "label": i % 2 == 1} for i in range(30)
]


def test_recorded_once_and_replayed_without_a_network(
    run: Run, server: LoopbackServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    suite = write_suite(rows=MANY, thresholds={"accuracy": 0.8})
    recorded = run("test", suite, "--record", "once")
    assert recorded.exit_code == 0, recorded.output
    assert len(server.requests) == 30
    assert recorded.stderr.startswith("judges: tone sends 30 requests to openai/m: ")
    assert recorded.stdout.startswith("tone [openai/m]\n")
    assert "PASS at least 0.8" in recorded.stdout and recorded.stdout.endswith("\n1 suite passed\n")
    monkeypatch.delenv("JUDGE_API_BASE")
    replayed = run("test", ".")
    assert (replayed.exit_code, replayed.stderr) == (0, "")
    assert len(server.requests) == 30


def test_nothing_is_sent_and_the_nearest_request_is_shown(run: Run, server: LoopbackServer) -> None:
    suite = write_suite()
    run("test", suite, "--record", "once")
    write_suite(prompt=PROMPT.replace("courteous", "polite"))
    result = run("test", suite, "--update-snapshots")
    assert result.exit_code == 1
    assert len(server.requests) == 4
    assert "kind-1, kind-2, rude-1, rude-2: there is no verdict: not_recorded: " in result.stdout
    assert result.stdout.count("--- recorded, cassettes/tone.jsonl:") == 1  # the others differ in the same
    assert "\n    -Is this reply courteous?\n    +Is this reply polite?\n" in result.stdout
    assert result.stdout.endswith("\n1 of 1 suites failed\n")


def test_a_changed_prompt_fails_before_anything_is_sent(run: Run, server: LoopbackServer) -> None:
    suite = write_suite()
    run("test", suite, "--record", "once")
    write_suite(prompt=PROMPT.replace("courteous", "polite"))
    result = run("test", suite, "--record", "new")
    assert result.exit_code == 1 and len(server.requests) == 4
    assert "  snapshot: what is sent about rows kind-1, kind-2, rude-1, rude-2 is not what" in result.stdout
    assert "    -Is this reply courteous?\n    +Is this reply polite?\n" in result.stdout
    assert run("test", suite, "--record", "new", "--update-snapshots").exit_code == 0
    assert len(server.requests) == 8
    assert run("test", suite).exit_code == 0


def test_a_snapshot_that_is_not_there(run: Run, server: LoopbackServer) -> None:
    suite = write_suite()
    run("test", suite, "--record", "once")
    Path("snapshots/tone.json").unlink()
    assert "snapshots/tone.json does not hold what is sent about rows" in run("test", suite).stdout
    assert run("test", suite, "--update-snapshots").exit_code == run("test", suite).exit_code == 0


def always(value: bool) -> Any:
    return lambda request: text(json.dumps({"score": value}))


def test_thresholds(run: Run, server: LoopbackServer) -> None:
    server.default = always(True)
    suite = write_suite(rows=MANY, thresholds={"accuracy": 0.8})
    result = run("test", suite, "--record", "once")
    assert result.exit_code == 1
    assert "\n  accuracy: FAIL: at least 0.8 was asked, and the interval is 0.332 to 0.668" in result.stdout


def test_a_threshold_that_is_not_decided(run: Run, server: LoopbackServer) -> None:
    suite = write_suite(thresholds={"accuracy": 0.5}, min_n=20)
    assert run("test", suite, "--record", "once").exit_code == 0
    result = run("test", suite, "--strict")
    assert result.exit_code == 1 and "\n  accuracy: INCONCLUSIVE: at least 0.5 was asked" in result.stdout


def test_a_row_that_must_agree(run: Run, server: LoopbackServer) -> None:
    rows = [{"id": id, "inputs": {"reply": reply}, "label": "kind" in id} for id, reply in REPLIES.items()]
    server.default = always(False)
    assert run("test", write_suite(rows=rows), "--record", "once").exit_code == 0
    result = run("test", write_suite(rows=[{**rows[0], "must": True}, *rows[1:]]))
    assert result.exit_code == 1
    assert "  kind-1: this row must agree (tone.golden.jsonl:1): people say true, the judge false" in result.stdout


def test_a_matrix_of_models_and_several_suites(run: Run, server: LoopbackServer) -> None:
    write_suite()
    Path("sub").mkdir()
    Path(".hidden").mkdir()
    (Path(".hidden") / "x.judge.yaml").write_text("not a suite")
    for file in Path().glob("tone.*"):
        (Path("sub") / file.name).write_bytes(file.read_bytes())
    result = run("test", ".", "sub", "--model", "openai/m", "--model", "openai/n", "--samples", "2", "--record=once")
    assert result.exit_code == 0, result.output
    assert [line for line in result.stdout.splitlines() if line.startswith("tone [")] == [
        *("tone [openai/m]", "tone [openai/n]", "tone [openai/m]", "tone [openai/n]"),
    ]
    # Two models, two folders, two samples; the second model joins the cassette that the first began.
    assert len(server.requests) == 4 * 2 * 2 * 2
    assert run("test", ".", "--model", "openai/n", "--samples", "2").exit_code == 0


def test_live_says_what_it_costs_and_asks_on_a_terminal(
    run: Run, server: LoopbackServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    suite = write_suite()
    args = ("test", suite, "--live", "--price", "1,2", "--update-snapshots")
    monkeypatch.setattr("judges.cli.running.on_terminal", lambda: True)
    refused = run(*args, input="n\n")
    assert refused.exit_code == 1 and not server.requests
    assert "judges: tone sends 4 requests to openai/m: " in refused.stderr and ", about $0.0" in refused.stderr
    assert "Send it? [y/N]" in refused.stderr
    assert run(*args, input="y\n").exit_code == run(*args, "--yes").exit_code == 0
    monkeypatch.setattr("judges.cli.running.on_terminal", lambda: False)
    assert run(*args).exit_code == 0
    assert len(server.requests) == 12
    assert not Path("cassettes").exists()


def test_a_budget_holds_over_all_suites(run: Run, server: LoopbackServer) -> None:
    write_suite()
    write_suite("other")
    args = ("test", ".", "--record=once", "--price", "1,1", "--budget-usd", "0.005")
    result = run(*args)
    assert result.exit_code == 1
    assert "there is no verdict: budget: the request may cost $" in result.stdout
    assert 0 < len(server.requests) < 8


def test_reports_and_a_baseline(run: Run, server: LoopbackServer) -> None:
    suite = write_suite()
    args = [part for ending in ("json", "md", "html") for part in ("--report", f"out/report.{ending}")]
    result = run("test", suite, "--record=once", *args)
    assert result.exit_code == 0, result.output
    assert "judges: out/report.html is written" in result.stderr
    assert Path("out/report.md").read_text().count("tone") and "<html" in Path("out/report.html").read_text()
    assert run("test", suite, "--baseline", "out/report.json").exit_code == 0
    server.default = always(True)
    changed = run("test", suite, "--record=all", "--baseline", "out/report.json")
    assert changed.exit_code == 1
    assert "  baseline: 2 verdicts are not those of the baseline\n      rude-1: false → true\n" in changed.stdout


def test_a_report_that_cannot_be_written_does_not_take_the_next_one_with_it(run: Run, server: LoopbackServer) -> None:
    suite = write_suite()
    Path("file").touch()
    result = run("test", suite, "--live", "--report", "file/report.json", "--report", "report.json")
    assert result.exit_code == 2
    assert "judges: file/report.json: cannot be written: " in result.stderr
    assert Path("report.json").exists()  # it was paid for


def test_a_report_takes_the_place_of_no_file_of_a_suite(run: Run, server: LoopbackServer) -> None:
    suite = write_suite()
    assert run("test", suite, "--record", "once").exit_code == 0
    for name in ("tone.md", "./tone.md", "snapshots/tone.json"):
        result = run("test", suite, "--report", name)
        assert result.exit_code == 2
        assert f"judges: {Path(name)} is a file of a suite; give the report another name" in result.stderr
    assert Path("tone.md").read_text() == PROMPT


def test_a_snapshot_that_cannot_be_written_is_told_before_anything_is_sent(run: Run, server: LoopbackServer) -> None:
    suite = write_suite()
    Path("snapshots").touch()
    result = run("test", suite, "--record", "once")
    assert result.exit_code == 2
    assert "snapshots/tone.json cannot be written: File exists" in result.stderr
    assert not server.requests


def test_a_suite_that_the_baseline_does_not_have(run: Run, server: LoopbackServer) -> None:
    run("test", write_suite(), "--record=once", "--report", "report.json")
    result = run("test", write_suite("other"), "--record=once", "--baseline", "report.json")
    assert result.exit_code == 0 and "judges: other [openai/m] is not in the baseline\n" in result.stderr


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["tone.md"], "tone.md: a suite is a file *.judge.yaml, or a folder that holds some"),
        (["empty"], "there is no *.judge.yaml in empty"),
        (["x.judge.yaml"], "x.judge.yaml: No such file or directory"),
        (["bad.judge.yaml"], "bad.judge.yaml: golden: Field required"),
        (["tone.judge.yaml", "--report", "x.pdf"], "x.pdf: a report is written as JSON, Markdown or HTML"),
        (["tone.judge.yaml", "--baseline", "tone.judge.yaml"], "tone.judge.yaml is no report of judge tests"),
        (["tone.judge.yaml", "--live", "--record=new"], "--live uses no cassette; leave out --record"),
        (["tone.judge.yaml", "--price", "x"], "--price is two numbers, such as 0.25,2.0, not 'x'"),
        (["tone.judge.yaml", "--record=once", "--budget-usd", "1"], "no price of 'openai/m' is known"),
    ],
)
def test_what_is_refused(run: Run, server: LoopbackServer, args: list[str], message: str) -> None:
    write_suite()
    Path("empty").mkdir()
    Path("bad.judge.yaml").write_text("prompt: tone.md")
    result = run("test", *args)
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr and not server.requests


def test_what_a_terminal_would_obey_is_not_printed(run: Run, server: LoopbackServer) -> None:
    def coloured(request: Request) -> Any:
        return text(json.dumps({"reason": "\x1b[31mno", "score": False}))

    server.default = coloured
    row = {"id": "a\x1b[1m", "inputs": {"reply": "x"}, "label": True, "must": True}
    result = run("test", write_suite(rows=[row], reason=True), "--record=once")
    assert "\\x1b[31mno" in result.stdout and "\x1b" not in result.stdout


def test_the_command_as_it_is_installed(run: Run, server: LoopbackServer) -> None:
    server.default = judge
    run("test", write_suite(), "--record=once")
    command = [sys.executable, "-m", "judges", "test", "tone.judge.yaml"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("\n1 suite passed\n") and done.stderr == ""


def test_help_imports_little() -> None:
    code = (
        "import sys\nfrom judges.cli.app import app\nimport typer.testing\n"
        "for command in ('test', 'render', 'compare', 'lint', 'cassette'):\n"
        "    assert typer.testing.CliRunner().invoke(app, [command, '--help']).exit_code == 0\n"
        "heavy = {'litellm', 'jinja2', 'numpy', 'yaml', 'aiohttp', 'pytest'}\n"
        "print(sorted(heavy & {name.split('.')[0] for name in sys.modules}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
