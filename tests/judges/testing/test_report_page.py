"""A report of judge tests as a page, in a real browser."""

import json
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from judges.testing.figures import figures_of
from judges.testing.report import write_report
from judges.testing.results import Answer, Flip, Flips, SuiteReport, Threshold
from tests.judges.testing.suites import better_of_two, case, numbers, podium, stars, suite, tone

HOSTILE = (
    '</script><script>document.title = "owned"</script> --> <!-- <img src=x onerror=\'document.title = "owned"\'> '
    "& \" ' ` \u2028 \u202e\u0645\u0631\u062d\u0628\u0627 ${1} {{ x }}"
)
Open = Callable[..., Any]


def written(tmp_path: Path, *reports: SuiteReport, **options: Any) -> Path:
    return write_report(reports, tmp_path / "report.html", **options)


def ids(page: Any) -> list[str]:
    return page.locator(".case > header h3").all_inner_texts()  # type: ignore[no-any-return]


def cells(page: Any, section: str) -> list[list[str]]:
    rows = page.locator(f"#{section} tbody tr").all()
    return [[cell.strip() for cell in row.locator("td").all_inner_texts()] for row in rows]


# --- what is in it ---------------------------------------------------------------------------------------------------


def test_the_head_and_the_counts(tmp_path: Path, visit: Open) -> None:
    page = visit(written(tmp_path, tone()))
    assert page.title() == "Judge tests: tone [openai/m-1]"
    assert page.inner_text("#runs") == "1 suite: 1 PASS 1 FAIL 1 INCONCLUSIVE"
    assert "tone, version 1" in page.inner_text("#facts")
    assert "The prompt is not the one of the snapshot for 1 row" in page.inner_text("#notes")
    assert "No verdict in 2 of 59 answers: format 2." in page.inner_text("#notes")
    page.click("#difference summary")
    assert page.inner_text("#difference pre") == "-a\n+b"
    counts = [text.split("\n") for text in page.locator("#counts button").all_inner_texts()]
    assert counts == [["43", "agrees"], ["12", "disagrees"], ["2", "abstains"], ["2", "no verdict"], ["1", "stale"]]


def test_figures_are_those_of_the_report(tmp_path: Path, visit: Open) -> None:
    report = tone()
    page = visit(written(tmp_path, report))
    shown = {row[0]: row for row in cells(page, "figures")}
    expected = figures_of(report).intervals
    assert list(shown) == list(expected)
    accuracy = expected["accuracy"]
    assert shown["accuracy"][1:3] == [f"{accuracy.estimate:.3f}", f"{accuracy.low:.3f} to {accuracy.high:.3f}"]
    drawn = page.locator("#figures tr:has-text('accuracy') >> nth=0").locator("svg .range")
    low, high = (float(drawn.get_attribute(name)) for name in ("x1", "x2"))
    assert accuracy.low is not None and accuracy.high is not None
    assert (low, high) == pytest.approx((6 + 148 * accuracy.low, 6 + 148 * accuracy.high))


def test_decisions(tmp_path: Path, visit: Open) -> None:
    page = visit(written(tmp_path, tone()))
    rows = cells(page, "decisions")
    assert [(row[0], row[1], row[2]) for row in rows] == [
        ("✓ PASS", "accuracy", "≥ 0.6"),
        ("? INCONCLUSIVE", "true_negative_rate", "≥ 0.8"),
        ("✗ FAIL", "flips[padding]", "≤ 0.05"),
    ]
    assert "would decide" in rows[1][-1]
    assert page.locator("#decisions .interval .limit").count() == 3


def test_the_pictures(tmp_path: Path, visit: Open) -> None:
    report = tone()
    figures = figures_of(report)
    assert figures.confusion is not None
    page = visit(written(tmp_path, report))
    counts = [[int(text) for text in row] for row in cells(page, "charts")[:2]]
    assert counts == [
        [*row, none] for row, none in zip(figures.confusion.counts, figures.confusion.unjudged, strict=True)
    ]
    points = page.locator("#charts .square .point title").all_text_contents()
    assert len(points) == len(figures.curve)
    assert points[0].endswith(f"n = {figures.curve[0].observed.n}")
    strips = page.locator(".strip .name").all_inner_texts()
    assert [" ".join(text.split()) for text in strips] == ["true 27 + 2 none", "false 28 + 2 none"]


