"""Brings settings of an older shape to the newest one, with the package's own programs."""

from __future__ import annotations

from collections.abc import Sequence

from windlass.domain.errors import Actor, PermanentError, Reason
from windlass.domain.packages.model import Conversion, Values
from windlass.domain.text.documents import is_object
from windlass.domain.text.doubles import unrounded
from windlass.ports.jq import Jq


async def check_conversions(jq: Jq, conversions: Sequence[Conversion]) -> None:
    """Compile all programs.

    Raises:
        PermanentError: FILTER_FAILED, naming the file and the program.
    """
    for conversion in conversions:
        for program in conversion.programs:
            try:
                await jq.check(program)
            except PermanentError as error:
                raise _named(conversion, error) from None


async def converted(jq: Jq, conversions: Sequence[Conversion], settings: Values, version: int | None) -> Values:
    """Return settings of ``version`` as those of the newest one; None says that they are that already.

    Raises:
        PermanentError: VALIDATION_FAILED, there is no such version, or a program fails on the settings or makes no
            object of them. The text never quotes them.
        TransientError: FILTER_FAILED, a program did not end in time.
    """
    newest = conversions[-1].version if conversions else 1
    if version is None:
        return settings
    if version > newest:
        raise PermanentError(
            Reason.VALIDATION_FAILED,
            f"spec.settingsVersion: {version} is not known, this package's newest is {newest}",
            hint="install a newer version of the package, or write settings of that version",
            actor=Actor.USER,
        )
    for conversion in conversions:
        for program in conversion.programs if conversion.version > version else ():
            try:
                results = await jq.run(program, settings)
            except PermanentError as error:
                raise _named(conversion, error) from None
            if len(results) != 1 or not is_object(results[0]):
                raise PermanentError(
                    Reason.VALIDATION_FAILED,
                    f"{_file(conversion)}: a program gives {len(results)} results or no object",
                    hint="every program gives the whole settings, such as `del(.old)`",
                    actor=Actor.AUTHOR,
                )
            settings = unrounded(settings, results[0])
    return settings


def _file(conversion: Conversion) -> str:
    return f"openapi/conversions/v{conversion.version}.yaml"


def _named(conversion: Conversion, error: PermanentError) -> PermanentError:
    message = f"{_file(conversion)}: {error.message}"
    return PermanentError(Reason.VALIDATION_FAILED, message, hint=error.hint, actor=error.actor)
