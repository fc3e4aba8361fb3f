"""What can be seen in a prompt before anybody is asked."""

import json
from pathlib import Path

import pytest

from judges.testing.golden import GoldenError
from judges.testing.lint import Finding, lint

HEAD = "---\nname: tone\nversion: 1\nscale: {scale}\n---\n"
LIKERT = "{type: likert, low: 1, high: 5, abstain: true}"
BINARY = "{type: binary, abstain: true}"
CHOICE = "{type: choice, options: {good: 1, bad: 0}, abstain: true}"
VALUE = "\n{{ reply | untrusted }}"


def looked(folder: Path, text: str, scale: str | None = LIKERT) -> list[Finding]:
    path = folder / "tone.md"
    path.write_text((HEAD.replace("{scale}", scale) if scale else "") + text, encoding="utf-8")
    return lint(path)


def said(folder: Path, text: str, scale: str | None = LIKERT) -> list[str]:
    """Line, level and what, of each finding."""
    return [f"{each.line} {each.level} {each.what}" for each in looked(folder, text, scale)]


GOOD = [
    ("Rate the reply from 1 to 5.", LIKERT),
    ("Rate the reply from 5 (best) to 1 (worst).", LIKERT),
    ("Rate it between 1 and 5.", LIKERT),
    ("Give a score on a scale of 1-5.", LIKERT),
    ("Score it, out of 5.", LIKERT),
    ("Grades:\n- 4-5: excellent\n- 2 to 3: fair\n- 1: poor", LIKERT),
    ("Rate it. A reply of 2 to 4 sentences is right.", LIKERT),
    ("Rate it; a reply of 10-20 words is right.", LIKERT),
    ("The event took place from 10 to 12. Rate the reply.", LIKERT),
    ("Is the reply right, yes or no?", BINARY),
    ("Is 10 to 12 the answer?", BINARY),
    ("Does the function return a number?", BINARY),
    ("Is the answer yes?", BINARY),
    ("Rate it from 1 to 4.", "{type: choice, options: {'1': 0, '2': 0.3, '4': 1}, abstain: true}"),
]


@pytest.mark.parametrize(("text", "scale"), GOOD, ids=[text for text, _ in GOOD])
def test_nothing_to_say(tmp_path: Path, text: str, scale: str) -> None:
    assert said(tmp_path, text + VALUE, scale) == []


BAD = [
    ("Rate the reply from 1 to 10.", LIKERT, "6 error '1 to 10' is not what the scale says, 1, 2, 3, 4 or 5"),
    ("Judge it.\nThe rating is between 0 and 5.", LIKERT, "7 error 'between 0 and 5'"),
    ("Give 1–4 points.", LIKERT, "6 error '1–4'"),
    ("Score it, out of 10.", LIKERT, "6 error 'out of 10'"),
    ("Score: _/10", LIKERT, "6 error '/10'"),
    ("Grades:\n- 5-7: excellent", LIKERT, "7 error '5-7'"),
    ("Is it good, yes or no?", LIKERT, "6 warning 'yes or no' is not what the scale says"),
    ("Rate it from 1 to 5.", BINARY, "6 error '1 to 5' is not what the scale says, true or false"),
    ("Rate it from 1 to 5.", CHOICE, '6 error \'1 to 5\' is not what the scale says, "good" or "bad"'),
    ("Rate it from 0 to 10.", "{type: numeric, low: 0, high: 1, abstain: true}", "6 error '0 to 10'"),
    ("How is it? Answer with a number.", LIKERT, "6 warning 'Answer with a number' asks for a form of reply"),
    ("How is it?\nReply only yes or no.", BINARY, "7 warning 'Reply only yes or no' asks for a form"),
    ("Think, and then output JSON with a key `rating`.", LIKERT, "6 warning 'output JSON with a key `rating`'"),
    ("Say [[A]] if it is good.", BINARY, "6 warning '[[A]]' asks for a form"),
    ("How is it?\nFinal score: <number>", LIKERT, "7 warning 'Final score: <number>' asks for a form"),
    ("Good?\n{{ tone }}", BINARY, "7 warning a value is printed without a filter"),
    ("Good? {{ reply", BINARY, "6 error unexpected end of template"),
]


@pytest.mark.parametrize(("text", "scale", "told"), BAD, ids=[text for text, _, _ in BAD])
def test_what_is_wrong(tmp_path: Path, text: str, scale: str, told: str) -> None:
    (found,) = said(tmp_path, text + ("" if "{{" in text else VALUE), scale)
    assert found.startswith(told)


def test_a_finding_reads_as_one_line(tmp_path: Path) -> None:
    (found,) = looked(tmp_path, "Rate the reply from 1 to 10." + VALUE)
    assert str(found) == (
        f"{tmp_path / 'tone.md'}:6: error: '1 to 10' is not what the scale says, 1, 2, 3, 4 or 5. "
        "Say the same as the scale, or nothing: its wording is added to the prompt."
    )


def test_choices_to_be_made(tmp_path: Path) -> None:
    assert said(tmp_path, "Good?" + VALUE, None) == [
        "1 info the front matter has no name and no version",
        "1 info the front matter has no scale",
    ]
    assert said(tmp_path, "Good?" + VALUE, "binary") == ["4 info the judge cannot abstain"]