def test_each_kind_has_its_own(tmp_path: Path, visit: Open) -> None:
    page = visit(written(tmp_path, better_of_two(), stars(), numbers(), podium()))
    assert [row[0].split(":")[0] for row in cells(page, "bias")] == ["position", "position", "length"]
    page.click("#suites button:has-text('stars')")
    assert page.inner_text("#title") == "stars"
    assert len(page.locator(".confusion tbody tr").all()) == 5
    assert [row[0].split(":")[0] for row in cells(page, "bias")] == ["length", "chance", "chance"]
    page.click("#suites button:has-text('numbers')")
    assert page.locator(".square .dot").count() == 60
    assert not page.locator("#bias").is_visible()
    page.click("#suites button:has-text('podium')")
    assert page.locator("#charts figure").count() == 0
    assert page.locator(".case >> nth=0").locator("tbody tr").count() == 3
    page.go_back()
    page.wait_for_selector("#title bdi:text-is('numbers')")
    for address in ("#suite=9", "#suite=length", "#elsewhere", "#suite"):
        page.evaluate(f"location.hash = '{address}'")
        page.wait_for_selector("#title bdi:text-is('better')")


def test_what_perturbations_did(tmp_path: Path, visit: Open) -> None:
    report = tone()
    page = visit(written(tmp_path, report))
    assert cells(page, "bias")[1][0] == "padding a sentence that says nothing is added"
    flipped = [flip.id for flip in report.perturbations[0].verdicts if flip.flipped]
    page.click("#bias button")
    assert ids(page) == flipped
    page.locator(".case >> nth=0").locator("summary:has-text('padding')").click()
    assert "…, and more of the same" in page.locator(".case >> nth=0").inner_text()


def test_changes_against_a_baseline(tmp_path: Path, visit: Open) -> None:
    page = visit(written(tmp_path, tone(), baseline=[tone(wrong=0.0)]))
    said = page.inner_text("#changes")
    assert "12 of 59 verdicts changed: 0 are right now and were not, 12 were right" in said
    assert "McNemar's exact test over 59 rows: 0 better, 12 worse" in said
    assert "1 row with a stale prompt: tone-020" in said
    page.click("#counts button[data-status=changed]")
    assert len(ids(page)) == 12
    card = page.locator(".case >> nth=0").inner_text()
    assert ", was " in card
    assert re.search(r"was\s*The reply", card)
    assert cells(page, "figures")[0][5] == "0.932"


# --- rows ------------------------------------------------------------------------------------------------------------


def test_rows_that_do_not_agree_come_first(tmp_path: Path, visit: Open) -> None:
    page = visit(written(tmp_path, tone()))
    assert page.inner_text("#found") == "17 of 60."
    assert len(ids(page)) == 17
    card = page.locator(".case[data-id='tone-007']").inner_text()
    assert "gold false, judged no verdict (format)" in card
    assert "the reply holds no verdict" in card
    assert "ann: false" in card
    page.click(".case[data-id='tone-007'] summary")
    assert "I think it is fine." in page.locator(".case[data-id='tone-007']").inner_text()


def test_filtering(tmp_path: Path, visit: Open) -> None:
    page = visit(written(tmp_path, tone()))
    page.select_option("#status", "abstains")
    assert ids(page) == ["tone-011", "tone-052"]
    assert page.get_attribute("#counts button[data-status=abstains]", "aria-pressed") == "true"
    page.click("#filters button[type=reset]")
    page.locator("#found", has_text="All 60.").wait_for()
    assert len(ids(page)) == 20
    assert page.inner_text("#pages").split("\n")[1] == "1 – 20 of 60"
    page.click("#pages button:has-text('Next')")
    assert ids(page)[0] == "tone-020"
    page.select_option("#tag", "short")
    assert all("short" in text for text in page.locator(".case .facts").all_inner_texts()[::2])
    page.select_option("#tag", "")
    page.fill("#text", "WHO CAN")  # in a reason
    assert ids(page) == ["tone-011", "tone-052"]
    page.fill("#text", "tone-01")
    assert len(ids(page)) == 10
    page.click("#counts button[data-status=disagrees]")
    assert page.input_value("#text") == ""
    assert len(ids(page)) == 12


