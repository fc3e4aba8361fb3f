"""Fingerprints: what changes them, and what does not."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings

from judges import Binary, Checklist, Judge, Likert, LLMJudge, ScriptedClient
from rubrics import EqualSplit, Gate, Map, Rubric, Sequential, TrajectoryRubric, WeightedSum, fingerprinting
from rubrics.fingerprinting import fingerprint, fingerprints
from rubrics.rescoring import load_rubric
from tests.leaves import Fixed
from tests.random_trees import build, plain, specs


class Leaf(Rubric):
    def __init__(self, bound):
        super().__init__()
        self.bound = bound

    def forward(self, action, observation):
        return float(action <= self.bound)


class Whole(TrajectoryRubric):
    def score_trajectory(self, trajectory):
        return 1.0


def tree(weight=0.5, bound=3, prompt="Is it polite?\n{{ action | untrusted }}", model="m", **judge):
    leaf = LLMJudge(prompt, judge.pop("scale", Binary()), model=model, **judge)
    return WeightedSum({"short": Leaf(bound), "polite": leaf}, {"short": weight, "polite": 1 - weight})


def test_equal_trees_have_one_fingerprint():
    assert fingerprint(tree()) == fingerprint(tree())
    assert len(fingerprint(tree())) == 32


def test_it_does_not_change_by_use():
    used = tree(client=ScriptedClient({"reason": "r", "score": True}))
    before = fingerprint(used)
    used.evaluate_sync(1, {"text": "Good day"})
    assert fingerprint(used) == before


@pytest.mark.parametrize(
    "other",
    [
        tree(weight=0.25),
        tree(bound=4),
        tree(prompt="Is it short?\n{{ action | untrusted }}"),
        tree(model="n"),
        tree(scale=Likert(1, 5)),
        tree(sampling={"temperature": 0}),
        tree(max_tokens=10),
        tree(samples=3),
        tree(reason=False),
        tree(on_failure="unscored"),
    ],
)
def test_what_can_change_a_score_changes_it(other):
    assert fingerprint(other) != fingerprint(tree())


def test_what_only_costs_time_or_money_does_not():
    assert fingerprint(tree(timeout=5.0, retries=0, concurrency=2, api_key="secret")) == fingerprint(tree())


def test_only_the_nodes_on_the_way_to_a_change_change():
    before, after = fingerprints(tree()), fingerprints(tree(bound=4))
    assert {path for path in before if before[path] != after[path]} == {"", "short"}


def test_order_matters_where_it_decides_what_is_asked():
    first, second = Leaf(1), Leaf(2)
    assert fingerprint(Sequential(first, second)) != fingerprint(Sequential(second, first))
    one = WeightedSum({"a": first, "b": second}, {"a": 0.5, "b": 0.5})
    other = WeightedSum({"b": second, "a": first}, {"b": 0.5, "a": 0.5})
    assert fingerprint(one) == fingerprint(other)


def test_credits_thresholds_and_functions_count():
    assert fingerprint(Whole(credit=EqualSplit())) != fingerprint(Whole())
    assert fingerprint(Gate(Leaf(1), 0.5)) != fingerprint(Gate(Leaf(1), 0.6))
    half, third = Map(Leaf(1), lambda score: score / 2), Map(Leaf(1), lambda score: score / 3)
    assert fingerprint(half) != fingerprint(third)
    halves = [Map(Leaf(1), lambda score: score / 2), Map(Leaf(1), lambda score: score / 2)]
    assert fingerprint(halves[0]) == fingerprint(halves[1])


def test_what_a_function_encloses_counts():
    def scaled(by):
        return Map(Leaf(1), lambda score: score * by)

    assert fingerprint(scaled(0.5)) == fingerprint(scaled(0.5)) != fingerprint(scaled(0.25))


def test_arrays_sets_and_patterns_count():
    def of(value):
        return fingerprint(Leaf(value))

    assert of(np.arange(3)) == of(np.arange(3)) != of(np.arange(4))
    assert of({"a", "b"}) == of({"b", "a"}) != of({"a"})
    assert of({"a": 1, "b": 2}) == of({"b": 2, "a": 1}) != of({"a": 1, "b": 3})
    held = Leaf(None)
    held.bound = [held.__dict__]  # holds itself
    assert fingerprint(held)


def test_checklists_in_one_call_count():
    def of(*criteria, **options):
        return fingerprints(Checklist(list(criteria), model="m", calls="all", **options))

    assert of("a", "b") == of("a", "b")
    assert of("a", "c")["criterion_1"] != of("a", "b")["criterion_1"]


def test_a_ready_made_judge_counts_like_its_parts():
    made = Judge("Is it polite?\n{{ action | untrusted }}", Binary(), model="m")
    assert fingerprint(LLMJudge(made)) == fingerprint(
        LLMJudge("Is it polite?\n{{ action | untrusted }}", Binary(), model="m")
    )


@settings(max_examples=60, deadline=None)
@given(specs)
def test_every_tree_has_one(spec):
    made = build(spec, plain)
    found = fingerprints(made)
    assert set(found) == {"", *(path for path, _ in made.named_rubrics())}
    assert fingerprints(made) == found


def test_a_shared_constant_is_one_leaf():
    leaf = Fixed(0.5)
    both = fingerprints(WeightedSum({"a": leaf, "b": leaf}, {"a": 0.5, "b": 0.5}))
    assert both["a"] == both["b"]


# -- source ----------------------------------------------------------------------------------------------------------

SOURCE = """
from rubrics import Rubric
from helpers import bonus

