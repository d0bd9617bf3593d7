"""Far too much of everything: a typed error on the object, nothing half-written, and the worker lives on."""

from __future__ import annotations

import gzip
import json
import os
import tarfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from support.installation import Installation, condition, write_package
from support.running import packages, running
from windlass.devstack.stack import Stack
from windlass.domain.errors import Actor, PermanentError, Reason

COUNT = """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .Release.Name }}
data:
  keys: {{ omit .Values "global" | len | quote }}
"""


@pytest.fixture(scope="module")
async def installation(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Installation]:
    async with running(stack, tmp_path_factory.mktemp("big")) as made:
        write_package(
            packages(made),
            "counted",
            "1.0.0",
            templates={"count.yaml": COUNT},
            extra={"openapi/settings.yaml": "type: object\nadditionalProperties: {type: string}\n"},
        )
        yield made


def many(path: Path, thousands: int) -> None:
    """Write an archive of so many thousand folders, whose names do not compress to nothing: no bomb, just many."""
    plain = tarfile.TarInfo("0" * 16)
    plain.type = tarfile.DIRTYPE
    header = bytearray(plain.tobuf(tarfile.USTAR_FORMAT))
    # The checksum counts its own field as spaces (POSIX ustar).
    rest = sum(header[16:148]) + 8 * ord(" ") + sum(header[156:])
    block = bytearray()
    for _ in range(1000):
        header[:16] = os.urandom(8).hex().encode()
        header[148:156] = b"%06o\0 " % (rest + sum(header[:16]))
        block += header
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(bytes(block), 1) * thousands + gzip.compress(bytes(1024)))


async def test_an_archive_of_a_million_entries(installation: Installation) -> None:
    archive = packages(installation) / "huge/1.0.0.tgz"
    many(archive, 1000)
    with gzip.open(archive) as unzipped:
        assert unzipped.seek(0, os.SEEK_END) == 1_000_000 * 512 + 1024
    await installation.application("huge", "huge", "1.0.0")
    obj = await installation.status("huge", lambda status: status.get("failure"), within=60)
    failure = obj["status"]["failure"]
    assert (failure["reason"], failure["actor"]) == ("ArchiveRejected", "author")
    assert "is entry 20001; at most 20000 are allowed" in failure["message"]
    assert "WINDLASS_MAX_PACKAGE_FILES" in failure["hint"]
    assert condition(obj, "ReadyOnFilesystem")["reason"] == "ArchiveRejected"
    caches = [path for path in installation.folder.rglob("packages/cache/*") if path.name != ".lock"]
    await installation.application("small", "counted", "1.0.0", settings={"a": "1"})
    await installation.ready("small", "1.0.0")
    assert caches == []


def settings(size: int) -> dict[str, str]:
    return {"a": "x" * size}


@pytest.mark.parametrize("size", [1_700_000, 5_000_000], ids=["etcd", "api-server"])
async def test_settings_that_the_cluster_does_not_store(installation: Installation, size: int) -> None:
    with pytest.raises(PermanentError) as refused:
        await installation.application("stuffed", "counted", "1.0.0", settings=settings(size))
    assert (refused.value.reason, refused.value.actor) == (Reason.API_REJECTED, Actor.USER)
    assert "bytes; the cluster stores about 1572864 of one object at most" in refused.value.message
    assert "spec.valuesFrom" in refused.value.hint
    assert "xxx" not in str(refused.value)
    assert await installation.object("stuffed") is None


async def test_settings_of_a_megabyte_in_the_object_itself(installation: Installation) -> None:
    await installation.application("heavy", "counted", "1.0.0", settings=settings(1_000_000))
    await installation.ready("heavy", "1.0.0", within=60)


async def referring(installation: Installation, name: str, *texts: str) -> None:
    """Create an Application whose settings come from as many ConfigMaps."""
    entries: list[dict[str, str]] = []
    for number, text in enumerate(texts):
        entries.append({"kind": "ConfigMap", "name": f"{name}-{number}"})
        content = {"values.yaml": json.dumps({f"key{number}": text})}
        metadata = {"name": f"{name}-{number}", "namespace": installation.namespace}
        await installation.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": content})
    await installation.application(name, "counted", "1.0.0", valuesFrom=entries)


async def test_five_megabytes_of_settings_by_reference(installation: Installation) -> None:
    await referring(installation, "spread", *["x" * 900_000] * 6)
    await installation.ready("spread", "1.0.0", within=60)
    shown = await installation.get("ConfigMap", "spread")
    assert shown is not None
    assert shown["data"] == {"keys": "6"}


async def test_five_megabytes_that_do_not_compress_are_refused_whole(installation: Installation) -> None:
    await referring(installation, "noise", *(os.urandom(450_000).hex() for _ in range(6)))
    obj = await installation.status("noise", lambda status: status.get("failure"), within=60)
    failure = obj["status"]["failure"]
    assert (failure["reason"], failure["actor"]) == ("StateRejected", "user")
    assert "a Secret holds 1000000" in failure["message"]
    assert await installation.release("noise") == {}
    await installation.application("noise", "counted", "1.0.0", settings={"a": "1"}, valuesFrom=[])
    await installation.ready("noise", "1.0.0")


async def test_a_megabyte_of_yaml_is_read(installation: Installation) -> None:
    metadata = {"name": "big-values", "namespace": installation.namespace}
    data = {"values.yaml": "a: " + "x" * 900_000}
    await installation.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})
    values = [{"kind": "ConfigMap", "name": "big-values"}]
    await installation.application("yaml", "counted", "1.0.0", valuesFrom=values)
    await installation.ready("yaml", "1.0.0")
