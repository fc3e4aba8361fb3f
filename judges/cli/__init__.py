"""The `judges` command."""


def main() -> None:
    """Run the command line; what it needs is imported only now."""
    from judges.cli.app import app

    app()
