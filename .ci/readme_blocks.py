"""Print the n-th shell block (counted from 1) of a Markdown file: `python3 .ci/readme_blocks.py README.md 2`.

A shell block is a fenced block marked sh, bash, shell or console. CI runs the README's commands through this, so what
the README says is what was run. Standard library only: it runs before anything is installed.
"""

import re
import sys
from pathlib import Path

FENCE = re.compile(r"^ {0,3}(?P<fence>`{3,}|~{3,})[ \t]*(?P<info>[^\n]*)$")
LANGUAGES = {"sh", "bash", "shell", "console"}


def shell_blocks(markdown: str) -> list[str]:
    blocks: list[str] = []
    opened, language, lines = "", "", []
    for line in markdown.splitlines():
        match = FENCE.match(line)
        if not opened:
            if match:
                opened, lines = match["fence"], []
                language = (match["info"].split() or [""])[0].lower()
        elif match and match["fence"].startswith(opened) and not match["info"]:
            if language in LANGUAGES:
                # A prompt belongs to a console session, not to the command.
                blocks.append("\n".join(line.removeprefix("$ ") for line in lines))
            opened = ""
        else:
            lines.append(line)
    return blocks


def main(path: str, number: str) -> None:
    blocks = shell_blocks(Path(path).read_text(encoding="utf-8"))
    if not 1 <= int(number) <= len(blocks):
        marks = ", ".join(sorted(LANGUAGES))
        raise SystemExit(f"{path}: no shell block number {number}; {len(blocks)} fence(s) are marked {marks}")
    print(blocks[int(number) - 1])


if __name__ == "__main__":
    main(*sys.argv[1:])
