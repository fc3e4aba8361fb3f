"""A comparison as a page, in a real browser."""

import json
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rubrics import Evaluation, Step
from rubrics.formats import write_jsonl
from rubrics.rescoring import Page, Row, compare, compare_recorded, write_page
from tests.rescoring.runs import recording, row, row_of, tree

HOSTILE = '</script><script>document.title = "owned"</script><img src=x onerror=\'document.title = "owned"\'> & \u2028'

Open = Callable[..., Any]


def ids(page: Any) -> list[str]:
    return page.locator("#trajectories tbody td:first-child button").all_inner_texts()  # type: ignore[no-any-return]


def written(tmp_path: Path, old: list[Row], new: list[Row], **options: Any) -> Path:
    return write_page(compare(old, new), tmp_path / "page.html", **options).path


def runs() -> tuple[list[Row], list[Row]]:
    scores = {"a": (0.5, 0.9), "b": (0.5, 0.1), "c": (0.5, 0.5), "d": (0.5, None), "e": (None, 0.5), "B2": (1.0, 0.9)}
    groups = {"a": "one", "b": "one", "c": "two", "d": "two"}

    def run(side: int) -> list[Row]:
        return [
            row(id, pair[side], {"x": "error" if pair[side] is None else pair[side], "y": 1.0}, group=groups.get(id))
            for id, pair in scores.items()
        ]

    return run(0), run(1)


# --- what is in it ---------------------------------------------------------------------------------------------------


def test_the_overview(tmp_path: Path, visit: Open) -> None:
    page = visit(written(tmp_path, *runs()))
    assert page.inner_text("h1") == "What moved"
    assert page.inner_text("#runs") == "old → new, 6 trajectories"
    cards = page.locator("#counts button").all_inner_texts()
    assert [card.split("\n") for card in cards] == [
        ["▲ 1", "up"],
        ["▼ 2", "down"],
        ["1", "unchanged"],
        ["∅ 1", "newly unscored"],
        ["✓ 1", "newly scored"],
    ]
    assert "Mean of the 4 that have both: 0.625 → 0.600" in page.inner_text("#charts")
    assert "The 3 that moved; 1 unchanged are not drawn." in page.inner_text("#charts")
    assert page.locator("#charts svg[role=img]").count() == 2
    bars = page.locator("#charts .hover title").all_text_contents()
    assert len(bars) == 48
    assert "2 old, 0 new" not in bars[0]
    nodes = page.locator("#nodes tbody tr").all_inner_texts()
    assert len(nodes) == 3
    assert "0.625 → 0.600" in nodes[1]
    assert page.locator("#nodes tbody tr").nth(1).locator("td").nth(8).get_attribute("title") == "1 error"
    assert "1 group of at least two rollouts that have both rewards" in page.inner_text("#groups-about")


def test_what_the_runs_are_of_is_said(tmp_path: Path, visit: Open) -> None:
    old = [row("a", 0.5, {"x": 0.5}, rubric="r"), Row(None, "unreadable"), row("z", 1.0, content="1")]
    new = [row("a", 0.7, {"x": 0.7}, rubric="r"), row("z", 1.0, content="2")]
    notes = visit(written(tmp_path, old, new)).inner_text("#notes")
    assert "Both runs are of the same rubric" in notes
    assert "The same tree gave another number: 1 reward moved" in notes
    assert "1 record of old could not be read, and is not compared" in notes
    assert "1 id stand for other trajectories" in notes


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_the_window(tmp_path: Path, visit: Open, width: int, scheme: str) -> None:
    recordings = [recording(id, "x" * 500, "{" + "y " * 300) for id in ("a", "b" * 120)]
    old, new = ([row_of(each, reward, {"x": reward}) for each in recordings] for reward in (0.5, 0.75))
    files = [tmp_path / "r.jsonl"]
    write_jsonl(files[0], recordings)
    path = written(tmp_path, old, new, trajectories=files)
    page = visit(path, viewport={"width": width, "height": 800}, color_scheme=scheme)
    wide = "document.documentElement.scrollWidth"
    assert page.evaluate(wide) <= width
    page.click("#trajectories tbody button")
    page.wait_for_selector(".step")
    assert page.evaluate(wide) <= width
    shades = page.evaluate("getComputedStyle(document.documentElement).backgroundColor.match(/\\d+/g).map(Number)")
    assert (max(shades) < 60) == (scheme == "dark")


