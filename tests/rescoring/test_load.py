"""Rubrics and types named on a command line."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rubrics import Rubric, WeightedSum
from rubrics.modules import load_module
from rubrics.rescoring import LoadError, load_rubric, load_types

RUBRIC = """
from dataclasses import dataclass

from rubrics import Rubric

@dataclass
class Act:
    text: str

class Leaf(Rubric):
    def forward(self, action, observation):
        return 1.0

class Needs(Leaf):
    def __init__(self, what):
        super().__init__()

def make_rubric():
    return Leaf()

def other():
    return {"a": 1}

def fails():
    raise KeyError("model")

async def later():
    return Leaf()

def misused():
    from rubrics import WeightedSum
    return WeightedSum({"leaf": Leaf()}, weights={"twig": 1.0})

rubric = Leaf()
number = 3
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield tmp_path
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[name]


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


@pytest.mark.parametrize("name", ["make_rubric", "rubric", "Leaf"])
def test_a_factory_a_tree_or_a_class(folder: Path, name: str) -> None:
    path = write(folder / "mine.py", RUBRIC)
    for where in (str(path), "mine.py", "./mine.py"):
        assert type(load_rubric(f"{where}:{name}")).__name__ == "Leaf"
    assert type(load_rubric("mine:" + name)).__name__ == "Leaf"


def test_make_rubric_and_then_rubric_are_looked_for(folder: Path) -> None:
    write(folder / "a.py", RUBRIC + "def make_rubric():\n    return Needs(1)\n")
    write(folder / "b.py", RUBRIC.replace("make_rubric", "build"))
    assert type(load_rubric("a.py")).__name__ == "Needs"
    assert type(load_rubric("b.py")).__name__ == "Leaf"
    write(folder / "c.py", "from rubrics import Rubric\ndef build():\n    pass\nx = 1\n")
    with pytest.raises(LoadError, match=r"c\.py has neither make_rubric nor rubric; name one of: build$"):
        load_rubric("c.py")


def test_dotted_modules_of_the_working_directory(folder: Path) -> None:
    write(folder / "pack/__init__.py", "")
    write(folder / "pack/tree.py", RUBRIC)
    assert type(load_rubric("pack.tree:make_rubric")).__name__ == "Leaf"
    assert "pack.tree" in sys.modules


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("mine.py:nothing", r"mine\.py has no 'nothing'; it has: Act, Leaf, Needs, make_rubric, other, fails,"),
        ("mine.py:other", r"mine\.py:other\(\) returned a dict, not a Rubric"),
        ("mine.py:later", r"mine\.py:later\(\) returned a coroutine, not a Rubric"),
        ("mine.py:number", r"mine\.py:number is neither a Rubric nor a function that returns one, but an int"),
        ("mine.py:fails", r"mine\.py:fails\(\) raised .*mine\.py:\d+: KeyError: 'model'"),
        ("mine.py:misused", r"mine\.py:misused\(\) raised [^ ]*mine\.py:32: \w+: .*twig"),
        ("mine.py:Needs", r"mine\.py:Needs\(\) raised TypeError: .*'what'"),
        ("mine.py:", r"'mine\.py:' names nothing behind the colon"),
        ("absent.py:make_rubric", r"there is no file absent\.py"),
        ("absent.module:make_rubric", r"absent\.module does not import: ModuleNotFoundError: No module named 'absent'"),
    ],
)  # fmt: skip
def test_what_cannot_be_loaded_says_why(folder: Path, name: str, message: str) -> None:
    write(folder / "mine.py", RUBRIC)
    with pytest.raises(LoadError, match=message):
        load_rubric(name)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1\n\ny = 1 / 0\n", r"bad\.py does not import: {folder}/bad\.py:3: ZeroDivisionError: division by zero"),
        ("x = 1\ndef f(:\n", r"bad\.py does not import: {folder}/bad\.py:2: SyntaxError: "),
        ("import nowhere\n", r"bad\.py:1: ModuleNotFoundError: No module named 'nowhere'"),
        ("import sys\nsys.exit(3)\n", r"bad\.py:2: SystemExit: 3"),
        ("import neighbour\n", r"neighbour\.py:2: NameError"),
    ],
)
def test_a_file_that_does_not_import_says_where(folder: Path, text: str, message: str) -> None:
    write(folder / "bad.py", text)
    write(folder / "neighbour.py", "\nprint(unknown)\n")
    known = set(sys.modules)
    with pytest.raises(LoadError, match=message.format(folder=folder)):
        load_rubric("bad.py:make_rubric")
    assert {name for name in set(sys.modules) - known if name.startswith("bad")} == set()


def test_a_file_does_not_take_the_name_of_a_module(folder: Path) -> None:
    import json

    write(folder / "sub/json.py", RUBRIC)
    write(folder / "other/json.py", RUBRIC.replace("Leaf", "Tree"))
    assert type(load_rubric("sub/json.py:make_rubric")).__name__ == "Leaf"
    assert type(load_rubric("other/json.py:make_rubric")).__name__ == "Tree"
    assert sys.modules["json"] is json


def test_a_file_may_import_its_neighbours_at_once_and_later(folder: Path) -> None:
    write(folder / "sub/near.py", "value = 0.5\n")
    write(folder / "sub/late.py", "value = 0.25\n")
    write(
        folder / "sub/mine.py",
        "import near\n"
        "from rubrics import Rubric\n"
        "class Leaf(Rubric):\n"
        "    def forward(self, action, observation):\n"
        "        import late\n"
        "        return near.value + late.value\n"
        "rubric = Leaf()\n",
    )
    rubric = load_rubric("sub/mine.py")
    assert rubric(1, 2) == 0.75
    assert str(folder / "sub") not in sys.path[: len(sys.path) - 1]


def test_a_file_is_run_once_until_it_changes(folder: Path) -> None:
    path = write(folder / "mine.py", RUBRIC)
    assert load_module("mine.py") is load_module(str(path))
    assert type(load_rubric("mine.py:Leaf")) is type(load_rubric("mine.py:make_rubric"))
    write(path, RUBRIC + "class New(Leaf):\n    pass\n")
    assert type(load_rubric("mine.py:New")).__name__ == "New"


def test_types(folder: Path) -> None:
    write(folder / "mine.py", RUBRIC)
    act = load_module("mine.py").Act
    assert load_types("mine.py:Act,Leaf").action is act
    assert load_types("mine.py:Act,").observation is None
    assert load_types("mine.py:, Act").observation is act
    for bad in ("mine.py", "mine.py:Act", "mine.py:,", "mine.py:Act,Leaf,Needs", ":Act,Leaf"):
        with pytest.raises(LoadError, match="types are given as"):
            load_types(bad)
    with pytest.raises(LoadError, match=r"mine\.py:number is no class, but an int"):
        load_types("mine.py:Act,number")
    with pytest.raises(LoadError, match=r"mine\.py has no 'Obs'"):
        load_types("mine.py:Act,Obs")


def test_the_library_can_be_named_like_anything_else() -> None:
    with pytest.raises(LoadError, match=r"rubrics:WeightedSum\(\) raised TypeError"):
        load_rubric("rubrics:WeightedSum")
    assert issubclass(WeightedSum, Rubric)
