"""`python -m judges` is the `judges` command."""

from judges.cli import main

main()
