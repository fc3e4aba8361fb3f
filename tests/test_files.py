"""Files that appear whole, or not at all."""

import os
from pathlib import Path

import pytest

from rubrics.files import replacing


def test_a_file_is_replaced_by_a_whole_one_only(tmp_path: Path) -> None:
    path = tmp_path / "out.txt"
    path.write_text("old")
    with pytest.raises(ValueError, match="half way"), replacing(path) as part:
        part.write_text("ne")
        raise ValueError("half way")
    assert path.read_text() == "old"
    with replacing(path) as part:
        part.write_text("new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"
    with replacing(path):  # nothing is written
        pass
    assert path.read_text() == "new"
    assert os.listdir(tmp_path) == ["out.txt"]


def test_a_link_stays_a_link_and_a_device_a_device(tmp_path: Path) -> None:
    (tmp_path / "real.txt").write_text("old")
    link = tmp_path / "link.txt"
    link.symlink_to("real.txt")
    with replacing(link) as part:
        part.write_text("new")
    assert link.is_symlink()
    assert (tmp_path / "real.txt").read_text() == "new"
    with replacing(Path(os.devnull)) as part:
        part.write_text("x")
    assert not Path(os.devnull).is_file()


def test_an_error_names_the_path_that_was_asked_for(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught, replacing(tmp_path / "no/out.txt") as part:
        part.write_text("x")
    assert caught.value.filename == str(tmp_path / "no/out.txt")
