"""The table of YAML forms (tests/domain/text/yaml_table.json) against the programs that it was made with."""

from __future__ import annotations

import base64
import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

from adapters.helm.scenes import write_chart

from windlass.devstack import paths
from windlass.devstack.programs.catalog import TOOLS
from windlass.devstack.programs.locate import locate
from windlass.domain.text.documents import parse_json_stream, parse_manifest

TABLE: list[dict[str, Any]] = json.loads((Path(__file__).parents[2] / "domain/text/yaml_table.json").read_text())
TEMPLATE = """
apiVersion: v1
kind: Table
metadata: {name: table}
rows:
{{ range $path, $_ := .Files.Glob "rows/*" }}
  {{ $path | quote }}: {{ $.Files.Get $path | fromYaml | toJson | b64enc | quote }}
{{ end }}
"""
OBJECT = "apiVersion: v1\nkind: Row\nmetadata: {name: row}\n"


def tool(name: str) -> Path:
    found = locate(TOOLS[name], paths.tools_dir(os.environ), os.environ).found
    assert found is not None, f"there is no {name} yet: run `windlass up` once"
    return found.path


def as_doubles(value: Any) -> Any:
    """``fromYaml`` reads numbers as doubles."""
    if isinstance(value, dict):
        return {key: as_doubles(one) for key, one in value.items()}
    if isinstance(value, list):
        return [as_doubles(one) for one in value]
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


def test_helm_reads_each_form_as_the_table_says(tmp_path: Path) -> None:
    chart = write_chart(tmp_path / "table", TEMPLATE)
    (chart / "rows").mkdir()
    for number, row in enumerate(TABLE):
        (chart / "rows" / f"{number:04}").write_bytes(row["text"].encode())

    text = subprocess.run([tool("helm"), "template", "x", chart], check=True, capture_output=True, text=True).stdout

    rows = sorted(re.findall(r'"rows/(\d+)": "([^"]*)"', text))
    assert len(rows) == len(TABLE)
    for (_, encoded), row in zip(rows, TABLE, strict=True):
        found = json.loads(base64.b64decode(encoded))
        if "error" in row:
            assert set(found) == {"Error"}, row["text"]
        else:
            assert as_doubles(found) == as_doubles(row["value"] or {}), row["text"]


def test_kubectl_reads_a_manifest_of_all_forms_as_we_do() -> None:
    texts = [row["text"] for row in TABLE if "value" in row and re.match(r"[vabckm]+:", row["text"])]
    # Rows that bring separators of their own are left to the other tests.
    parts = [OBJECT + text for text in texts if not re.search(r"^(\.\.\.|---)|\r", text, re.MULTILINE)]
    manifest = "\n---\n".join(parts)

    told = subprocess.run(
        [tool("kubectl"), "annotate", "--local", "-f", "-", "x=y", "-o", "json"],
        input=manifest.encode(),
        check=True,
        capture_output=True,
    ).stdout

    theirs = parse_json_stream(told)
    ours = parse_manifest(manifest)
    for one in (*theirs, *ours):
        one["metadata"] = {}
    assert len(ours) > 200
    assert ours == theirs
