"""``python -m windlass``: the command line without its console script."""

from windlass.cli.main import main

main()
