"""`python -m rubrics` is the `rubrics` command."""

from rubrics.cli import main

main()
