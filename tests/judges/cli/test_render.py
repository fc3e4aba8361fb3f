"""`judges render`: what is shown is what is sent."""

import json
from pathlib import Path
from typing import Any

import pytest

from judges.testing.running import Sending, run_suite
from judges.testing.suite import Suite
from tests.judges.cli.conftest import PROMPT, Run, write_suite
from tests.judges.loopback import LoopbackServer


def shown(run: Run, *args: Any) -> Any:
    result = run("render", *args, "--json")
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def test_all_of_it_for_people(run: Run) -> None:
    suite = write_suite(sampling={"temperature": 0})
    result = run("render", suite, "--case", "rude-1")
    head, system, user = result.stdout.rstrip().replace("\n[user]", "\n\0").replace("\n[system]", "\n\0").split("\0")
    assert head.splitlines()[:5] == [
        "model: openai/m",
        "endpoint: here",
        'sampling: {"temperature": 0}',
        "max_tokens: 1024",
        "sample: 0",
    ]
    assert json.loads(head.split("schema:")[1])["properties"] == {"score": {"type": "boolean"}}
    assert "You are a careful and impartial judge" in system
    assert user.startswith("\nIs this reply courteous?\n<<<UNTRUSTED ")
    assert "\nRead the manual.\n" in user and user.endswith('Reply with JSON: {"score": true or false}')


def test_the_json_is_what_a_server_gets(run: Run, server: LoopbackServer) -> None:
    suite = write_suite(sampling={"temperature": 0}, max_tokens=7)
    run_suite(Suite.load(suite), Sending(live=True))
    sent = [request.body for request in server.requests]
    data = shown(run, suite, "--case", "kind-2")
    (body,) = [body for body in sent if body["messages"] == data["messages"]]
    assert body["temperature"] == 0 and body["max_tokens"] == data["max_tokens"] == 7
    assert body["response_format"]["json_schema"]["schema"] == data["schema"]


def test_a_prompt_with_inputs_or_with_a_golden_set(run: Run) -> None:
    write_suite()
    given = shown(run, "tone.md", "--model", "m", "--input", "reply=a = b")
    assert "\na = b\n" in given["messages"][-1]["content"]
    row = shown(run, "tone.md", "--model", "m", "--golden", "tone.golden.jsonl", "--case", "rude-1")
    assert "\nRead the manual.\n" in row["messages"][-1]["content"]
    other = shown(run, "tone.judge.yaml", "--case", "rude-1", "--input", "reply=So?", "--sample", "3")
    assert "\nSo?\n" in other["messages"][-1]["content"] and other["sample"] == 3


def test_rows_of_every_split_are_there(run: Run) -> None:
    rows = [
        {"id": "a", "inputs": {"reply": "x"}, "label": True},
        {"id": "b", "inputs": {"reply": "y"}, "label": True, "split": "dev"},
    ]
    assert "\ny\n" in shown(run, write_suite(rows=rows), "--case", "b")["messages"][-1]["content"]


def test_a_pair_the_other_way_round(run: Run) -> None:
    row = {"id": "p", "inputs": {"a": "first text", "b": "second text"}, "winner": "a"}
    prompt = "Which is better?\n{{ first | untrusted }}\n{{ second | untrusted }}"
    suite = write_suite(prompt=prompt, rows=[row])
    for order, before, after in (("given", "first", "second"), ("swapped", "second", "first")):
        content = shown(run, suite, "--case", "p", "--order", order)["messages"][-1]["content"]
        assert content.index(f"{before} text") < content.index(f"{after} text")


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["tone.judge.yaml", "--case", "rude-3"], "there is no row 'rude-3'; there is 'rude-2', 'rude-1'"),
        (["tone.judge.yaml"], "which row of tone.golden.jsonl? Give --case ID; the first is 'kind-1'"),
        (["tone.md", "--case", "rude-1"], "--case is a row of a golden set: give --golden FILE"),
        (
            ["tone.md", "--model", "m"],
            "'reply' is undefined; give --input reply=VALUE",
        ),
        (["tone.judge.yaml", "--case", "rude-1", "--order", "swapped"], "--order is of pairs"),
        (["tone.md", "--input", "reply=x"], "no model is named"),
        (["tone.md", "--input", "reply"], "--input is NAME=VALUE, not 'reply'"),
        (["none.md", "--input", "reply=x"], "none.md: No such file or directory"),
        (["none.judge.yaml", "--case", "x"], "none.judge.yaml: No such file or directory"),
    ],
)
def test_what_is_refused(run: Run, args: list[str], message: str) -> None:
    write_suite()
    result = run("render", *args)
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr and result.stderr.startswith("judges: ")


def test_a_terminal_is_not_given_control_characters(run: Run) -> None:
    Path("tone.md").write_text(PROMPT, encoding="utf-8")
    result = run("render", "tone.md", "--model", "m", "--input", "reply=\x1b[31mred")
    assert "\\x1b[31mred" in result.stdout and "\x1b" not in result.stdout
