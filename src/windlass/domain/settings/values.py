"""The values of a package: five layers, computed anew whenever one of them changes.

Reference: deckhouse.md section 5. From low to high:

1. static values (``values.yaml``);
2. defaults of the settings schema;
3. user settings;
4. defaults of the values schema, where nothing is said yet;
5. patches that hooks have accumulated.

Objects merge, lists and plain values are replaced, a null stays a null (`domain.text.tree.merge`). Nothing here
changes its arguments.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, cast

from windlass.domain.ids import Kind
from windlass.domain.packages.model import Package, Values
from windlass.domain.settings.defaults import fill_defaults
from windlass.domain.settings.schema import Schemas, validate
from windlass.domain.settings.value_patches import Operation, replay
from windlass.domain.settings.violations import Violation
from windlass.domain.text.tree import merge

GLOBAL_KEY: Final = "global"
"""The key beside a package's own in the values hooks see; no package can be called so."""

SETTINGS_ROOT: Final = "settings"
VALUES_ROOT: Final = "values"
"""What paths in errors about settings, and about merged values, start with."""


def camel_key(name: str) -> str:
    """Return the key of a package in hook values: ``cert-manager-crd`` -> ``certManagerCrd``, ``l2-lb`` -> ``l2Lb``."""
    first, *others = name.split("-")
    return first + "".join(part[:1].upper() + part[1:] for part in others)


def check_settings(schemas: Schemas, settings: Values, *, concealed: Values | None = None) -> tuple[Violation, ...]:
    """Return what is wrong with user settings as they were given, before defaults.

    Settings for a package without a settings schema are an error: nobody could tell what they mean.

    Args:
        schemas: of the package.
        settings: merged from the spec and what it refers to.
        concealed: the part that came from Secrets (`windlass.domain.settings.schema.validate`).
    """
    if schemas.settings is not None:
        return validate(settings, schemas.settings, root=SETTINGS_ROOT, concealed=concealed)
    if not settings:
        return ()
    return (
        Violation(
            path=SETTINGS_ROOT,
            message="this package takes no settings: it has no settings schema",
            given=f"{len(settings)} settings",
            allowed="none",
        ),
    )


def settings_with_defaults(schemas: Schemas, settings: Values) -> Values:
    """Return the settings with the defaults of the settings schema: what hooks see as config values."""
    return fill_defaults(settings, schemas.settings.document if schemas.settings else {})


def base_values(package: Package, schemas: Schemas, settings: Values) -> Values:
    """Return layers 1 to 4: the values that hook patches are applied to."""
    values = merge(package.static_values, settings_with_defaults(schemas, settings))
    for schema in (schemas.settings, schemas.values):
        values = fill_defaults(values, schema.document if schema else {})
    return values


def compute_values(package: Package, schemas: Schemas, settings: Values, patches: Iterable[Operation]) -> Values:
    """Return all five layers.

    Args:
        package: its name gives the key patches are rooted at, its static values are the lowest layer.
        schemas: prepared from it (`windlass.domain.settings.schema.prepare_schemas`).
        settings: valid user settings, references resolved.
        patches: stored operations of hooks.
    """
    return replay(base_values(package, schemas, settings), patches, root=camel_key(package.definition.name))


def release_values(package: Package, values: Values) -> Values:
    """Return the values to hand to Helm: ``values`` with a null for every static value that is no longer in them.

    Helm lays what it is given over the chart's own ``values.yaml``, which is the layer of static values again: without
    the null, what a hook has removed would be back.

    Charts of modules see them below the module's own key as well, where those of older platforms look for them
    (reference: deckhouse.md section 5).
    """
    given = cast("Values", _with_nulls(package.static_values, values))
    if package.definition.type is not Kind.MODULE:
        return given
    key = camel_key(package.definition.name)
    return {key: given, **values} if package.scoped else {key: values, **given}


def _with_nulls(static: Any, values: Any) -> Any:
    if not isinstance(static, dict) or not isinstance(values, dict):
        return values
    out = dict(cast("Values", values))
    for key, below in cast("Values", static).items():
        out[key] = _with_nulls(below, out[key]) if key in out else None
    return out