LIMIT = 10

def length(text):
    return len(text)

class Short(Rubric):
    def forward(self, action, observation):
        x = length(action)
        return float(x < LIMIT) + bonus(x)

def make_rubric():
    return Short()
"""
HELPERS = "def bonus(x):\n    return 0.0\n"


def printed(folder: Path, source: str, helpers: str = HELPERS) -> str:
    """The fingerprint that a fresh interpreter gives."""
    folder.mkdir()
    (folder / "helpers.py").write_text(helpers)
    (folder / "legal.py").write_text(textwrap.dedent(source))
    code = (
        "import sys; from rubrics.rescoring import load_rubric; from rubrics.fingerprinting import fingerprint\n"
        "print(fingerprint(load_rubric(sys.argv[1])))"
    )
    command = [sys.executable, "-c", code, str(folder / "legal.py")]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def test_source_counts_and_comments_do_not(tmp_path):
    first = printed(tmp_path / "first", SOURCE)
    commented = SOURCE.replace("x = length(action)", '"""What it does."""\n        x = length(action)  # long or not')
    assert printed(tmp_path / "commented", commented) == first
    assert printed(tmp_path / "limit", SOURCE.replace("LIMIT = 10", "LIMIT = 11")) != first
    assert printed(tmp_path / "helper", SOURCE.replace("len(text)", "len(text) + 1")) != first
    assert printed(tmp_path / "neighbour", SOURCE, HELPERS.replace("0.0", "0.1")) != first
    assert printed(tmp_path / "unused", SOURCE + "\nOTHER = 1\n") == first


def test_a_global_that_changes_counts_by_what_it_was_made_of(tmp_path):
    cached = SOURCE.replace("LIMIT = 10", "LIMIT = 10\nWORDS = ['a', 'b']\nSEEN = {}").replace(
        "x = length(action)", "x = length(action) + len(WORDS) + len(SEEN)"
    )
    first = printed(tmp_path / "first", cached)
    assert printed(tmp_path / "words", cached.replace("['a', 'b']", "['a', 'c']")) != first
    assert printed(tmp_path / "used", cached + "\nSEEN['x'] = 1\n") == first


def test_code_without_source_has_one_too():
    names: dict[str, type] = {}
    exec(
        "from rubrics import Rubric\nclass Typed(Rubric):\n    def forward(self, action, observation): return 1.0",
        names,
    )
    assert fingerprint(names["Typed"]()) == fingerprint(names["Typed"]())


def test_the_content_of_tables_and_arrays_counts_and_equal_ones_are_equal():
    polars, pandas = pytest.importorskip("polars"), pytest.importorskip("pandas")

    def objects(last):
        return np.array([{"k": "".join(["a", "b"])}, *["x" * 9] * 2000, last], dtype=object)

    for made in (
        lambda last: np.array([*range(5000), last]),
        objects,
        lambda last: pandas.DataFrame({"n": [*range(5000), last], "t": ["x"] * 5001}),
        lambda last: pandas.DataFrame({"n": [1.0]}, index=[last]),
        lambda last: pandas.Series([*range(5000), last]),
        lambda last: polars.DataFrame({"n": [*range(5000), last], "t": ["x"] * 5001}),
        lambda last: polars.Series([*range(5000), last]),
    ):
        assert fingerprint(Leaf(made(1))) == fingerprint(Leaf(made(1)))
        assert fingerprint(Leaf(made(1))) != fingerprint(Leaf(made(2)))
    one, other = pandas.DataFrame({"a": [1]}), pandas.DataFrame({"b": [1]})
    assert fingerprint(Leaf(one)) != fingerprint(Leaf(other))


def test_the_content_of_tensors_counts():
    class Tensor:
        """As far as a fingerprint looks at one of PyTorch."""

        def __init__(self, values):
            self.values, self.dtype = np.array(values), "torch.float64"

        detach = cpu = lambda self: self
        numpy = lambda self: self.values  # noqa: E731

        def __repr__(self):
            return "tensor([0., 1., ..., 9.])"

    assert fingerprint(Leaf(Tensor([1.0, 2.0]))) == fingerprint(Leaf(Tensor([1.0, 2.0])))
    assert fingerprint(Leaf(Tensor([1.0, 2.0]))) != fingerprint(Leaf(Tensor([1.0, 3.0])))


def test_the_source_of_an_installed_node_counts(tmp_path, monkeypatch):
    path = tmp_path / "own.py"
    known = fingerprinting._module_installed

    def found(source):
        path.write_text(source)
        tree = load_rubric(str(path))
        own = type(tree).__module__
        monkeypatch.setattr(fingerprinting, "_module_installed", lambda name, file: name == own or known(name, file))
        return fingerprint(tree)

    source = "from rubrics import Rubric\nclass Own(Rubric):\n    def forward(self, a, o): return 1.0\nrubric = Own()\n"
    first = found(source)
    assert found(source.replace("1.0", "1.0  # a comment")) == first
    assert found(source.replace("1.0", "0.75")) != first
