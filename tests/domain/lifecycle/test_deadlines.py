"""Deadlines of a resting lifecycle: each belongs to something that is done then."""

from __future__ import annotations

from dataclasses import replace

from domain.lifecycle.lives import artifact, running, wanted
from hypothesis import given
from hypothesis import strategies as st

from windlass.domain.lifecycle.deadlines import Acts, Agenda, Deadline, compares, next_deadline
from windlass.domain.lifecycle.policy import FREE, Cause, Control, Good, Held
from windlass.domain.lifecycle.steps import Hold, Next, Step

NOW = 1000.0

times = st.none() | st.floats(min_value=0, max_value=2 * NOW) | st.just(NOW)
holds = st.sampled_from([Next(step=Step.WAIT, hold=hold) for hold in Hold])
agendas = st.builds(Agenda, look=times, write=times, tries=times, compare=times)


@given(agenda=agendas, step=holds, compared=st.booleans())
def test_after_acting_a_deadline_is_absent_or_in_the_future(agenda: Agenda, step: Next, compared: bool) -> None:
    found = next_deadline(agenda, step, compares=compared, now=NOW)
    assert found is None or found.at > NOW


@given(agenda=agendas, step=holds, compared=st.booleans())
def test_nothing_that_will_be_done_is_forgotten(agenda: Agenda, step: Next, compared: bool) -> None:
    found = next_deadline(agenda, step, compares=compared, now=NOW)
    acting = [agenda.look, agenda.write]
    acting += [agenda.tries] if step.hold is Hold.BACKOFF else []
    acting += [agenda.compare] if compared else []
    later = [at for at in acting if at is not None and at > NOW]
    assert (found.at if found else None) == min(later, default=None)


@given(agenda=agendas, step=holds, compared=st.booleans())
def test_going_from_deadline_to_deadline_comes_to_an_end(agenda: Agenda, step: Next, compared: bool) -> None:
    now, seen = NOW, 0
    while (found := next_deadline(agenda, step, compares=compared, now=now)) is not None:
        now, seen = found.at, seen + 1
    assert seen <= len(Acts)


def test_the_next_try_counts_only_while_it_is_waited_for() -> None:
    agenda = Agenda(tries=NOW + 1)
    paused = Next(step=Step.WAIT, hold=Hold.PAUSED)
    backoff = Next(step=Step.WAIT, hold=Hold.BACKOFF)
    assert next_deadline(agenda, paused, compares=True, now=NOW) is None
    assert next_deadline(agenda, backoff, compares=True, now=NOW) == Deadline(at=NOW + 1, acts=Acts.TRY)


def test_a_comparison_counts_only_where_it_would_be_done() -> None:
    rests = running()
    assert compares(wanted(), rests, FREE, paused=False)
    assert compares(wanted(), rests, Control(target=Good(revision=1, artifact=artifact(), settings="s1")), paused=False)
    assert not compares(wanted(), rests, FREE, paused=True)
    assert not compares(wanted(suspended=True), rests, FREE, paused=False)
    assert not compares(wanted(deleting=True), rests, FREE, paused=False)
    assert not compares(wanted(settings="s2"), rests, FREE, paused=False)
    held = Control(held=Held(step="CheckDrift", cause=Cause.WORKER_LOST))
    assert not compares(wanted(), rests, held, paused=False)
    assert not compares(wanted(), replace(rests, run=replace(rests.run, complete=False)), FREE, paused=False)
