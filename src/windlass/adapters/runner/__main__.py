"""``python -I -S .../runner/__main__.py CONFIG``: be a runner."""

from __future__ import annotations

import os
import sys

if __name__ == "__main__":
    # Neither packages nor the folder of the script are on the path: behind the standard library, Windlass is.
    sys.path.append(os.path.abspath(f"{__file__}/../../../.."))
    from windlass.adapters.runner.protocol import Config
    from windlass.adapters.runner.server import Runner

    Runner(Config.decode(sys.argv[1])).serve()