def test_a_cell_shows_its_rows(tmp_path: Path, visit: Open) -> None:
    report = tone()
    page = visit(written(tmp_path, report))
    page.click(".confusion .wrong button >> nth=0")
    wrong = [each.row.id for each in report.cases if each.row.gold is True and each.said() is False]
    assert ids(page) == wrong
    assert [page.input_value(f"#{name}") for name in ("gold", "judged")] == ["true", "false"]


def test_candidates_of_a_pair_stand_side_by_side(tmp_path: Path, visit: Open) -> None:
    page = visit(written(tmp_path, better_of_two()))
    card = page.locator(".case >> nth=0")
    a, b = (box.bounding_box() for box in card.locator(".candidate").all())
    assert a["y"] == b["y"]
    assert a["x"] + a["width"] < b["x"]
    assert card.locator(".candidate.gold").count() == 1
    assert len(card.locator(".answer").all()) == 2
    assert "swapped:" in card.inner_text()


def test_a_conversation_is_shown_as_one(tmp_path: Path, visit: Open) -> None:
    chat = [{"role": "user", "content": "Where is it?"}, {"role": "assistant", "content": "On its way."}]
    page = visit(written(tmp_path, suite(case("chat", True, False, inputs={"chat": chat}))))
    assert page.locator(".case .role").all_inner_texts() == ["user", "assistant"]
    assert page.inner_text(".case .said >> nth=1") == "On its way."


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_the_window(tmp_path: Path, visit: Open, width: int, scheme: str) -> None:
    word = "w" * 5000
    answers = [Answer(label=word, reason=word, reply=word, score=0.5), Answer(failure="format", message=word, sample=1)]
    scale = {"type": "choice", "options": {word: 0.5, "x": 1.0}}
    row = case(word, "x", *answers, inputs={word: word}, tags=[word], source=word, annotators={word: word})
    flips = Flips(name=word, description=word, verdicts=(Flip(id=word, before=word, after="x", changed=word),))
    long = suite(row, suite=word, model=word, prompt=word, golden=word, scale=scale, perturbations=(flips,))
    pair = case("pair", "a", Answer(label="b"), inputs={"a": word, "b": word})
    reports = [long, suite(pair, kind="pairs"), tone(), podium()]
    page = visit(written(tmp_path, *reports), viewport={"width": width, "height": 800}, color_scheme=scheme)
    for n in range(len(reports)):
        page.evaluate(f"location.hash = 'suite={n}'")
        page.wait_for_selector(f"#suites button:nth-child({n + 1})[aria-pressed=true]")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    shades = page.evaluate("getComputedStyle(document.documentElement).backgroundColor.match(/\\d+/g).map(Number)")
    assert (max(shades) < 60) == (scheme == "dark")


# --- text is data ----------------------------------------------------------------------------------------------------


def hostile() -> list[SuiteReport]:
    """Suites whose every text is markup."""
    answer = Answer(label=HOSTILE, score=0.0, reason=HOSTILE, reply=HOSTILE, probabilities=[(HOSTILE, 0.9)])
    failed = Answer(sample=1, failure="format", message=HOSTILE, reply=HOSTILE)
    more = {"tags": [HOSTILE], "source": HOSTILE, "annotators": {HOSTILE: HOSTILE}}
    row = case(HOSTILE, "x", answer, failed, inputs={HOSTILE: HOSTILE, "object": {HOSTILE: [HOSTILE]}}, **more)
    flips = Flips(
        name=HOSTILE,
        description=HOSTILE,
        threshold=Threshold(at_most=0.1),
        verdicts=(Flip(id=HOSTILE, before=HOSTILE, after="x", changed=HOSTILE),),
    )
    names = {"suite": HOSTILE, "model": HOSTILE, "prompt": HOSTILE, "golden": HOSTILE, "path": HOSTILE}
    scale = {"type": "choice", "options": {HOSTILE: 0.0, "x": 1.0}}
    pair = case(HOSTILE, "a", answer.model_copy(update={"label": "b"}), inputs={"a": HOSTILE, "b": HOSTILE})
    return [suite(row, scale=scale, perturbations=(flips,), **names), suite(pair, kind="pairs", **names)]


