from __future__ import annotations

import dataclasses
import itertools
import json
import socket
import subprocess
from pathlib import Path

import pytest

from windlass.devstack import clusters, credentials, nats, parts, paths, ports
from windlass.devstack.control_plane import ControlPlane
from windlass.devstack.plan import PORTS, Plan
from windlass.devstack.programs.catalog import TOOLS
from windlass.temporal.codec_token import token_at


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    credentials.ensure(tmp_path / "pki")
    token_at(tmp_path / "codec-token")
    return make(tmp_path)


def make(folder: Path, **changes: str) -> Plan:
    return Plan(
        run_id="1",
        data_dir=str(folder),
        tools={name: f"/programs/{name}" for name, tool in TOOLS.items() if not tool.optional},
        versions=dict.fromkeys([*TOOLS, "windlass"], "1"),
        ports={name: 20_000 + number for number, name in enumerate(PORTS)},
        search_attributes={"Colour": "Keyword", "Done": "Bool"},
        crds=str(paths.crds_dir()),
        **changes,  # type: ignore[arg-type]  # all of them texts
    )


def test_every_server_binds_to_loopback_only(plan: Plan) -> None:
    for part in parts.of(plan):
        assert part.once or "127.0.0.1" in part.address
        assert not any("0.0.0.0" in argument for argument in part.argv)  # noqa: S104 - absence is the point


def test_temporal_gets_search_attributes_and_the_decode_endpoint_with_its_token(plan: Plan) -> None:
    argv = parts.of(plan)[0].argv
    pairs = set(itertools.pairwise(argv))
    assert {("--search-attribute", "Colour=Keyword"), ("--search-attribute", "Done=Bool")} <= pairs
    token = plan.codec_token_file.read_text()
    assert ("--ui-codec-endpoint", f"http://127.0.0.1:{plan.ports['codec']}/{token}") in pairs
    assert {("--sqlite-pragma", "journal_mode=wal"), ("--sqlite-pragma", "synchronous=normal")} <= pairs


def test_no_other_part_is_told_the_token(plan: Plan) -> None:
    token = plan.codec_token_file.read_text()
    told = [part.name for part in parts.of(plan) if any(token in argument for argument in part.argv)]
    assert told == ["temporal"]
    assert token not in plan.save().read_text()


