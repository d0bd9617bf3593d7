from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from support.hook_package import HookPackage
from windlass.adapters.hooks.outputs import collect_output
from windlass.adapters.hooks.runfiles import (
    CONFIG_VALUES_PATCH,
    KUBERNETES_PATCH,
    METRICS,
    VALUES_PATCH,
    OutputError,
    read_outputs,
    run_files,
    unnamed_file,
)
from windlass.adapters.runner import folders
from windlass.adapters.runner.protocol import MAX_OUTPUT
from windlass.domain.hooks.metrics import Action, Sample
from windlass.domain.packages.model import Binding
from windlass.ports.hooks import HookOutput

type Written = Callable[[str, str | bytes], HookOutput]

CREATE = {"operation": "Create", "object": {"kind": "Secret"}}


class Folder:
    """The folder of a run that has ended, and what the worker is given of it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._files = run_files(HookPackage(path / "package").hook_run("true", binding=Binding.BEFORE_HELM))
        for _, name in self._files.outputs:
            (path / name).touch()

    def file(self, variable: str) -> Path:
        return self.path / dict(self._files.outputs)[variable]

    def collected(self) -> HookOutput:
        place = os.open(self.path, os.O_RDONLY)
        with unnamed_file() as descriptor:
            found = [folders.bring(place, name, 0, descriptor) for _, name in self._files.outputs]
            os.close(place)
            return collect_output(read_outputs(self._files, found, descriptor), duration=1.5)


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


@pytest.fixture
def written(folder: Folder) -> Written:
    def write(variable: str, content: str | bytes) -> HookOutput:
        folder.file(variable).write_bytes(content if isinstance(content, bytes) else content.encode())
        return folder.collected()

    return write


def test_untouched_and_removed_files_are_empty_output(folder: Folder) -> None:
    folder.file(METRICS).unlink()
    output = folder.collected()
    assert (output.values_patch, output.config_values_patch, output.operations, output.metrics) == ([], [], [], ())
    assert output.duration == 1.5


def test_values_patches_are_lists_and_single_operations_one_after_another(written: Written) -> None:
    one, two, three = ({"op": "add", "path": f"/web/{key}", "value": key} for key in "abc")
    text = json.dumps([one, two]) + json.dumps(three) + "\n[]\n"
    assert written(VALUES_PATCH, text).values_patch == [one, two, three]
    assert written(CONFIG_VALUES_PATCH, text).config_values_patch == [one, two, three]


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(CREATE) + json.dumps(CREATE),
        "operation: Create\nobject: {kind: Secret}\n---\noperation: Create\nobject:\n  kind: Secret\n",
    ],
    ids=["json", "yaml"],
)
def test_object_operations_come_as_json_or_yaml(written: Written, text: str) -> None:
    assert written(KUBERNETES_PATCH, text).operations == [CREATE, CREATE]


def test_metrics_follow_one_another(written: Written) -> None:
    text = '{"name": "a", "action": "add", "value": 1}\n{"name": "a", "add": 1}{"group": "g", "action": "expire"}'
    one = Sample(action=Action.ADD, name="a", value=1)
    assert written(METRICS, text).metrics == (one, one, Sample(action=Action.EXPIRE, group="g"))


@pytest.mark.parametrize(
    ("variable", "content", "says"),
    [
        (VALUES_PATCH, '{"op": "add"', "malformed at line 1, column 13 (byte 12)"),
        (VALUES_PATCH, "op: add\npath: /a", "malformed at line 1, column 1 (byte 0)"),
        (VALUES_PATCH, '[{"op": "add", "path": "/a"}, 5]', "item 2: expected an object with op and path"),
        (VALUES_PATCH, '{"op": "add"}', "item 1: path: expected text"),
        (VALUES_PATCH, '{"op": 1, "path": "/a"}', "item 1: op: expected text"),
        (VALUES_PATCH, b'{"op": "\xff"}', "is not UTF-8 at byte 8"),
        (KUBERNETES_PATCH, json.dumps([CREATE]), "document 1: a list, expected one operation per document"),
        (KUBERNETES_PATCH, "word", "document 1: expected an object with operation"),
        (KUBERNETES_PATCH, json.dumps(CREATE) + '{"operation": hush', "malformed at line 1, column"),
        (KUBERNETES_PATCH, "operation: Create\nobject: [hush", "malformed at line 2, column 14"),
        (METRICS, "[1]", "item 1: expected an object"),
        (METRICS, '{"name": "a", "add": 1, "set": 1}', "item 1: add and set exclude each other"),
        (METRICS, '{"name": "a", "action": "set"}', "item 1: value: expected a number"),
        (METRICS, '{"name": "a", "action": "set", "value": true}', "item 1: value: expected a number"),
        (METRICS, '{"name": "a", "add": "1"}', "item 1: add: expected a number"),
        (METRICS, '{"action": "set", "value": 1}', "item 1: name: expected text"),
        (METRICS, '{"name": "a"}', "item 1: action: expected text"),
        (METRICS, '{"name": "a", "action": "observe", "value": 1}', "item 1: buckets: expected a list of numbers"),
        (METRICS, '{"name": "a", "set": 1, "labels": {"x": 1}}', "item 1: labels: expected an object with text"),
        (VALUES_PATCH, b" " * (MAX_OUTPUT + 1), "holds more than 4194304 bytes"),
    ],
)
def test_malformed_output_is_named_by_file_and_place_without_its_content(
    written: Written, variable: str, content: str | bytes, says: str
) -> None:
    with pytest.raises(OutputError) as caught:
        written(variable, content)
    assert str(caught.value).startswith(f"{variable}: {says}")
    assert "hush" not in str(caught.value)


def test_a_link_in_place_of_a_file_is_not_followed(folder: Folder, tmp_path: Path) -> None:
    target = tmp_path / "elsewhere"
    target.write_text(json.dumps(CREATE))
    folder.file(KUBERNETES_PATCH).unlink()
    folder.file(KUBERNETES_PATCH).symlink_to(target)
    with pytest.raises(OutputError, match="cannot be read"):
        folder.collected()


def test_another_name_of_a_file_is_not_read(folder: Folder, tmp_path: Path) -> None:
    target = tmp_path / "elsewhere"
    target.write_text(json.dumps(CREATE))
    folder.file(KUBERNETES_PATCH).unlink()
    folder.file(KUBERNETES_PATCH).hardlink_to(target)
    with pytest.raises(OutputError, match="is not a plain file"):
        folder.collected()


def test_a_file_of_somebody_else_is_not_read(folder: Folder) -> None:
    if os.getuid():
        pytest.skip("gives a file away")
    os.chown(folder.file(METRICS), 4711, 4711)
    with pytest.raises(OutputError, match="is not a plain file"):
        folder.collected()


def test_a_named_pipe_in_place_of_a_file_does_not_block(folder: Folder) -> None:
    folder.file(METRICS).unlink()
    os.mkfifo(folder.file(METRICS))
    with pytest.raises(OutputError, match="is not a plain file"):
        folder.collected()


def test_a_file_that_is_too_large_takes_no_place_of_the_next_one(folder: Folder) -> None:
    folder.file(VALUES_PATCH).write_bytes(b" " * (MAX_OUTPUT + 1))
    folder.file(METRICS).write_text('{"name": "a", "set": 1}')
    with pytest.raises(OutputError, match="holds more"):
        folder.collected()
    folder.file(VALUES_PATCH).unlink()
    assert [sample.name for sample in folder.collected().metrics] == ["a"]
