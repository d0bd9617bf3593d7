"""One release from its first install to its uninstall, on a real API server."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from adapters.helm.conftest import Charts, Cluster, Requests, config_map, many

from windlass.adapters.helm.client import HelmClient
from windlass.domain.errors import Actor, PermanentError, Reason
from windlass.ports import ObjectRef, ReleaseRef

pytestmark = pytest.mark.stack

OTHER = "sha256:" + "2" * 64
