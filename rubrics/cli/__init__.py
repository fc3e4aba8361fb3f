"""The `rubrics` command."""


def main() -> None:
    """Run the command line; what it needs is imported only now."""
    from rubrics.cli.app import app

    app()
