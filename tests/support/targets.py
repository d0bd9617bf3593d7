"""Targets for tests of adapters and activities."""

from __future__ import annotations

from windlass.domain.target import APPLICATION_ACCOUNT, Account, Placement, Target


def at_home(namespace: str) -> Target:
    """The default target of an Application of ``namespace``."""
    return Target(account=Account(namespace=namespace, name=APPLICATION_ACCOUNT), namespace=namespace)


def placed(namespace: str, release: str) -> Placement:
    """The default placement of an Application whose release has this name."""
    return Placement(target=at_home(namespace), release=release)
