"""Folders, formats that are no JSON, and readers of other packages."""

import json
import os
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rubrics.formats import FormatProblem, Source, formats, read, reader, registry
from rubrics.trajectory import Trajectory


@pytest.fixture(autouse=True)
def only_built_in(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The readers that other tests may have registered are not seen, and those of a test go with it."""
    known = formats()
    monkeypatch.setattr(registry, "_readers", {name: known[name] for name in ("jsonl", "tau-bench")})
    yield
    registry._load_entry_points.cache_clear()


def write(path: Path, *ids: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps({"id": id, "steps": []}) + "\n" for id in ids))
    return path


def ids(path: Path | list[Path], format: str | None = None) -> tuple[list[str], list[str]]:
    items = list(read(path, format))
    return [i.id for i in items if isinstance(i, Trajectory)], [str(i) for i in items if isinstance(i, FormatProblem)]


def test_a_folder_is_walked_in_the_order_of_its_names(tmp_path: Path) -> None:
    write(tmp_path / "b" / "2.jsonl", "b2")
    write(tmp_path / "b" / "10.jsonl", "b10")
    write(tmp_path / "c.json", "c")
    write(tmp_path / "a.ndjson", "a", "b2")
    write(tmp_path / ".hidden.jsonl", "h")
    write(tmp_path / ".cache" / "x.jsonl", "x")
    for sidecar in ("metadata.json", "b/config.json"):
        (tmp_path / sidecar).write_text('{\n "model": "m"\n}\n')
    (tmp_path / "list.json").write_text("[]")
    for other in ("notes.md", "run.log", "plot.png", "settings.toml", "steps.txt"):
        (tmp_path / other).write_bytes(b"\x89 anything")
    assert ids(tmp_path) == (["a", "b2", "b10", "b2#2", "c"], [])


def test_what_looks_like_a_recording_and_is_none_is_a_problem(tmp_path: Path) -> None:
    write(tmp_path / "good.jsonl", "a")
    (tmp_path / "odd.jsonl").write_text('{"model": "m"}\n')
    (tmp_path / "cut.json").write_text('{"id": "a",\n')
    (tmp_path / "run.eval").write_bytes(b"PK\x03\x04\xff\xff")
    trajectories, problems = ids(tmp_path)
    assert trajectories == ["a"]
    assert [problem.split(": ")[0].removeprefix(f"{tmp_path}/") for problem in problems] == [
        "cut.json:1",
        "odd.jsonl:1",
        "run.eval:1",
    ]


@pytest.mark.parametrize("name", [None, "notes.md", "metadata.json"])
def test_a_folder_with_nothing_to_read_is_a_problem(tmp_path: Path, name: str | None) -> None:
    if name:
        (tmp_path / name).write_text("{}")
    message = "there is nothing in this folder of a known format: jsonl, tau-bench"
    assert ids(tmp_path) == ([], [f"{tmp_path}: {message}"])


def test_a_format_chooses_among_the_files_of_a_folder(tmp_path: Path) -> None:
    write(tmp_path / "a.jsonl", "a")
    assert ids(tmp_path, "jsonl") == (["a"], [])
    message = "there is nothing in this folder of the format 'tau-bench'"
    assert ids(tmp_path, "tau-bench") == ([], [f"{tmp_path}: {message}"])


def test_a_link_to_the_folder_above_is_not_followed_forever(tmp_path: Path) -> None:
    write(tmp_path / "in" / "a.jsonl", "a")
    (tmp_path / "in" / "loop").symlink_to(tmp_path, target_is_directory=True)
    assert ids(tmp_path) == (["a"], [])


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="root may read everything")
def test_a_folder_that_may_not_be_read_hides_no_other(tmp_path: Path) -> None:
    write(tmp_path / "z.jsonl", "z")
    closed = tmp_path / "closed"
    closed.mkdir(mode=0)
    assert ids(tmp_path) == (["z"], [f"{closed}: cannot be read: Permission denied"])


def test_a_format_may_take_a_folder_as_a_whole(tmp_path: Path) -> None:
    @reader("trial", folder=lambda path: (path / "trial.txt").is_file())
    def read_trial(source: Source) -> Iterator[Trajectory]:
        """Trials."""
        yield Trajectory(source.path.name)

    for name in ("two", "one"):
        write(tmp_path / name / "inner.jsonl", "inner")
        (tmp_path / name / "trial.txt").touch()
    write(tmp_path / "a.jsonl", "a")
    assert ids(tmp_path) == (["a", "one", "two"], [])
    assert ids(tmp_path / "one") == (["one"], [])
    assert ids(tmp_path, "jsonl") == (["a", "inner", "inner#2"], [])


def test_a_format_may_go_by_the_first_bytes(tmp_path: Path) -> None:
    @reader("bits", sniff=lambda head: head.startswith(b"BITS"))
    def read_bits(source: Source) -> Iterator[Trajectory]:
        """Bits."""
        with source.open() as file:
            yield Trajectory(file.read().decode())

    (tmp_path / "a.eval").write_bytes(b"BITS 1")
    assert ids(tmp_path) == (["BITS 1"], [])


def test_a_folder_that_nobody_may_look_into_is_said_to_be_that(tmp_path: Path) -> None:
    def closed(folder: Path) -> bool:
        raise PermissionError(13, "Permission denied")

    @reader("nosy", folder=closed)
    def read_nosy(source: Source) -> Iterator[Trajectory]:
        """Nosy."""
        yield Trajectory("x")

    assert ids(tmp_path) == ([], [f"{tmp_path}: cannot be read: Permission denied"])


def test_a_format_that_cannot_tell_costs_its_file_and_no_other(tmp_path: Path) -> None:
    def names(record: dict[str, object]) -> bool:
        return "name" in record

    @reader("sloppy", detect=names)
    def read_sloppy(source: Source) -> Iterator[Trajectory]:
        """Sloppy."""
        yield Trajectory("x")

    (tmp_path / "3.jsonl").write_text("3\n")
    write(tmp_path / "a.jsonl", "a")
    trajectories, (problem,) = ids(tmp_path)
    assert trajectories == ["a"]
    assert "the format 'sloppy' cannot tell whether this is its own: TypeError" in problem


# --- other packages --------------------------------------------------------------------------------------------------

Install = Callable[[str, str, str], None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Makes a package with an entry point, as an installer would."""
    site = tmp_path / "site"
    site.mkdir()
    monkeypatch.syspath_prepend(str(site))
    registry._load_entry_points.cache_clear()

    def install(package: str, target: str, code: str) -> None:
        (site / f"{package}.py").write_text(code)
        info = site / f"{package}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[rubrics.formats]\n{package} = {target}\n")

    return install


CODE = """
from rubrics.formats import reader
from rubrics.trajectory import Trajectory

@reader("{0}", detect=lambda record: isinstance(record, dict) and "{0}" in record)
def read_it(source):
    "Another package's."
    return source.each(lambda record: Trajectory(record.value["{0}"]))
"""


def test_readers_of_other_packages_are_known_without_an_import(tmp_path: Path, install: Install) -> None:
    install("moves_a", "moves_a", CODE.format("chess"))
    install("moves_b", "moves_b:read_it", CODE.format("go"))
    (tmp_path / "games.jsonl").write_text('{"chess": "c-1"}\n')
    (tmp_path / "more.jsonl").write_text('{"go": "g-1"}\n')
    assert ids([tmp_path / "games.jsonl", tmp_path / "more.jsonl"]) == (["c-1", "g-1"], [])


def test_a_package_that_does_not_import_is_named_once_and_hides_nothing(tmp_path: Path, install: Install) -> None:
    install("moves_c", "moves_c", "raise RuntimeError('no board')")
    install("moves_d", "moves_d", CODE.format("shogi"))
    with pytest.warns(UserWarning, match="the format 'moves_c' of moves_c is not available: RuntimeError: no board"):
        assert "shogi" in formats()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert "jsonl" in formats()