@pytest.mark.parametrize("width", [1280, 390])
def test_words_of_any_length_fit(tmp_path: Path, visit: Open, width: int) -> None:
    word = "w" * 5000
    said = recording(word, word)
    said.task = {word: word}
    said.steps[0] = Step({"content": word, "tool_calls": []}, {"messages": [{"role": word, "name": word}]})
    old, new = (
        row_of(said, reward, {word: reward}, reasons={word: word}, group=word, source={"path": word})
        for reward in (0, 1)
    )
    write_jsonl(tmp_path / "r.jsonl", [said])
    page = visit(
        written(tmp_path, [old], [new], trajectories=[tmp_path / "r.jsonl"]), viewport={"width": width, "height": 800}
    )
    assert page.locator("#trajectories tbody tr").bounding_box()["height"] < 200
    page.click("#trajectories tbody button")
    page.wait_for_selector(".step")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "none"


# --- the table -------------------------------------------------------------------------------------------------------


def test_an_id_may_be_empty(tmp_path: Path, visit: Open) -> None:
    page = visit(written(tmp_path, [row("", 0.5), row(" ", 0.5)], [row("", 0.6), row(" ", 0.7)]))
    assert ids(page) == ["(no id)", "(no id)"]
    page.click("text=(no id) >> nth=1")
    assert page.inner_text(".moved").split()[:3] == ["0.500", "→", "0.600"]


def test_sorting(tmp_path: Path, visit: Open) -> None:
    page = visit(written(tmp_path, *runs()))
    assert ids(page) == ["a", "b", "B2", "c", "d", "e"]  # what moved furthest first, what has no number last
    page.click("th button:text-is('new')")
    assert ids(page) == ["a", "B2", "c", "e", "b", "d"]
    assert page.locator("th[aria-sort=descending]").inner_text() == "new ↓"
    page.click("th button:text-is('new ↓')")
    assert ids(page) == ["b", "c", "e", "a", "B2", "d"]
    assert page.evaluate("document.activeElement.dataset.sort") == "new"  # so that a key sorts again
    page.keyboard.press("Enter")
    assert ids(page)[0] == "a"
    page.click("th button:text-is('trajectory')")
    assert ids(page) == ["a", "b", "B2", "c", "d", "e"]
    page.click("th button:text-is('difference')")
    assert ids(page) == ["a", "c", "B2", "b", "d", "e"]


def test_filtering(tmp_path: Path, visit: Open) -> None:
    page = visit(written(tmp_path, *runs()))
    page.fill("#text", "b")
    assert ids(page) == ["b", "B2"]
    assert page.inner_text("#found") == "2 of 6."
    page.click("#filters button[type=reset]")
    page.locator("#found", has_text="All 6.").wait_for()
    page.select_option("#way", "newly_unscored")
    assert ids(page) == ["d"]
    page.click("#counts button[data-way=down]")
    assert ids(page) == ["b", "B2"]
    assert page.get_attribute("#counts button[data-way=down]", "aria-pressed") == "true"
    page.click("#counts button[data-way=down]")
    assert len(ids(page)) == 6
    page.click("#nodes tbody tr:nth-child(3) button")
    assert ids(page) == []  # y did not change anywhere
    page.click("#nodes tbody tr:nth-child(2) button")
    assert ids(page) == ["a", "b", "B2", "d", "e"]
    page.click("#groups tbody button")
    assert ids(page) == ["a", "b"]
    page.fill("#group", "tw")
    assert ids(page) == ["d"]


def test_ten_thousand_rows_stay_quick(tmp_path: Path, visit: Open) -> None:
    old = [row(f"task-{n // 8}/{n % 8}", (n % 97) / 97, {"x": 0.5}, group=f"task-{n // 8}") for n in range(10_000)]
    new = [row(str(each.id), (n % 89) / 89, {"x": 0.5}, group=each.group) for n, each in enumerate(old)]
    started = time.monotonic()
    path = written(tmp_path, old, new)
    assert time.monotonic() - started < 60
    assert path.stat().st_size < 5_000_000
    started = time.monotonic()
    page = visit(path)
    assert time.monotonic() - started < 8
    assert len(ids(page)) == 100
    assert page.inner_text("#pages") == "Previous\n1 – 100 of 10,000\nNext"
    for act in (
        lambda: page.fill("#text", "task-77"),
        lambda: page.fill("#text", ""),
        lambda: page.click("th button:text-is('old')"),
        lambda: page.click("th button:text-is('trajectory')"),
        lambda: page.click("#pages button:text-is('Next')"),
    ):
        started = time.monotonic()
        act()
        page.evaluate("1")  # only answered when the page is done
        assert time.monotonic() - started < 3
    assert page.inner_text("#pages").split("\n")[1] == "101 – 200 of 10,000"
    assert ids(page)[0] == "task-12/4"  # numbers in names are ordered as numbers


