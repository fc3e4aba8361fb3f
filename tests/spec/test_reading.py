"""Reading files: what is wrong is said with its line and path, and nothing runs that was not allowed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rubrics import Gate, Rubric, Sequential, SpecError, WeightedSum, fingerprint, load
from rubrics.spec import KindError, loads, register
from tests.spec.graders import Fixed

OWN = ["tests.spec.graders"]
FIXED = "tests.spec.graders:Fixed"


def faults(text: str, **options: Any) -> list[str]:
    with pytest.raises(SpecError) as raised:
        loads(text, where="x.yaml", **options)
    return str(raised.value).splitlines()


def test_all_faults_are_told_at_once_with_their_lines() -> None:
    text = f"""\
kind: Sequential
rubrics:
  a: {{kind: Gat, rubric: 3}}
  b:
    kind: Gate
    rubric: 3
  c:
    kind: Gate
    rubric: {{kind: AllOf, rubrics: []}}
    threshold: yes
  no: {{kind: Clip, rubric: {{kind: {FIXED}}}, low: 2, high: 1e-1}}
  d: {{kind: WeightedSum, weigths: [1], rubrics: [{{kind: {FIXED}}}]}}
  e: {{kind: WeightedSum, weights: {{a: heavy, b: 1}}, rubrics: {{a: {{kind: {FIXED}}}}}}}
  f: {{rubrics: []}}
  g: {{kind: 3}}
