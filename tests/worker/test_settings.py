"""Settings of a worker: rates of its clients, and its share of the workflow cache."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.domain.errors import PermanentError
from windlass.domain.shards import MAX_SHARDS
from windlass.worker.rates import Rate, Rates
from windlass.worker.settings import Settings


def test_without_text_the_defaults_hold() -> None:
    assert Rates.parse("") == Rates()


def test_named_clients_get_their_rates_and_others_keep_theirs() -> None:
    rates = Rates.parse("drift=20/50, lifecycle=200")
    assert rates.drift == Rate(qps=20, burst=50)
    assert rates.lifecycle == Rate(qps=200, burst=400)
    assert rates.watcher == Rates().watcher


@pytest.mark.parametrize(
    "text",
    [
        "drif=20",
        "drift",
        "drift=",
        "drift=0",
        "drift=-1",
        "drift=nan",
        "drift=inf",
        "drift=1/0",
        "drift=1/x",
        "drift=2/5/3",
        "drift=2,drift=3",
        "=5",
    ],
)
def test_what_is_not_a_rate_is_refused_by_name(text: str) -> None:
    with pytest.raises(PermanentError, match="WINDLASS_API_RATES") as refused:
        Rates.parse(text)
    assert refused.value.hint


@given(cache=st.integers(1, 10_000), shards=st.integers(1, MAX_SHARDS))
def test_the_shares_of_all_shards_reach_the_bound_and_exceed_it_by_less_than_one_each(cache: int, shards: int) -> None:
    k = Path("k")
    settings = Settings(kubeconfig=k, watcher_kubeconfig=k, data_dir=Path("d"), helm=Path("h"), workflow_cache=cache)
    share = settings.cache_share(shards)
    assert share >= 1
    assert cache <= share * shards < cache + shards