def test_markup_anywhere_is_shown_as_text(tmp_path: Path, visit: Open) -> None:
    page = visit(written(tmp_path, *hostile(), baseline=hostile()))
    shown = " ".join(HOSTILE.split())
    for n in range(2):
        page.evaluate(f"location.hash = 'suite={n}'")
        page.wait_for_selector(f"#suites button:nth-child({n + 1})[aria-pressed=true]")
        for summary in page.locator("summary:visible").all():
            summary.click()
        text = " ".join(page.inner_text("main").split())
        assert text.count(shown) >= (20 if n == 0 else 9)
        page.fill("#text", "</SCRIPT>")
        assert len(ids(page)) == 1
    assert page.locator("img, iframe, link").count() == 0
    assert page.locator("script:not([type])").count() == 1


def test_the_page_forbids_itself_everything_else(tmp_path: Path, browser: Any) -> None:
    context = browser.new_context()
    page = context.new_page()
    refused: list[str] = []
    page.on("console", lambda message: refused.append(message.text))
    page.goto(written(tmp_path, tone()).as_uri())
    page.evaluate(
        """() => {
            const script = document.createElement("script");
            script.textContent = "document.title = 'owned'";
            document.body.append(script);
            document.body.insertAdjacentHTML("beforeend", "<img src=x onerror='document.title = 1'>");
            return fetch("https://example.invalid/").catch(() => null);
        }"""
    )
    assert page.title() == "Judge tests: tone [openai/m-1]"
    assert len([text for text in refused if "Content Security Policy" in text]) >= 3
    context.close()


# --- size ------------------------------------------------------------------------------------------------------------


def data_of(path: Path) -> dict[str, Any]:
    (found,) = re.findall(r'<script type="application/json" id="data">([^<]*)</script>', path.read_text("utf-8"))
    return json.loads(found)  # type: ignore[no-any-return]


def test_long_texts_are_cut_with_a_note(tmp_path: Path, visit: Open) -> None:
    long = "a" * 99_997 + "END"
    rows = [case("long", True, Answer(label=False, reason=long, reply=long), inputs={"reply": long})]
    path = written(tmp_path, suite(*rows))
    assert path.stat().st_size < 100_000
    page = visit(path)
    assert page.inner_text("#found") == "All 1. 3 long texts are cut, with a note in each."
    assert "[… 96,000 characters are left out here …]" in page.inner_text(".case")


def test_rows_that_agree_are_cut_shorter_and_left_out_first(tmp_path: Path) -> None:
    text = "t" * 5_000
    rows = [case(str(n), True, n % 100 != 0, inputs={"reply": f"{n} {text}"}) for n in range(2_000)]
    path = written(tmp_path, suite(*rows))
    assert path.stat().st_size < 2_500_000
    (found,) = data_of(path)["suites"]
    assert found["left_out"] == 0
    lengths = {row["status"]: len(row["inputs"]["reply"]) for row in found["cases"]}
    assert lengths["disagrees"] > 2 * lengths["agrees"]
    many = [case(str(n), True, n % 100 != 0, inputs={"reply": f"{n} {text}"}) for n in range(20_000)]
    (found,) = data_of(written(tmp_path, suite(*many)))["suites"]
    assert found["left_out"] > 0
    assert sum(row["status"] == "disagrees" for row in found["cases"]) == 200
    assert len(found["cases"]) + found["left_out"] == 20_000


def test_a_thousand_rows_stay_quick(tmp_path: Path, visit: Open) -> None:
    path = written(tmp_path, tone(1000), baseline=[tone(1000, wrong=0.3)])
    assert path.stat().st_size < 2_500_000
    started = time.monotonic()
    page = visit(path)
    assert time.monotonic() - started < 8
    for act in (
        lambda: page.select_option("#status", ""),
        lambda: page.fill("#text", "tone-77"),
        lambda: page.fill("#text", ""),
        lambda: page.click("#pages button:has-text('Next')"),
    ):
        started = time.monotonic()
        act()
        page.evaluate("1")  # only answered when the page is done
        assert time.monotonic() - started < 3
