"""Every Python block of the README and of the docs runs, and prints what the page says it prints.

The blocks of a page run in order in one namespace, as one script would, in an empty working directory:

- ```` ```python ```` runs;
- ```` ```python no-run ```` is compiled, nothing more;
- ```` ```text output ```` after a block that ran is what that block prints, to the letter.
"""

import contextlib
import io
import re
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pytest

import judges
import rubrics

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]

# Indented fences count too: they stand in admonitions, tabs and lists.
FENCE = re.compile(r"^[ \t]*(?P<fence>`{3,}|~{3,})[ \t]*(?P<info>[^`\n]*)$")


@dataclass(frozen=True)
class Block:
    """A fenced block: the words of its info string, its text, and the number of its first line."""

    info: tuple[str, ...]
    text: str
    line: int

    @property
    def is_python(self) -> bool:
        return self.info[:1] == ("python",)

    @property
    def is_output(self) -> bool:
        return self.info == ("text", "output")


def blocks(markdown: str) -> Iterator[Block]:
    opening: re.Match[str] | None = None
    lines: list[str] = []
    for number, line in enumerate(markdown.splitlines(), start=1):
        fence = FENCE.match(line)
        if opening is None:
            opening, lines = fence, []
        elif fence and fence["fence"].startswith(opening["fence"]) and not fence["info"]:
            text = textwrap.dedent("".join(f"{line}\n" for line in lines))
            yield Block(tuple(opening["info"].split()), text, number - len(lines))
            opening = None
        else:
            lines.append(line)
    if opening is not None:
        raise ValueError(f"line {number - len(lines)}: the fence is never closed")


def run_page(page: Path, namespace: dict[str, object]) -> None:
    """Run the blocks of a page. An error bears the place of the block that raised it as a note."""
    printed: str | None = None
    for block in blocks(page.read_text(encoding="utf-8")):
        try:
            if block.is_python:
                printed = run_block(block, page, namespace)
            elif block.is_output:
                assert printed is not None, "there is no output to compare: no Python block ran before this one"
                assert printed == block.text
                printed = None
        except BaseException as error:
            error.add_note(f"in the block at {page}:{block.line}")
            raise


def run_block(block: Block, page: Path, namespace: dict[str, object]) -> str | None:
    # With empty lines in front, line numbers in tracebacks are those of the page.
    code = compile("\n" * (block.line - 1) + block.text, str(page), "exec")
    if "no-run" in block.info:
        return None
    with contextlib.redirect_stdout(io.StringIO()) as stdout:
        exec(code, namespace)
    return stdout.getvalue()


@pytest.fixture
def namespace(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, object]:
    """The namespace of a new main module, in an empty working directory, before a terminal of 80 columns."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    module = ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", module)
    return vars(module)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_page(page: Path, namespace: dict[str, object]) -> None:
    run_page(page, namespace)


def page_of(folder: Path, *fenced: str) -> Path:
    page = folder / "page.md"
    page.write_text("# A page\n\n" + "\n\n".join(f"```{block}\n```" for block in fenced) + "\n", encoding="utf-8")
    return page


def test_blocks_share_a_namespace_and_print_what_the_page_says(tmp_path: Path, namespace: dict[str, object]) -> None:
    run_page(page_of(tmp_path, "python\nx = 2", "python\nprint(x)", "text output\n2"), namespace)
    assert namespace["x"] == 2


def test_a_block_that_is_not_to_run_is_compiled_only(tmp_path: Path, namespace: dict[str, object]) -> None:
    run_page(page_of(tmp_path, "python no-run\nx = 1 / 0"), namespace)
    assert "x" not in namespace
    with pytest.raises(SyntaxError):
        run_page(page_of(tmp_path, "python no-run\nx = = 1"), namespace)


def test_an_indented_block_runs(tmp_path: Path, namespace: dict[str, object]) -> None:
    page = tmp_path / "page.md"
    page.write_text("!!! note\n\n    ```python\n    if True:\n        x = 1\n    ```\n", encoding="utf-8")
    run_page(page, namespace)
    assert namespace["x"] == 1


@pytest.mark.parametrize(
    ("fenced", "error", "line"),
    [
        (("python\nx = 0\n1 / x",), ZeroDivisionError, 4),
        (("python\nprint(1)", "text output\n2"), AssertionError, 8),
        (("python\nprint(1)", "text output\n1", "text output\n1"), AssertionError, 12),
        (("python no-run\nprint(1)", "text output\n1"), AssertionError, 8),
    ],
    ids=["error", "other output", "output twice", "output of a block that did not run"],
)
def test_a_failure_names_page_and_line(
    fenced: tuple[str, ...], error: type[Exception], line: int, tmp_path: Path, namespace: dict[str, object]
) -> None:
    page = page_of(tmp_path, *fenced)
    with pytest.raises(error) as caught:
        run_page(page, namespace)
    assert caught.value.__notes__ == [f"in the block at {page}:{line}"]


def test_the_api_page_lists_every_public_name() -> None:
    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"^::: (?:rubrics|judges)\.(\w+)$", page, re.MULTILINE))
    assert sorted({*rubrics.__all__, *judges.__all__} - listed) == []