@pytest.mark.parametrize("named", ["WINDLASS_KEYRING_FILE", "WINDLASS_KEYRING"])
def test_the_decode_endpoint_uses_the_keyring_that_workers_use(
    plan: Plan, named: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    codec = next(part for part in parts.of(plan) if part.name == "codec")
    assert codec.env == {"WINDLASS_KEYRING_FILE": str(plan.keyring)}
    monkeypatch.setenv(named, "somewhere")
    codec = next(part for part in parts.of(plan) if part.name == "codec")
    assert codec.env == {}


def test_what_people_bring_is_left_out_and_what_they_ask_for_is_there(plan: Plan, tmp_path: Path) -> None:
    token_at(tmp_path / "codec-token")
    names = [part.name for part in parts.of(make(tmp_path, external_kubeconfig="/k", external_temporal="t:7233"))]
    assert names == ["objects", "crds"]
    names = [part.name for part in parts.of(make(tmp_path, external_kubeconfig="/k"))]
    assert names == ["temporal", "codec", "objects", "crds"]
    with_registry = dataclasses.replace(plan, tools={**plan.tools, "registry": "/programs/registry"})
    assert "registry" in [part.name for part in parts.of(with_registry)]
    with_nats = dataclasses.replace(plan, tools={**plan.tools, "nats-server": "/programs/nats-server"})
    assert "nats" in [part.name for part in parts.of(with_nats)]
    objects = next(part for part in parts.of(make(tmp_path, external_kubeconfig="/k")) if part.name == "objects")
    assert "--kubeconfig=/k" in objects.argv
    assert not any("simulated" in argument for argument in objects.argv)


def test_nats_keeps_its_password_to_itself_and_speaks_tls(plan: Plan) -> None:
    chosen = dataclasses.replace(plan, tools={**plan.tools, "nats-server": "/programs/nats-server"})
    nats.write_config(chosen)
    password = nats.password_file(chosen.folder).read_text()
    config = json.loads(nats.config_file(chosen.folder).read_text())
    assert config["authorization"] == {"user": "windlass", "password": password}
    assert config["listen"] == f"127.0.0.1:{plan.ports['nats']}"
    assert config["tls"]["cert_file"] == str(plan.folder / "pki" / "serving.crt")
    assert config["jetstream"]["store_dir"].startswith(str(plan.folder))
    for file in (nats.password_file(chosen.folder), nats.config_file(chosen.folder)):
        assert file.stat().st_mode & 0o777 == 0o600
    assert not any(password in argument for part in parts.of(chosen) for argument in part.argv)
    nats.write_config(chosen)
    assert nats.password_file(chosen.folder).read_text() == password


def test_needs_name_parts_that_come_before(plan: Plan) -> None:
    names = [part.name for part in parts.of(plan)]
    assert len(names) == len(set(names))
    assert {need for part in parts.of(plan) for need in part.needs} <= set(names)


def test_clients_settings_do_not_reach_the_parts() -> None:
    inherited = {
        "PATH": "/bin",
        "KUBECONFIG": "k",
        "TEMPORAL_ADDRESS": "t",
        "ETCD_NAME": "e",
        "KWOK_X": "1",
        "REGISTRY_X": "1",
        "NATS_URL": "n",
    }
    assert parts.environment(inherited) == {"PATH": "/bin"}


def test_ports_stay_the_same_while_they_are_free(tmp_path: Path) -> None:
    def assign() -> dict[str, int]:
        return ports.assign(tmp_path / "ports.json", ["a", "b"], free=ports.is_free)

    first = assign()
    assert assign() == first
    assert len(set(first.values())) == 2
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", first["a"]))
        taken.listen(1)
        second = assign()
    assert second["b"] == first["b"]
    assert second["a"] not in first.values()


def test_two_stacks_that_start_at_the_same_time_take_different_ports(tmp_path: Path) -> None:
    with ports.Claims(tmp_path / "claims") as one, ports.Claims(tmp_path / "claims") as two:
        mine = ports.assign(tmp_path / "one.json", ["a"], free=one.take)["a"]
        assert not two.take(mine)
        (tmp_path / "two.json").write_text(f'{{"a": {mine}}}')
        assert ports.assign(tmp_path / "two.json", ["a"], free=two.take)["a"] != mine
    with ports.Claims(tmp_path / "claims") as later:
        assert later.take(mine)


def test_claims_last_as_long_as_the_process_they_were_passed_to(tmp_path: Path) -> None:
    with ports.Claims(tmp_path / "claims") as claims:
        mine = ports.assign(tmp_path / "one.json", ["a"], free=claims.take)["a"]
        holder = subprocess.Popen(["cat"], stdin=subprocess.PIPE, pass_fds=(claims.fileno(),))
    with ports.Claims(tmp_path / "claims") as other:
        assert not other.take(mine)
        holder.communicate()
        assert other.take(mine)


def test_a_port_on_which_something_listens_cannot_be_claimed(tmp_path: Path) -> None:
    with socket.socket() as taken, ports.Claims(tmp_path / "claims") as claims:
        taken.bind(("127.0.0.1", 0))
        taken.listen(1)
        assert not claims.take(taken.getsockname()[1])


@pytest.fixture
def plan_of_two(plan: Plan) -> Plan:
    """A plan with two clusters beside the management cluster."""
    names = clusters.names(2)
    numbers = {name: 21_000 + number for number, name in enumerate(clusters.ports(names, []))}
    made = dataclasses.replace(plan, clusters=names, ports=plan.ports | numbers)
    clusters.write(made)
    return made


def test_parts_of_clusters_bind_to_loopback_and_keep_tokens_out_of_their_command_lines(plan_of_two: Plan) -> None:
    tokens = {
        ControlPlane(name).pki(plan_of_two).token(user) for name in plan_of_two.clusters for user in credentials.USERS
    }
    for part in parts.of(plan_of_two):
        assert part.once or "127.0.0.1" in part.address
        assert not any(token in argument for token in tokens for argument in part.argv)


def test_every_cluster_has_a_prefix_of_its_own(plan_of_two: Plan) -> None:
    flags = [flag for part in parts.of(plan_of_two) for flag in part.argv if flag.startswith("--etcd-prefix=")]
    assert flags == ["--etcd-prefix=/registry", "--etcd-prefix=/cluster-1", "--etcd-prefix=/cluster-2"]


def test_clusters_on_demand_wait_and_nothing_else_does(plan_of_two: Plan) -> None:
    names = [part.name for part in parts.of(plan_of_two)]
    assert clusters.resting(plan_of_two, names) == []
    waiting = clusters.resting(dataclasses.replace(plan_of_two, on_demand=True), names)
    assert waiting == [name for name in names if name.startswith("cluster-")]
    assert len(waiting) >= 2 * len(plan_of_two.clusters)


def test_users_that_came_later_get_tokens_and_others_keep_theirs(tmp_path: Path) -> None:
    made = credentials.ensure(tmp_path / "pki")
    before = {user: made.token(user) for user in credentials.USERS}
    lines = made.tokens.read_text().splitlines(keepends=True)
    made.tokens.write_text("".join(line for line in lines if credentials.WORKER not in line))
    again = credentials.ensure(tmp_path / "pki")
    after = {user: again.token(user) for user in credentials.USERS}
    assert {user for user in before if before[user] != after[user]} == {credentials.WORKER}