# --- a trajectory ----------------------------------------------------------------------------------------------------


@pytest.fixture
def chats(tmp_path: Path) -> tuple[Path, list[Row], list[Row]]:
    recordings = [recording("t-1", "first text", "second text"), recording("t-2", "third text")]
    file = tmp_path / "chats.jsonl"
    write_jsonl(file, recordings)

    def run(score: float, reason: str) -> list[Row]:
        judged = tree({"": score, "judge": score, "other": 1.0}, {"judge": reason})
        judged["judge"].metadata = {"reply": f"I say {reason}", "model": "m-1", "label": 4}
        first = tree({"": 0.5, "judge": 0.5, "other": 1.0})
        source = {"path": str(file)}
        return [
            row_of(recordings[0], score, evaluation=judged, evaluations=[first, judged], source=source),
            row_of(recordings[1], 1.0, source=source),
        ]

    return file, run(0.75, "it was polite"), run(0.25, "it was rude")


def test_steps_beside_the_tree(tmp_path: Path, visit: Open, chats: Any) -> None:
    _, old, new = chats
    page = visit(written(tmp_path, old, new))
    page.click("button:text-is('t-1')")
    page.wait_for_selector("h1:text-is('t-1')")
    assert page.inner_text("#one h1") == "t-1"
    assert page.inner_text(".moved").split() == ["0.750", "→", "0.250", "−0.500", "▼", "down"]
    cards = page.locator(".step").all_inner_texts()
    assert "Find it." in cards[0]
    assert all(part in cards[1] for part in ("Step 1", "looking up first text", "look_up", "key", "first text"))
    assert page.locator(".step").nth(2).locator(".call .name").inner_text() == "look_up"
    assert "0.750 → 0.250" in page.inner_text(".record")
    judge = page.locator(".record li").nth(1)
    assert all(part in judge.inner_text() for part in ("judge", "it was polite", "it was rude"))
    assert "I say" not in judge.inner_text()
    judge.locator("summary").click()
    assert all(part in judge.inner_text() for part in ("I say it was polite", "I say it was rude", "m-1"))
    assert page.locator(".step.chosen").get_attribute("data-step") == "2"
    page.click(".step button:text-is('Step 1')")  # whose tree then stands beside it
    assert page.locator(".step.chosen").get_attribute("data-step") == "1"
    assert "it was rude" not in page.inner_text(".record")
    page.click(".steps-nav button >> nth=1")
    page.check("label:has-text('only what changed') input")
    assert [text.split("\n")[0] for text in page.locator(".record li:visible").all_inner_texts()] == [
        "(root)Leaf",
        "judgeLeaf",
    ]


def test_it_is_worked_by_keys_and_has_addresses(tmp_path: Path, visit: Open, chats: Any) -> None:
    _, old, new = chats
    path = written(tmp_path, old, new)
    page = visit(path)
    page.focus("button:text-is('t-1')")
    page.keyboard.press("Enter")
    page.wait_for_selector("#one h1")
    assert page.url.endswith("#trajectory=t-1")
    page.keyboard.press("j")
    page.wait_for_selector("h1:text-is('t-2')")
    page.keyboard.press("j")  # there is no third one
    page.keyboard.press("k")
    page.wait_for_selector("h1:text-is('t-1')")
    page.keyboard.press("Escape")
    page.wait_for_selector("#trajectories", state="visible")
    page.go_back()
    page.wait_for_selector("h1:text-is('t-1')")
    for address in ("#trajectory=nobody", "#trajectory=%E0%A4%A", "#trajectory", "#row=9", "#row=length", "#elsewhere"):
        page.evaluate(f"location.hash = '{address}'")
        page.wait_for_selector("#trajectories", state="visible")


