"""``python -m halfwink``."""

from halfwink.cli import main

main()