"""
    assert faults(text, allow_import=OWN) == [
        "x.yaml:3: rubrics.a.kind: there is no kind 'Gat'; did you mean Gate? (a class of your own is module:Class)",
        "x.yaml:6: rubrics.b.rubric: a node is a mapping with a kind, such as {kind: WeightedSum, …}",
        "x.yaml:10: rubrics.c.threshold: it must be a number, not 'yes'",
        "x.yaml:9: rubrics.c.rubric: AllOf: there are no children; the rule says nothing about none",
        "x.yaml:11: rubrics.no: Clip: low (2.0) is above high (0.1)",
        "x.yaml:12: rubrics.d: WeightedSum needs the argument 'weights'",
        "x.yaml:12: rubrics.d.weigths: WeightedSum has no argument 'weigths'; did you mean weights?",
        "x.yaml:13: rubrics.e.weights.a: it must be a number, not 'heavy'",
        "x.yaml:14: rubrics.f: a kind is missing: {kind: …} names what it is",
        "x.yaml:15: rubrics.g.kind: a kind is a text, not 3",
    ]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "x.yaml: the file is empty; it holds a node, such as {kind: WeightedSum, …}"),
        ("- 1", "x.yaml:1: a file holds a node, {kind: …}, not [1]"),
        ("{}", "x.yaml:1: a kind is missing: {kind: …} names what it is"),
        ("kind: [", "x.yaml:1: it is no YAML"),
        ("a: 1\nkind: Gate\na: 2", "x.yaml:3: the key 'a' stands there twice"),
        ("kind: Gate\n? [1]\n: 2", "x.yaml:2: a key is a text"),
        ("kind: Gate\nrubric:\n  <<: {kind: Gate}", "x.yaml:3: '<<', which merges mappings, is no part of YAML 1.2"),
        ("kind: !!python/object/apply:os.system [ls]", "x.yaml:1: it is no YAML: could not determine a constructor"),
        ("kind: Invert\nrubric: {$ref: a}", "x.yaml:2: rubric.$ref: no node above has the $id 'a'; there is none"),
        ("kind: Invert\nrubric: {$ref: a, kind: Gate}", "x.yaml:2: rubric: beside $ref there is nothing else"),
        (
            "kind: Map\nrubric: {kind: Sequential}\nfunction: math.sqrt",
            "x.yaml:3: function: a path into the step begins",
        ),
        ("kind: Switch\nkey: action.tool\nrubrics: {}", "x.yaml:1: Switch: there are no cases"),
        (
            "kind: Sequential\nrubrics: 3",
            "x.yaml:2: rubrics: it must be a valid array or an object, not 3",
        ),
        ("kind: Sequential\n$id: [1]", "x.yaml:2: $id: an $id is a text that no other node has, not [1]"),
        ("kind: WeightedSum\nrubrics: []\nweights: [.nan]", "x.yaml:3: weights[0]: it must be a number, not '.nan'"),
    ],
)
def test_what_is_wrong(text: str, fault: str) -> None:
    assert faults(text)[0].startswith(fault)


@pytest.mark.parametrize(
    ("number", "fault"),
    [
        ("!!float .nan", "'.nan' is no finite number"),
        ("1e400", "'1e400' is no finite number"),
        ("9" * 5000, "'999"),
        ("!!bool abc", "'abc' is no boolean"),
        ("!!int ''", "'' is no whole number"),
        ("!!timestamp 2024-01-01", "could not determine a constructor"),
        ("!!timestamp abc", "could not determine a constructor"),
        ("!!binary aGVsbG8=", "could not determine a constructor"),
        ('"\0"', "a file holds no character '\\x00'"),
    ],
)
def test_what_no_argument_can_be_is_told_with_its_line(number: str, fault: str) -> None:
    text = f"kind: Gate\nrubric: {{kind: Sequential}}\nthreshold: {number}"
    assert faults(text)[0].startswith(f"x.yaml:3: it is no YAML: {fault}")


@pytest.mark.parametrize(("text", "number"), [("010", 10), ("08", 8), ("0o10", 8), ("0x1F", 31), ("1E1", 10)])
def test_numbers_are_those_of_yaml_1_2(text: str, number: float) -> None:
    tree = loads(f"kind: Gate\nrubric: {{kind: Sequential}}\nthreshold: {text}")
    assert tree.threshold == number  # type: ignore[attr-defined]


def test_aliases_may_not_multiply() -> None:
    bomb = "a0: &a0 [1, 1, 1, 1]\n" + "".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 12))
    assert faults(bomb)[0].endswith("its aliases stand for more than 1,000,000 values")
    assert faults("kind: &a [*a]") == ["x.yaml:1: an alias stands for something that it is a part of"]
    assert faults("kind: &a {x: {y: *a}}")[0].endswith("an alias stands for something that it is a part of")
    tree = loads("kind: Sequential\nrubrics: [&one {kind: Sequential}, *one]")
    assert len(list(tree.children())) == 2 and tree[0] is not tree[1]  # type: ignore[index]
    assert faults("[" * 5000)[0].startswith("x.yaml: it is no YAML") or faults("[" * 5000)


def test_an_id_is_given_once() -> None:
    text = "kind: Sequential\nrubrics:\n- {kind: Sequential, $id: a}\n- {kind: Sequential, $id: a}"
    assert faults(text) == ["x.yaml:4: rubrics[1].$id: an $id is a text that no other node has, not 'a'"]


def test_faults_of_a_node_and_of_those_below_it_are_told_together() -> None:
    text = """\
kind: WeightedSum
weights: {a: half, b: 0.5}
wheights: {}
rubrics:
  a: {kind: Gate, $id: shared, rubric: {kind: Sequentail}, threshold: x}
  b: {kind: Invert, rubric: {$ref: shared}}
  c: {kind: Invert, rubric: {$ref: other}}
