"""The ``Chart.yaml`` that Helm gets to see, of our own making.

The digest of chart and values stands in it as an annotation. Helm stores the chart's metadata in the same write as the
revision's status, so a crash can never part "deployed" from "deployed from what". The next revision inherits nothing of
it, whoever makes that (labels of a release record are inherited).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, cast

import yaml

from windlass.adapters.helm.record import APPLIED, OWNER
from windlass.adapters.helm.staging import CHART_YAML
from windlass.domain.errors import Actor, PermanentError, Reason
from windlass.domain.text.documents import DocumentError, parse_helm

_Dumper: Final = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
"""The C one where there is one: the other takes 6 ms for a small ``Chart.yaml``, once for each release."""


def annotated(chart: Path, digest: str, *, name: str, owner: str = "") -> str:
    """Return the text of ``Chart.yaml`` with the annotations `APPLIED` and `OWNER`.

    Args:
        chart: the package's folder; with ``templates/`` but no ``Chart.yaml`` one is made up.
        digest: goes into the annotation; empty for none.
        name: the chart's name if it has to be made up.
        owner: the package that the release is for; goes in with the digest.

    Raises:
        PermanentError: APPLY_MANIFESTS_FAILED, there is no chart, or its ``Chart.yaml`` is not a YAML map.
    """
    metadata = _metadata(chart, name)
    if digest:
        ours = {APPLIED: digest, OWNER: owner} if owner else {APPLIED: digest}
        metadata["annotations"] = {**(metadata.get("annotations") or {}), **ours}
    return yaml.dump(metadata, Dumper=_Dumper, allow_unicode=True, sort_keys=False)


def _metadata(chart: Path, name: str) -> dict[str, Any]:
    file = chart / CHART_YAML
    try:
        text = file.read_bytes()
    except FileNotFoundError:
        if (chart / "templates").is_dir():
            return {"apiVersion": "v2", "name": name, "version": "0.0.0"}
        raise _broken("there is neither Chart.yaml nor templates/") from None
    except OSError as error:
        raise _broken(f"Chart.yaml cannot be read: {type(error).__name__}") from error
    try:
        loaded = parse_helm(text, typed=False)
    except DocumentError as error:
        raise _broken(f"Chart.yaml is not YAML: {error.message}") from None
    if not isinstance(loaded, dict) or not isinstance(cast("dict[str, Any]", loaded).get("annotations") or {}, dict):
        raise _broken("Chart.yaml must be a map, and its annotations too")
    return cast("dict[str, Any]", loaded)


def _broken(what: str) -> PermanentError:
    return PermanentError(
        Reason.APPLY_MANIFESTS_FAILED, f"the chart is broken: {what}", hint="correct the package", actor=Actor.AUTHOR
    )
