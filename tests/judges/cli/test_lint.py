"""`judges lint`: findings, and the exit code that they give."""

from pathlib import Path

from tests.judges.cli.conftest import PROMPT, Run, write_suite

FINE = PROMPT.replace("scale: binary", "scale: {type: binary, abstain: true}")


def test_one_line_a_finding(run: Run) -> None:
    Path("a.md").write_text(PROMPT, encoding="utf-8")
    Path("b.md").write_text(FINE.replace("courteous?", "courteous? Rate it from 1 to 5."), encoding="utf-8")
    result = run("lint", "a.md", "b.md")
    assert result.exit_code == 1
    assert [line[: line.index(".", 10)] for line in result.stdout.splitlines()[:-1]] == [
        "a.md:4: info: the judge cannot abstain",
        "b.md:6: error: '1 to 5' is not what the scale says, true or false",
    ]
    assert result.stdout.splitlines()[-1] == "2 prompts: 1 error, 0 warnings, 1 info"


def test_warnings_fail_where_that_is_asked_for(run: Run) -> None:
    Path("a.md").write_text(FINE.replace("{{ reply | untrusted }}", "{{ reply }}"), encoding="utf-8")
    assert run("lint", "a.md").exit_code == 0
    result = run("lint", "a.md", "--strict")
    assert result.exit_code == 1
    assert "a.md:7: warning: a value is printed without a filter" in result.stdout
    assert result.stderr == ""


def test_a_suite(run: Run) -> None:
    result = run("lint", write_suite(prompt=FINE.replace("{{ reply", "{{ task | untrusted }}{{ reply")))
    assert result.exit_code == 1
    assert result.stdout.startswith("tone.md:7: error: 'task' is used, and no row of tone.golden.jsonl has such an")
    assert run("lint", ".").stdout == result.stdout


def test_a_suite_that_cannot_be_read(run: Run) -> None:
    result = run("lint", "x.judge.yaml")
    assert result.exit_code == 2 and result.stderr.startswith("judges: x.judge.yaml: No such file or directory")


def test_a_folder_tells_of_a_shared_prompt_once_and_leaves_out_suites_without_one(run: Run) -> None:
    suite = write_suite(prompt=FINE.replace("{{ reply", "{{ task | untrusted }}{{ reply"))
    Path("again.judge.yaml").write_text(suite.read_text())
    Path("recorded.judge.yaml").write_text("golden: nothing.jsonl\n")
    Path("README.md").write_text("How to judge, from 1 to 10.")
    result = run("lint", ".")
    assert result.exit_code == 1
    (finding, summed) = result.stdout.splitlines()
    assert finding.startswith("tone.md:7: error: 'task' is used, and no row of tone.golden.jsonl has such an")
    assert summed == "2 prompts: 1 error, 0 warnings, 0 info"