def test_steps_that_cannot_be_shown_say_why(tmp_path: Path, visit: Open, chats: Any) -> None:
    file, old, new = chats
    file.write_text(file.read_text().replace("first text", "changed since"))
    page = visit(written(tmp_path, old, new))
    page.click("button:text-is('t-1')")
    page.wait_for_selector("h1:text-is('t-1')")
    assert f"{file} does not hold this trajectory as it was scored" in page.inner_text("#one")
    assert "it was rude" in page.inner_text("#one")


def test_a_trajectory_without_details_says_so(tmp_path: Path, visit: Open) -> None:
    page = visit(written(tmp_path, *runs(), details=1))
    assert page.inner_text("#found") == "All 6. The steps and trees of 1 are in this page."
    page.click("button:text-is('c')")
    page.wait_for_selector("h1:text-is('c')")
    assert "are not in this page" in page.inner_text("#one")
    assert page.inner_text(".moved").split() == ["0.500", "→", "0.500", "unchanged"]


def test_where_a_tree_raised_stands_beside_what_it_was(tmp_path: Path, visit: Open) -> None:
    new = row("a", None, {"x": "error"}, status="error", reason="step 1 of 1: boom", reasons={"x": "boom"})
    page = visit(written(tmp_path, [row("a", 0.5, {"x": 0.5})], [new]))
    page.click("#trajectories tbody button")
    assert page.inner_text(".why >> nth=0").split("\n") == ["newstep 1 of 1: boom"]
    assert page.inner_text(".side .about") == "Where it raised"
    assert " ".join(page.locator(".record li").nth(1).inner_text().split()) == "xLeaf 0.500 → error newboom"


def test_recorded_against_new(tmp_path: Path, visit: Open) -> None:
    run = [row("a", 0.5, {"db": 1.0, "x": 1.0}, recorded_reward=1.0, components={"db": 0.0, "said": 1.0})]
    page = visit(write_page(compare_recorded(run), tmp_path / "page.html").path)
    assert page.inner_text("#runs") == "The rewards that were recorded, against those of new, 1 trajectory"
    assert [text.split()[0] for text in page.locator("#nodes tbody tr").all_inner_texts()] == ["db", "said"]
    page.click("#trajectories tbody button")
    tree = page.locator(".record li").all_inner_texts()
    assert [" ".join(text.split()) for text in tree] == [
        "(root)Leaf 0.500",
        "dbLeaf 0 → 1",
        "xLeaf 1",
        "saidrecorded 1 (old only)",
    ]


# --- text is data ----------------------------------------------------------------------------------------------------


def test_markup_anywhere_is_shown_as_text(tmp_path: Path, visit: Open) -> None:
    said = recording(HOSTILE, HOSTILE, json.dumps({"key": HOSTILE}))
    said.task = {HOSTILE: HOSTILE}
    write_jsonl(tmp_path / "r.jsonl", [said])

    def run(score: float) -> Row:
        node = Evaluation("n", HOSTILE, "scored", score, HOSTILE + str(score), {"reply": HOSTILE, HOSTILE: [HOSTILE]})
        evaluation = Evaluation("", "Tree", "scored", score, children=[node])
        more = {"group": HOSTILE, "source": {"path": HOSTILE}, "judges": {HOSTILE: "1"}}
        return row_of(said, score, evaluation=evaluation, **more)

    diff = compare([run(0.5), row("b", 0.5, group=HOSTILE)], [run(0.25), row("b", 0.6, group=HOSTILE)])
    diff.old.name = diff.new.name = HOSTILE
    page = visit(write_page(diff, tmp_path / "page.html", trajectories=[tmp_path / "r.jsonl"]).path)
    shown = HOSTILE.replace("\u2028", "").strip()
    assert shown in page.inner_text("#runs")
    assert shown in page.inner_text("#groups")
    assert page.title().startswith(shown[:30])
    page.fill("#text", "</SCRIPT>")
    page.click("#trajectories tbody button")
    page.wait_for_selector("#one .step")
    page.click("#one summary")
    assert page.inner_text("#one").count(shown) >= 12
    assert page.locator("img, iframe, link").count() == 0
    assert page.locator("script:not([type])").count() == 1
    page.keyboard.press("Escape")
    assert shown in page.inner_text("#trajectories tbody")


