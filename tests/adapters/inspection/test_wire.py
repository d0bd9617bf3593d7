"""Failures go over the wire and come back the same."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.adapters.inspection.wire import TooManyRequestsError, code_of, error_of, is_worker_status, status_of
from windlass.domain.errors import Actor, PermanentError, Reason, TransientError, WindlassError


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (PermanentError(Reason.UNAUTHORIZED, "who?", actor=Actor.USER), 401),
        (PermanentError(Reason.FORBIDDEN, "no", hint="ask", actor=Actor.ADMIN), 403),
        (PermanentError(Reason.PACKAGE_NOT_FOUND, "none", actor=Actor.USER), 404),
        (PermanentError(Reason.VALIDATION_FAILED, "odd", actor=Actor.AUTHOR), 422),
        (TransientError(Reason.API_UNAVAILABLE, "later", hint="wait"), 503),
        (TransientError(Reason.CLUSTER_UNREACHABLE, "later"), 503),
        (TooManyRequestsError("slow down"), 429),
    ],
)
def test_a_failure_comes_back_as_it_was(error: WindlassError, code: int) -> None:
    assert code_of(error) == code
    body = json.dumps(status_of(error)).encode()
    back = error_of(code, body)
    assert (type(back), back.reason, back.message, back.hint) == (
        type(error),
        error.reason,
        error.message,
        error.hint,
    )
    if isinstance(error, PermanentError):
        assert isinstance(back, PermanentError)
        assert back.actor is error.actor
    assert is_worker_status(body)


def test_what_the_api_server_says_is_not_taken_for_a_workers_answer() -> None:
    body = b'{"kind":"Status","message":"services \\"x\\" not found","reason":"NotFound","details":{"name":"x"}}'
    assert not is_worker_status(body)
    assert error_of(404, body).message == 'services "x" not found'
    assert isinstance(error_of(503, b'{"message":"no endpoints available"}'), TransientError)


@given(st.integers(300, 599), st.one_of(st.binary(max_size=200), st.from_regex(rb'\{"(message|details|reason)":.*\}')))
def test_whatever_comes_is_a_failure(status: int, body: bytes) -> None:
    assert isinstance(error_of(status, body), WindlassError)
    assert is_worker_status(body) in {True, False}
