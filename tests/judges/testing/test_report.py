"""Reports for a terminal, as JSON and as Markdown."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from markdown_it import MarkdownIt

from judges.testing.comparing import changes
from judges.testing.figures import decisions_of, figures_of
from judges.testing.golden import GoldenError
from judges.testing.report import assess, summary, summary_lines, to_dict, to_markdown, write_report
from judges.testing.report.markdown import cell, code, fence
from judges.testing.results import Answer, ReplyCheck, SuiteReport, Threshold, read_reports
from tests.judges.testing.suites import better_of_two, case, numbers, podium, stars, suite, tone

EVERY_KIND = [tone, better_of_two, stars, numbers, podium]
HOSTILE = [
    "<script>alert(1)</script>",
    "--> </details> <img src=x onerror=alert(1)>",
    "![x](https://example.invalid/x.png) [y](https://example.invalid) https://example.invalid www.example.invalid",
    "@somebody #1 a@example.invalid",
    "a | b \\| c \\\\| d \\",
    "`one` ``two`` ```three```",
    "````\n</details>\n@somebody\n````",
    "~~~\n# heading\n- list\n> quote\n\n    code",
    "\u202eright to left\u2066",
    "\x1b[31mred\x07\r\nnext",
    "quotes \"double\" and 'single' & &amp; &#64;somebody",
    "`",
    " ",
]


def hostile() -> list[SuiteReport]:
    """Suites whose every text is hostile."""
    suites = []
    for n, text in enumerate(HOSTILE):
        answers = [
            Answer(label="b", reason=text, reply=text),
            Answer(order="swapped", failure="format", message=text, reply=text),
        ]
        cases = [
            case(f"{text}{k}", "a", *answers, inputs={"a": text, "b": text, text: text}, tags=[text], source=text)
            for k in range(3)
        ]
        suites.append(suite(*cases, kind="pairs", suite=f"{text}{n}", model=text, prompt=text, golden=text))
    scale = {"type": "choice", "options": {text: n / len(HOSTILE) for n, text in enumerate(HOSTILE[:-1])}}
    rows = [case(str(n), text, HOSTILE[0], annotators={text: text}) for n, text in enumerate(HOSTILE[:-1])]
    suites.append(
        suite(*rows, suite="labels", scale=scale, thresholds={f"recall[{HOSTILE[4]}]": Threshold(at_least=1)})
    )
    return suites


# -- JSON -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("made", EVERY_KIND)
def test_json_is_read_back(tmp_path: Path, made: Any) -> None:
    report = made()
    path = write_report([report], tmp_path / "deep" / "report.json")
    assert read_reports(path) == [report]
    assert json.loads(path.read_text())["format"] == 1
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("made", EVERY_KIND)
def test_the_numbers_are_those_of_the_figures(made: Any) -> None:
    report = made()
    figures = figures_of(report)
    (found,) = to_dict([report])["suites"]
    assert found["figures"] == {name: interval.to_dict() for name, interval in figures.intervals.items()}
    decisions = {name: (each.outcome, each.needed) for name, each in decisions_of(report, figures).items()}
    assert {name: (each["outcome"], each["needed"]) for name, each in found["decisions"].items()} == decisions
    assert (found["confusion"] is None) == (figures.confusion is None)
    assert len(found["curve"] or []) == len(figures.curve)


def test_what_a_perturbation_did_is_counted() -> None:
    """Of 55 verdicts every seventh, from the first, is another one."""
    report = tone()
    (found,) = to_dict([report])["suites"]
    flips = found["flips"]["padding"]
    moved = [flip for flip in report.perturbations[0].verdicts if flip.after != flip.before]
    assert (flips["share"]["n"], flips["flipped"], len(flips["ids"])) == (55, 8, 8)
    up = sum(flip.after for flip in moved)
    assert flips["lifted"] == up
    assert (flips["lift"]["n"], flips["lift"]["estimate"]) == (55, pytest.approx((up - (8 - up)) / 55))
    assert to_dict([better_of_two()])["suites"][0]["flips"] == {}


def test_replies_that_are_misread_are_named(tmp_path: Path) -> None:
    checks = (
        ReplyCheck(name="plain", reply="{}", expected=True, label=True),
        ReplyCheck(name="nan", reply="{}", label=True),
    )
    reports = [tone(extractor=checks)]
    said = "the extractor misreads 1 of 2 forms of reply: nan"
    assert said in " ".join(" ".join(line.text for line in summary_lines(reports)).split())
    assert said[1:] in to_markdown(reports)
    assert said[1:] in write_report(reports, tmp_path / "r.html").read_text()
    assert "misreads" not in to_markdown([tone(extractor=checks[:1])])


def test_changes_are_in_it() -> None:
    old, new = tone(wrong=0.0), tone()
    (found,) = to_dict([new], [old])["suites"]
    expected = changes(old, new)
    assert [each["id"] for each in found["changes"]["changed"]] == [each.id for each in expected.changed]
    assert found["changes"]["paired"]["p_value"] == expected.paired.p_value
    assert set(found["changes"]["figures"]) == {each.name for each in expected.figures}
    assert "changes" not in to_dict([new], [stars()])["suites"][0]


def test_a_baseline_that_cannot_be_compared_says_why() -> None:
    (found,) = assess([tone()], [better_of_two(suite="tone")])
    assert found.changes is None
    assert found.incomparable is not None and "nothing can be compared" in found.incomparable
    assert "nothing can be compared" in " ".join(line.text for line in summary_lines([found]))
    assert "nothing can be compared" in to_markdown([found])


# -- files ------------------------------------------------------------------------------------------------------------


def test_the_ending_says_the_form(tmp_path: Path) -> None:
    assert write_report([tone()], tmp_path / "r.md").read_text().startswith("## Judge tests: 1 PASS, 1 FAIL")
    assert write_report([tone()], str(tmp_path / "r.HTML")).read_text().startswith("<!doctype html>")
    for name in ("r.txt", "r", "json"):
        with pytest.raises(GoldenError, match=r"end its name in .json, .md or .html"):
            write_report([tone()], tmp_path / name)


def test_a_file_that_is_there_is_kept_where_that_is_asked(tmp_path: Path) -> None:
    path = tmp_path / "r.md"
    path.write_text("mine")
    with pytest.raises(FileExistsError):
        write_report([tone()], path, overwrite=False)
    assert path.read_text() == "mine"
    write_report([tone()], path)
    assert path.read_text() != "mine"


def test_half_a_surrogate_pair_is_written(tmp_path: Path) -> None:
    report = suite(case("half", True, Answer(label=False, reason="\udc00"), inputs={"reply": "half \ud83d"}))
    for ending in ("json", "md", "html"):
        write_report([report], tmp_path / f"r.{ending}")
    assert read_reports(tmp_path / "r.json") == [report]


# -- the terminal -----------------------------------------------------------------------------------------------------


def test_a_summary() -> None:
    text = "\n".join(line.text for line in summary_lines([tone(wrong=0.0)]))
    assert text.startswith("tone [openai/m-1]\n  tone, version 1 on tone.golden.jsonl\n")
    assert "  60 rows: 55 agree, 0 disagree, 2 abstain, 2 without a verdict, 1 stale\n" in text
    assert "  no verdict in 2 of 59 answers: format 2\n" in text
    assert re.search(r"\n  accuracy  +0\.932  +0\.838 to 0\.973  59  PASS at least 0\.6\n", text)
    assert "FAIL flips[padding]: at most 0.05 was asked" in text
    assert "padding flipped 8 of 55 verdicts" in text
    assert "stale prompts, so nothing was asked: tone-020;" in text
    assert "60 requests sent, $0.0060" in text
    assert "refusal_rate" not in text  # none was refused


def test_it_names_the_first_disagreements_and_the_n_that_decides() -> None:
    rows = [case(f"r{n}", True, n >= 8) for n in range(40)]
    report = suite(*rows, thresholds={"accuracy": Threshold(at_least=0.75)})
    text = " ".join(" ".join(line.text for line in summary_lines([report])).split())
    needed = decisions_of(report, figures_of(report))["accuracy"].needed
    assert "disagrees: r0, r1, r2, r3, r4 and 3 more" in text
    assert f"(about {needed} would decide)" in text
    few = suite(*rows[:3], thresholds={"kappa": Threshold(at_least=0.75)})
    assert "about 10 would decide" in " ".join(" ".join(line.text for line in summary_lines([few])).split())


def test_what_changed_is_told() -> None:
    text = " ".join(" ".join(line.text for line in summary_lines([tone()], [tone(wrong=0.0)])).split())
    assert "against the baseline 12 of 59 verdicts changed" in text
    assert "difference in accuracy -0.203" in text
    assert "McNemar's exact test over 59 rows: 0 better, 12 worse" in text


@pytest.mark.parametrize("width", [60, 80, 120])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    reports = [*(made() for made in EVERY_KIND), *hostile()]
    lines = summary_lines(reports, [made(seed=9) for made in EVERY_KIND[:3]], width)
    wide = [line.text for line in lines if len(line.text) > (width if width >= 80 else 85)]
    assert wide == []
    assert all(line.text.isprintable() for line in lines)


def test_colours() -> None:
    text = summary([tone()])
    assert {str(span.style) for span in text.spans} >= {"bold", "green", "red"}
    assert text.plain == "\n".join(line.text for line in summary_lines([tone()]))


# -- Markdown ---------------------------------------------------------------------------------------------------------


def parsed(text: str) -> list[Any]:
    """What GitHub would make of it: CommonMark with HTML, and tables."""
    tokens = MarkdownIt("commonmark").enable("table").parse(text)
    return [each for token in tokens for each in (token, *(token.children or []))]


def test_text_of_a_case_is_no_markup() -> None:
    text = to_markdown(hostile())
    tokens = parsed(text)
    kinds = {token.type for token in tokens}
    assert not kinds & {"link_open", "image", "html_inline", "code_block", "blockquote_open", "bullet_list_open", "hr"}
    html = [token.content.strip() for token in tokens if token.type == "html_block"]
    assert all(re.fullmatch(r"<details><summary>[\d,]+ rows? [\w ,]*</summary>|</details>", each) for each in html)
    assert len(html) == 2 * sum("<details>" in each for each in html) > 0
    outside = "\n".join(token.content for token in tokens if token.type == "text")
    for word in ("somebody", "example", "script", "alert", "heading", "three"):
        assert word not in outside
    assert {len(row) for row in rows_of_tables(tokens)} <= {4, 7}


def rows_of_tables(tokens: list[Any]) -> list[list[Any]]:
    rows: list[list[Any]] = []
    for token in tokens:
        if token.type == "tr_open":
            rows.append([])
        elif token.type in ("td_open", "th_open"):
            rows[-1].append(token)
    return rows


@pytest.mark.parametrize("text", [*HOSTILE, "``", "a`", "\\", "|", "\\|", "x" * 100_000])
def test_a_text_is_one_code_span_in_its_cell(text: str) -> None:
    tokens = parsed(f"| a | b |\n|---|---|\n| {cell(text)} | end |\n")
    assert [len(row) for row in rows_of_tables(tokens)] == [2, 2]
    inside = [token for token in tokens if token.type == "inline"][2]
    assert [token.type for token in inside.children] == ["code_inline"]
    assert [token.type for token in parsed(code(text))][2:3] == ["code_inline"]
    fenced = [token.type for token in parsed("\n".join(fence(text)))]
    assert fenced == ["fence"]


def test_it_has_decisions_figures_changes_and_disagreements() -> None:
    text = to_markdown([tone()], [tone(wrong=0.0)])
    assert "| ✅ PASS | `accuracy` | at least 0.6 | 0.729 |" in text
    assert re.search(r"\| `kappa` \| 0\.\d{3} \| 0\.\d{3} – 0\.\d{3} \| 55 \| 1\.000 \|", text)
    assert "**12 of 59 verdicts changed** against the baseline; difference in accuracy -0.203" in text
    assert re.search(r"\| `tone-\d{3}` \| `true` \| `true` \| `false` \| worse \|", text)
    assert "<details><summary>16 rows without the gold answer</summary>" in text
    assert "why: the reply holds no verdict" in text


def test_it_fits_into_a_comment() -> None:
    long = [
        suite(*(case(f"row {n}", True, Answer(label=False, reason="r" * 9_000)) for n in range(300)), suite=name)
        for name in "abcdefgh"
    ]
    text = to_markdown(long)
    assert len(text) < 65_000
    assert "8,400 characters more]" in text
    assert "300 rows without the gold answer, the first" in text
    many = to_markdown([tone(suite=str(n)) for n in range(80)])
    assert len(many) < 65_000
    assert many.endswith("more suites are too many for a comment.\n")
