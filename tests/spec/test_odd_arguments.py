"""Arguments of less usual types are written and read back, or refused in words."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from rubrics import Map, Rubric, SpecError, dump, fingerprint, load
from rubrics.spec import dumps, loads
from tests.spec import odd_graders as odd

OWN = ["tests.spec.odd_graders", "math", "builtins"]


@pytest.mark.parametrize(
    "tree",
    [
        odd.ByPlace(1),
        odd.ByPlace(1, 5, third=4),
        odd.ByLevel({odd.Level.LOW: 1, odd.Level.HIGH: 2}),
        odd.Limited(odd.Limits(high=3)),
        odd.Paired(odd.Pair(1), Counter("aab")),
        odd.Several(["a", "b"], [1]),
        Map(odd.Half(), math.sqrt),
        Map(odd.Half(), abs),
    ],
    ids=lambda tree: type(tree).__name__,
)
def test_each_is_itself_again(tree: Rubric) -> None:
    read = loads(dumps(tree), allow_import=OWN)
    assert fingerprint(read) == fingerprint(tree)
    for name, value in vars(tree).items():
        if not name.startswith("_") and not isinstance(value, Rubric):
            kept = getattr(read, name)
            assert (kept, type(kept)) == (value, type(value))


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        (odd.OfArray(), "values: a ndarray cannot be written to a file"),
        (odd.Bonus([odd.Half()], [1.0]), "the root: Bonus does not keep its argument 'rubrics'"),
        (odd.Several([b"\xff"]), "words.0: a bytes cannot be written to a file"),  # type: ignore[list-item]
    ],
)
def test_others_are_refused_in_words(tree: Rubric, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        dumps(tree)


def test_a_path_stays_the_path_whatever_folder_the_tree_is_written_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "below").mkdir()
    (tmp_path / "words.txt").touch()
    tree: Any = odd.OfFile(Path("words.txt"))
    for file in ("below/tree.yaml", "tree.yaml", "below/tree.json"):
        dump(tree, file)
        tree = load(file, allow_import=OWN)
        assert tree.path.resolve() == tmp_path / "words.txt"
