"""``halfwink``, and ``python -m halfwink``."""

from halfwink.interrupts import starting


def main() -> None:
    """Runs the command line that the process was started with, and exits with its status."""
    starting()
    # Takes a while: by now Ctrl-C has nothing to trace back.
    from halfwink.cli.main import main as run

    run()


if __name__ == "__main__":
    main()