"""
    assert [fault.split(",")[0].split(";")[0] for fault in faults(text)] == [
        "x.yaml:2: weights.a: it must be a number",
        "x.yaml:3: wheights: WeightedSum has no argument 'wheights'",
        "x.yaml:5: rubrics.a.threshold: it must be a number",
        "x.yaml:5: rubrics.a.rubric.kind: there is no kind 'Sequentail'",
        "x.yaml:7: rubrics.c.rubric.$ref: no node above has the $id 'other'",
    ]


def test_a_file_of_json(tmp_path: Path) -> None:
    path = tmp_path / "tree.json"
    path.write_text('{\n\t"kind": "Gate",\n\t"rubric": {"kind": "Sequential"},\n\t"threshold": "x\u2028"\n}')
    with pytest.raises(SpecError, match=r"tree\.json:4: threshold: it must be a number"):
        load(path)
    path.write_text('{"kind": "Gate",\n}')
    with pytest.raises(SpecError, match=r"tree\.json:2: it is no JSON"):
        load(path)
    for number in ("NaN", "-Infinity", "1e999"):
        path.write_text(f'{{"kind": "Gate", "rubric": {{"kind": "Sequential"}},\n"threshold": {number}}}')
        with pytest.raises(SpecError, match=rf"tree\.json:2: it is no JSON: '{number}' is no finite number"):
            load(path)
    path.write_text('{"kind": "Gate", "kind": "Clip"}')
    with pytest.raises(SpecError, match=r"tree\.json:1: the key 'kind' stands there twice"):
        load(path)
    path.write_text('{"$schema": "rubric.schema.json", "kind": "Gate", "rubric": {"kind": "Sequential"}}')
    assert isinstance(load(path), Gate)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"no\.yaml: No such file or directory"):
        load(tmp_path / "no.yaml")
    with pytest.raises(SpecError, match=r"a tree is kept in a file that ends in \.yaml"):
        load(tmp_path / "no.toml")


def test_order_comments_and_quotes_do_not_matter() -> None:
    one = loads(
        f"kind: WeightedSum\nweights: [1, 0]\nrubrics: [{{kind: {FIXED}, value: 0.5}}, {{kind: Sequential}}]",
        allow_import=OWN,
    )
    other = loads(
        "# a comment\nrubrics:  # another\n- value: 5e-1\n  'kind': "
        f"'{FIXED}'\n- kind: Sequential\nweights:\n- 1\n- 0\nkind: \"WeightedSum\"\n",
        allow_import=OWN,
    )
    assert fingerprint(one) == fingerprint(other)


def test_a_child_may_be_called_like_a_number_or_a_boolean() -> None:
    tree = loads("kind: Sequential\nrubrics: {no: {kind: Sequential}, 1: {kind: Sequential}, null: {kind: Sequential}}")
    assert [name for name, _ in tree.named_children()] == ["no", "1", "null"]


# -- what is imported -------------------------------------------------------------------------------------------------


def own_module(folder: Path, name: str = "own.py") -> Path:
    path = folder / name
    path.write_text(
        "from pathlib import Path\nfrom rubrics import Rubric\n"
        f"Path({str(folder / 'ran')!r}).write_text('')\n"
        "class Grade(Rubric):\n"
        "    def __init__(self, level: int = 1):\n        super().__init__()\n        self.level = level\n"
        "    def forward(self, action, observation):\n        return float(len(action) > self.level)\n"
        "def half(value):\n    return value / 2\n"
    )
    return path


def test_nothing_is_imported_that_was_not_allowed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = own_module(tmp_path, "own_unseen.py")
    monkeypatch.syspath_prepend(tmp_path)
    path = tmp_path / "tree.yaml"
    for named in ("own_unseen", "own_unseen.py"):
        path.write_text(f"kind: Map\nrubric: {{kind: {named}:Grade}}\nfunction: {named}:half")
        with pytest.raises(SpecError) as raised:
            load(path)
        said = str(module) if named.endswith(".py") else named
        assert str(raised.value).splitlines() == [
            f"{path}:{place}: {named}:{name} is code, and {named} is not allowed: pass allow_import=[{said!r}], or "
            f"--allow-import {said}"
            for place, name in (("2: rubric.kind", "Grade"), ("3: function", "half"))
        ]
    assert "own_unseen" not in sys.modules and not (tmp_path / "ran").exists()
    assert load(path, allow_import=[str(module)])("abc", None) == 0.5
    path.write_text("kind: own_unseen:Grade\nlevel: 5")
    assert load(path, allow_import=["own_unseen"])("abc", None) == 0.0


def test_modules_that_are_imported_already_must_be_allowed_too() -> None:
    assert "is code, and os is not allowed" in faults("kind: Map\nrubric: {kind: Sequential}\nfunction: os:getenv")[0]
    assert (
        "is code, and tests.spec.graders is not allowed"
        in faults(f"kind: {FIXED}", allow_import=["tests.spec.other"])[0]
    )


def test_a_file_is_allowed_by_its_path_not_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in (tmp_path, tmp_path / "foreign"):
        folder.mkdir(exist_ok=True)
        own_module(folder, "own.py")
        (folder / "tree.yaml").write_text("kind: own.py:Grade")
    monkeypatch.chdir(tmp_path)
    load("tree.yaml", allow_import=["own.py"])
    with pytest.raises(SpecError, match=r"pass allow_import=\['foreign/own.py'\], or --allow-import foreign/own.py"):
        load("foreign/tree.yaml", allow_import=["own.py"])
    assert not (tmp_path / "foreign" / "ran").exists()
    load("foreign/tree.yaml", allow_import=["foreign/own.py"])


def test_what_an_allowed_module_imports_is_not_allowed_by_that() -> None:
    text = "kind: Map\nrubric: {kind: Sequential}\nfunction: tests.spec.graders:math.sqrt"
    assert faults(text, allow_import=OWN) == [
        "x.yaml:3: function: tests.spec.graders:math.sqrt is code of math, which tests.spec.graders imports; "
        "it is not allowed"
    ]
    assert loads(text, allow_import=[*OWN, "math"])(None, None) == 1.0
    assert loads("kind: tests:spec.graders.Fixed", allow_import=["tests"])(None, None) == 1.0


def test_a_package_allows_its_modules() -> None:
    assert isinstance(loads(f"kind: {FIXED}", allow_import=["tests"]), Fixed)
    assert faults("kind: testsuite.x:Fixed", allow_import=["tests"])


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("kind: tests.spec.graders:Nothing", "x.yaml:1: kind: tests.spec.graders has no 'Nothing'"),
        ("kind: tests.spec.graders:half", "x.yaml:1: kind: tests.spec.graders:half is no class of rubrics"),
        ("kind: tests.absent:A", "x.yaml:1: kind: tests.absent does not import: ModuleNotFoundError"),
        (
            "kind: tests.spec.graders:Loose",
            "x.yaml:1: tests.spec.graders:Loose takes **options, which a file cannot give",
        ),
        (f"kind: {FIXED}\nvalue: true", "x.yaml:2: value: it must be a number, not True"),
        ("kind: tests.spec.graders:Twice", "x.yaml:1: tests.spec.graders:Twice needs the argument 'value'"),
        (
            "kind: tests.spec.graders:Last\ncredit: {kind: Discounted, gamma: 2}",
            "x.yaml:2: credit: gamma is 2: give a number from 0 to 1",
        ),
        (
            "kind: tests.spec.graders:Last\ncredit: Discount",
            "x.yaml:2: credit: there is no kind 'Discount'; did you mean Discounted?",
        ),
    ],
)
def test_what_is_wrong_with_classes_of_ones_own(text: str, fault: str) -> None:
    assert faults(text, allow_import=[*OWN, "tests.absent"])[0].startswith(fault)


def test_a_class_can_be_registered() -> None:
    @register
    class Registered(Rubric):
        def forward(self, action: Any, observation: Any) -> float:
            return 0.5

    assert loads("kind: Registered")(None, None) == 0.5
    assert register(Registered) is Registered
    with pytest.raises(KindError, match="the kind 'Gate' is rubrics"):
        register(type("Gate", (Registered,), {}))


def test_reading_a_file_imports_no_judges() -> None:
    code = (
        "import sys; from rubrics.spec import loads; loads('kind: Sequential'); "
        "print([name for name in sys.modules if name.partition('.')[0] in ('judges', 'litellm')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_example_of_the_docs_of_the_package() -> None:
    tree = loads(
        "kind: WeightedSum\nweights: {a: 0.25, b: 0.75}\nrubrics: {a: {kind: Sequential}, b: {kind: Sequential}}"
    )
    assert isinstance(tree, WeightedSum) and isinstance(tree.a, Sequential) and tree.weights == [0.25, 0.75]
    assert json.loads(json.dumps(tree("x", "y"))) == 1.0
