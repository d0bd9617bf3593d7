"""Helm's texts as typed errors: real ones from the cluster, and the rules on samples."""

from __future__ import annotations

import base64
from dataclasses import replace

import pytest
from adapters.helm.scenes import Charts, Cluster, Requests, config_map

from support.ledgers import RememberingHelm
from windlass.adapters.helm import failures
from windlass.domain.errors import MAX_TEXT, Actor, PermanentError, Reason, TransientError, WindlassError

SECRET = "hunter2-correct-horse"

BROKEN = [
    ("{{ if }}", Actor.AUTHOR, "0.yaml:1"),
    ("{{ .Values.absent.deeper.still }}", Actor.AUTHOR, "nil pointer"),
    ("a: [\nb", Actor.AUTHOR, "0.yaml"),
    ("apiVersion: v1\nkind: ConfigMap\nmetadata: {labels: {a: b}}\n", Actor.AUTHOR, "name may not be empty"),
    ('{{ required "set settings.host" .Values.absent }}', Actor.USER, "set settings.host"),
    ("apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\nspec: {replicas: many}\n", Actor.AUTHOR, "replicas"),
    ("apiVersion: v1\nkind: Service\nmetadata: {name: a}\nspec: {ports: [{port: 0}]}\n", Actor.AUTHOR, "ports[0].port"),
]


@pytest.mark.stack
@pytest.mark.parametrize("has_hooks", [False, True])  # through a child and through the program
@pytest.mark.parametrize(("template", "actor", "named"), BROKEN)
async def test_a_broken_template_says_who_must_act_and_where(
    helm: RememberingHelm,
    chart: Charts,
    request_for: Requests,
    template: str,
    actor: Actor,
    named: str,
    has_hooks: bool,
) -> None:
    with pytest.raises(PermanentError) as caught:
        await helm.upgrade(request_for(chart(template), has_hooks=has_hooks, password=SECRET))

    assert caught.value.actor is actor
    assert caught.value.reason is Reason.APPLY_MANIFESTS_FAILED
    assert named in caught.value.message
    assert caught.value.hint
    assert caught.value.__cause__ is None


@pytest.mark.stack
async def test_a_schema_that_refuses_the_values_is_the_users(
    helm: RememberingHelm, chart: Charts, request_for: Requests
) -> None:
    schema = '{"properties": {"replicas": {"type": "integer"}}}'

    with pytest.raises(PermanentError, match="/replicas") as caught:
        await helm.upgrade(request_for(chart(config_map("a"), values_schema_json=schema), replicas="three"))

    assert caught.value.actor is Actor.USER


@pytest.mark.stack
@pytest.mark.parametrize(
    ("template", "named"),
    [
        ("apiVersion: later.example.com/v1\nkind: Toy\nmetadata: {name: a}\n", "Toy"),
        ("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: not-there}\n", "not-there"),
    ],
)
async def test_what_may_still_come_is_waited_for(
    helm: RememberingHelm, chart: Charts, request_for: Requests, template: str, named: str
) -> None:
    with pytest.raises(TransientError, match=named):
        await helm.upgrade(request_for(chart(template)))


@pytest.mark.stack
@pytest.mark.parametrize("has_hooks", [False, True])
@pytest.mark.parametrize("quoted", ["{{ .Values.password }}", "{{ .Values.password | b64enc }}"])
async def test_secrets_never_stand_in_an_error(
    helm: RememberingHelm, cluster: Cluster, chart: Charts, request_for: Requests, has_hooks: bool, quoted: str
) -> None:
    template = f'{{{{ fail (printf "cannot use %s" (tpl "{quoted}" .)) }}}}'

    request = request_for(chart(template), has_hooks=has_hooks, password=SECRET)
    with pytest.raises(PermanentError, match="cannot use •••") as caught:
        await helm.upgrade(replace(request, secrets=frozenset({SECRET})))

    assert SECRET not in repr(caught.value) + str(caught.value)
    assert base64.b64encode(SECRET.encode()).decode() not in str(caught.value)
    assert cluster.release in caught.value.message


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("kubernetes cluster unreachable: dial tcp: connect: connection refused", Reason.API_UNAVAILABLE),
        ("etcdserver: request timed out", Reason.API_UNAVAILABLE),
        ("Internal error occurred: failed calling webhook: it is invalid: x", Reason.APPLY_MANIFESTS_FAILED),
        ("something nobody has seen before", Reason.APPLY_MANIFESTS_FAILED),
    ],
)
def test_what_may_pass_is_transient(text: str, reason: Reason) -> None:
    error = failures.failed("Helm upgrade of release web in prod", text)

    assert isinstance(error, TransientError)
    assert error.reason is reason
    assert str(error).startswith("Helm upgrade of release web in prod failed: ")


@pytest.mark.parametrize(
    "text",
    [
        "kubernetes cluster unreachable: the server has asked for the client to provide credentials",
        'pods "a" is forbidden: exceeded quota: small',
        'admission webhook "guard.example.com" denied the request: no',
        'configmaps is forbidden: User "u" cannot create resource',
    ],
)
def test_what_the_cluster_forbids_is_the_admins(text: str) -> None:
    error = failures.failed("it", text)

    assert isinstance(error, PermanentError)
    assert (error.reason, error.actor) == (Reason.FORBIDDEN, Actor.ADMIN)


def test_rendered_manifests_behind_an_error_are_cut_off() -> None:
    text = "the cause\n" + "\n".join(f"line {number} {'x' * 500}" for number in range(1000))

    error: WindlassError = failures.failed("it", text)

    assert "the cause" in error.message
    assert len(error.message.encode()) < MAX_TEXT / 2
    assert error.message.endswith("…")


PEM = "-----BEGIN-----\nabcdefghij\n-----END-----\n"


@pytest.mark.parametrize(
    ("secret", "text", "masked"),
    [
        ("hunter2!", 'env "hunter2!" is invalid', 'env "•••" is invalid'),
        (PEM, "line 3 holds abcdefghij", "line 3 holds •••"),
        (PEM, 'Invalid value: "-----BEGIN-----\\nabcdefghij\\n-----END-----\\n"', 'Invalid value: "•••"'),
        ("hunter2!", "data.password: aHVudGVyMiE= is wrong", "data.password: ••• is wrong"),
        ('pass"word', 'Invalid value: "pass\\"word"', 'Invalid value: "•••"'),
    ],
    ids=["plain", "line", "escaped", "base64", "quotes"],
)
def test_a_secret_is_masked_however_helm_quotes_it(secret: str, text: str, masked: str) -> None:
    assert failures.mask(text, frozenset({secret})) == masked


def test_what_is_no_secret_is_told() -> None:
    text = 'Service "r-redis.app" is invalid'

    assert str(failures.failed("it", text, secrets=frozenset({"hunter2!"}))).startswith(f"it failed: {text}")
