"""News and what they change: the cache against a plain dictionary."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from windlass.controllerruntime.cache import Cache
from windlass.controllerruntime.ownership import Owner, owned
from windlass.domain.entities import Operation
from windlass.ports.entities import Changed, Item, Picture

KEYS = st.sampled_from("abcd")
OWNERS = st.sampled_from(["x", "y", ""])


@st.composite
def items(draw: st.DrawFn) -> Item:
    owner = draw(OWNERS)
    document = owned({}, Owner(kind="Route", key=owner)) if owner else {}
    version = draw(st.integers(1, 5))
    return Item(key=draw(KEYS), version=f"{version}{owner}", document=document)


PICTURES = st.lists(items(), unique_by=lambda item: item.key).map(lambda found: Picture(items=tuple(found)))
CHANGES = st.builds(Changed, item=items(), operation=st.sampled_from(list(Operation)[:3]))


@given(st.lists(PICTURES | CHANGES, max_size=20))
def test_notices_bring_an_observer_to_the_same_state(news: list[Picture | Changed]) -> None:
    cache, observer, truth = Cache(), dict[str, str](), dict[str, str]()
    for one in news:
        if isinstance(one, Picture):
            truth = {item.key: item.version for item in one.items}
        elif one.operation is Operation.PUT:
            truth[one.item.key] = one.item.version
        else:
            truth.pop(one.item.key, None)
        for notice in cache.take(one):
            if notice.operation is Operation.PUT:
                assert observer.get(notice.item.key) != notice.item.version, "nothing has changed"
                observer[notice.item.key] = notice.item.version
            else:
                assert observer.pop(notice.item.key) == notice.item.version, "as it was last known"
        assert observer == truth == cache.versions()
        for owner in ("x", "y"):
            keys = [item.key for item in cache.owned_by(Owner(kind="Route", key=owner))]
            assert keys == sorted(key for key, version in truth.items() if version.endswith(owner))
        assert cache.take(one) == [], "once more says nothing"


def item(key: str, version: str) -> Item:
    return Item(key=key, version=version)


def put(cache: Cache, key: str, version: str) -> None:
    cache.take(Changed(item=item(key, version), operation=Operation.PUT))


def test_a_list_that_is_older_than_the_news_undoes_nothing() -> None:
    cache = Cache()
    for key in ("stays", "expired", "changed", "deleted"):
        put(cache, key, "1")
    before = cache.versions()
    listed = Picture(items=(item("stays", "1"), item("changed", "1"), item("deleted", "1"), item("unheard", "3")))
    put(cache, "changed", "2")
    put(cache, "come", "4")
    cache.take(Changed(item=item("deleted", "5"), operation=Operation.DELETE))
    notices = cache.compare(before, listed)
    assert [(one.operation, one.item.key) for one in notices] == [
        (Operation.DELETE, "expired"),
        (Operation.PUT, "unheard"),
    ]
    assert cache.versions() == {"stays": "1", "changed": "2", "come": "4", "unheard": "3"}