def test_fixed_text_after_the_first_value(tmp_path: Path) -> None:
    rules = "Mind the tone. " * 20
    assert said(tmp_path, f"Good?\n{rules}{VALUE}", BINARY) == []
    assert said(tmp_path, f"Good?{VALUE}\n{rules}", BINARY) == [
        "7 info 299 characters of fixed text stand after the first value"
    ]


def test_what_the_system_text_says_counts(tmp_path: Path) -> None:
    path = tmp_path / "tone.md"
    path.write_text(
        f"---\nname: t\nversion: 1\nscale: {LIKERT}\nsystem: Rate from 1 to 10.\n---\nHow?{VALUE}", encoding="utf-8"
    )
    (found,) = lint(path)
    assert (found.line, found.level) == (5, "error")


def with_examples(folder: Path, *scores: object, reason: bool = True, inputs: str = "reply") -> list[str]:
    listed = [{"inputs": {inputs: "x"}, "score": score, **({"reason": "r"} if reason else {})} for score in scores]
    path = folder / "tone.md"
    head = f"name: t\nversion: 1\nscale: {BINARY}\nexamples: {json.dumps(listed)}"
    path.write_text(f"---\n{head}\n---\nGood?{VALUE}", encoding="utf-8")
    return [f"{each.line} {each.level} {each.what}" for each in lint(path)]


def test_examples(tmp_path: Path) -> None:
    assert with_examples(tmp_path, True, False) == []
    assert with_examples(tmp_path, True, False, reason=False) == []
    assert with_examples(tmp_path, True) == []
    assert with_examples(tmp_path, True, True) == ["5 warning all 2 examples have the score true"]
    (found,) = with_examples(tmp_path, True, 3)
    assert found.startswith("5 error example 1: the score is 3")
    (found,) = with_examples(tmp_path, True, False, inputs="answer")
    assert found.startswith("5 error cannot be rendered: UndefinedError: 'reply' is undefined")


def test_declared_variables(tmp_path: Path) -> None:
    path = tmp_path / "tone.md"
    head = f"---\nname: t\nversion: 1\nscale: {BINARY}\nvariables: [reply]\n---\n"
    path.write_text(f"{head}Good?{VALUE}", encoding="utf-8")
    assert lint(path) == []
    path.write_text(f"{head}Good?{VALUE}\n{{{{ task | untrusted }}}}", encoding="utf-8")
    (found,) = lint(path)
    assert found.level == "error" and "uses 'task', which it is not given; it is given reply" in found.what
    path.write_text(f"{head.replace('[reply]', '[1]')}Good?{VALUE}", encoding="utf-8")
    (found,) = lint(path)
    assert (found.line, found.what) == (5, "variables cannot be [1]")


def a_suite(folder: Path, prompt: str, row: dict[str, object], **fields: object) -> list[str]:
    (folder / "golden.jsonl").write_text(json.dumps({"id": "a", **row}), encoding="utf-8")
    (folder / "tone.md").write_text(f"---\nname: t\nversion: 1\n---\n{prompt}", encoding="utf-8")
    path = folder / "tone.judge.yaml"
    path.write_text(json.dumps({"prompt": "tone.md", "golden": "golden.jsonl", **fields}), encoding="utf-8")
    return [f"{each.line} {each.level} {each.what}" for each in lint(path)]


def test_a_suite_knows_scale_and_variables(tmp_path: Path) -> None:
    row: dict[str, object] = {"inputs": {"reply": "x"}, "score": 4}
    scale = {"type": "likert", "low": 1, "high": 5, "abstain": True}
    assert a_suite(tmp_path, f"Rate it from 1 to 5.{VALUE}", row, scale=scale) == []
    assert a_suite(tmp_path, f"Rate it from 1 to 9.{VALUE}\n{{{{ task | untrusted }}}}", row, scale=scale) == [
        "5 error '1 to 9' is not what the scale says, 1, 2, 3, 4 or 5",
        f"7 error 'task' is used, and no row of {tmp_path / 'golden.jsonl'} has such an input",
    ]
    found, _ = a_suite(tmp_path, f"Good?{VALUE}", row)
    assert found.startswith("1 error a judge needs a scale")


def test_a_suite_of_pairs(tmp_path: Path) -> None:
    row: dict[str, object] = {"inputs": {"a": "x", "b": "y"}, "winner": "a"}
    shown = "{{ first | untrusted }}\n{{ second | untrusted }}"
    assert a_suite(tmp_path, f"Which is better?\n{shown}", row) == []
    (found,) = a_suite(tmp_path, f"Rate both from 1 to 10. Which is better?\n{shown}", row)
    assert found.startswith('5 error \'1 to 10\' is not what the scale says, "A", "tie" or "B"')


def test_what_cannot_be_read(tmp_path: Path) -> None:
    (found,) = lint(tmp_path / "x.md")
    assert (found.level, found.line) == ("error", 1) and "No such file" in found.what
    with pytest.raises(GoldenError, match="No such file"):
        lint(tmp_path / "x.judge.yaml")
    path = tmp_path / "tone.judge.yaml"
    path.write_text("golden: g.jsonl", encoding="utf-8")
    with pytest.raises(GoldenError, match="the suite has no prompt"):
        lint(path)