def test_the_page_forbids_itself_everything_else(tmp_path: Path, browser: Any) -> None:
    context = browser.new_context()
    page = context.new_page()
    refused: list[str] = []
    page.on("console", lambda message: refused.append(message.text))
    page.goto(written(tmp_path, *runs()).as_uri())
    page.evaluate(
        """() => {
            const script = document.createElement("script");
            script.textContent = "document.title = 'owned'";
            document.body.append(script);
            document.body.insertAdjacentHTML("beforeend", "<img src=x onerror='document.title = 1'>");
            return fetch("https://example.invalid/").catch(() => null);
        }"""
    )
    assert page.title() == "old → new"
    assert len([text for text in refused if "Content Security Policy" in text]) >= 3
    context.close()


def test_half_a_surrogate_pair_is_shown(tmp_path: Path, visit: Open) -> None:
    old, new = (row("a\ud83d", score, {"x": score}, reasons={"x": "half \udc00"}) for score in (0.5, 0.6))
    page = visit(written(tmp_path, [old], [new]))
    page.click("#trajectories tbody button")
    assert "half" in page.inner_text(".record")


# --- the file, without a browser -------------------------------------------------------------------------------------


def blocks(path: Path) -> dict[str, Any]:
    found = re.findall(r'<script type="application/json" id="([^"]+)">([^<]*)</script>', path.read_text("utf-8"))
    return {name: json.loads(text) for name, text in found}


def page_of(tmp_path: Path, count: int, **options: Any) -> tuple[Page, dict[str, Any]]:
    old = [row(str(n), 0.5) for n in range(count)]
    new = [row(str(n), None if n % 5 == 0 else 0.5 + n / 1000) for n in range(count)]
    page = write_page(compare(old, new), tmp_path / "page.html", **options)
    return page, blocks(page.path)


def test_details_are_of_what_moved_most_in_every_way(tmp_path: Path) -> None:
    page, found = page_of(tmp_path, 20, details=4)
    assert sorted(name for name in found if name != "data") == ["detail-0", "detail-18", "detail-19", "detail-5"]
    assert (page.details, page.with_steps, len(page.missing)) == (4, 0, 4)
    assert page.size == page.path.stat().st_size
    page, found = page_of(tmp_path, 20, details=None, overwrite=True)
    assert page.details == 20
    page, found = page_of(tmp_path, 20, details=0, overwrite=True)
    assert list(found) == ["data"]


def test_long_texts_and_long_trajectories_are_cut(tmp_path: Path) -> None:
    long = recording("long", "s" * 10_000 + "END")
    many = recording("many", *(f"{n} " + "w" * 3000 for n in range(500)))
    many.steps[0].observation["list"] = list(range(1000))
    write_jsonl(tmp_path / "r.jsonl", [long, many])
    old, new = ([row_of(each, reward) for each in (long, many)] for reward in (0.5, 0.6))
    page = write_page(compare(old, new), tmp_path / "page.html", trajectories=[tmp_path / "r.jsonl"])
    found = blocks(page.path)
    content = found["detail-0"]["steps"][0]["observation"]["content"]
    assert "[… 6,003 characters are left out here …]" in content
    assert content.endswith("END")
    steps = found["detail-1"]["steps"]
    assert [steps[0]["step"], steps[99]["step"], steps[100]["step"], steps[-1]["step"]] == [1, 100, 401, 500]
    assert steps[0]["observation"]["list"][-1] == "… 800 more are left out"
    assert len(json.dumps(found["detail-1"])) < 600_000
    assert page.cut > 3


def test_details_that_would_make_it_too_large_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from rubrics.rescoring import report

    monkeypatch.setattr(report, "_MOST", 3_000)
    page, found = page_of(tmp_path, 20, details=None)
    assert page.details + page.left_out == 20
    assert 0 < page.details == len(found) - 1
    assert "detail-19" in found  # it moved most


def test_a_page_that_is_there_is_kept(tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text("mine")
    with pytest.raises(FileExistsError):
        page_of(tmp_path, 2)
    assert (tmp_path / "page.html").read_text() == "mine"
    page_of(tmp_path, 2, overwrite=True)
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]


def test_values_of_any_kind_are_shown(tmp_path: Path) -> None:
    from rubrics.shown import Cut

    deep: Any = "x"
    for _ in range(40):
        deep = [deep]
    odd = {"nan": float("nan"), "big": 2**70, "bytes": b"\xff", 7: {1}, "none": None, "deep": deep, "yes": True}
    value = Cut(1000).value(odd)
    assert json.loads(json.dumps(value, allow_nan=False)) == value
    assert (value["nan"], value["big"], value["bytes"], value["7"]) == ("nan", str(2**70), "b'\\xff'", "{1}")
