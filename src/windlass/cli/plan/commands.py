"""``windlass plan``: what chains and rollouts would do. Reads files, asks nothing of any cluster."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from windlass.cli.options import Format
from windlass.cli.output import Output, console, emit
from windlass.domain.ids import SYSTEM_NAMESPACE

if TYPE_CHECKING:
    from windlass.domain.errors import PermanentError

app = typer.Typer(help="Show the route through a chain, or what a rollout would do.", no_args_is_help=True)

ManifestFile = Annotated[str, typer.Argument(metavar="FILE", help="File or folder of manifests; - is standard input.")]


@app.command()
def chain(
    file: ManifestFile,
    start: Annotated[str, typer.Option("--from", metavar="TEMPLATE", help="Template that is deployed.")],
    target: Annotated[str, typer.Option("--to", metavar="TEMPLATE", help="Template that is wanted.")],
    name: Annotated[str, typer.Option("--chain", help="Name of the chain, if the file holds several.")] = "",
    svg: Annotated[Path | None, typer.Option(metavar="FILE", help="Also draw the chain and its route as SVG.")] = None,
    output: Format = Output.TABLE,
) -> None:
    """Show the steps that lead from one template of a ServiceTemplateChain to another; exit code 1 if none do."""
    from windlass.cli.plan.chain_picture import picture
    from windlass.cli.plan.chain_views import document, lines
    from windlass.cli.plan.files import chain_of
    from windlass.domain.servicesets.chains import ChainGraph, check

    found = chain_of(file, name)
    graph = ChainGraph.of(found.chain)
    for template, option in ((start, "--from"), (target, "--to")):
        if template not in graph.templates:
            raise _unknown(template, option, found.place, graph.templates)
    route = graph.route(start, target) if start in graph.upgrades else None
    problems = check(found.chain)
    if svg is not None:
        _write(svg, picture(graph, start, target, route))
    if output in {Output.JSON, Output.YAML}:
        emit(document(graph, start, target, route, problems), output)
    else:
        screen = console()
        for line in lines(graph, start, target, route, problems):
            screen.print(line)
    if route is None:
        raise typer.Exit(1)


@app.command()
def fleet(
    file: ManifestFile,
    at: Annotated[str, typer.Option("--at", metavar="TIME", help="When it begins, ISO 8601; now if absent.")] = "",
    system_namespace: Annotated[
        str, typer.Option("--system-namespace", metavar="NAME", help="Where what is for the management cluster lies.")
    ] = SYSTEM_NAMESPACE,
    rollout: Annotated[
        str, typer.Option("--rollout", metavar="NAME", help="MultiClusterService whose spec.rollout counts.")
    ] = "",
    step_time: Annotated[
        str, typer.Option("--step-time", metavar="TIME", help="How long a step without a past takes.")
    ] = "5m",
    approval_time: Annotated[
        str, typer.Option("--approval-time", metavar="TIME", help="How long people take to approve a wave.")
    ] = "0s",
    output: Format = Output.TABLE,
) -> None:
    """Show what a rollout over a whole fleet would do: steps, waves, gates, predicted times, the critical path.

    The manifests are ClusterDeployment, MultiClusterService, ServiceSet (what is there), ServiceTemplate and
    ServiceTemplateChain; what kubectl get -o json prints will do. How the rollout goes is in spec.rollout of the
    MultiClusterService, how long steps took in its status.pastSteps. Nothing is changed. -o wide shows every step.
    """
    from windlass.cli.plan.files import duration_of, fleet_of, time_of
    from windlass.cli.plan.views import document, report
    from windlass.domain.servicesets.rollout.plan import plan
    from windlass.domain.servicesets.rollout.review import review

    given = fleet_of(file, system_namespace, rollout, duration_of("--step-time", step_time))
    approval_wait = duration_of("--approval-time", approval_time)
    now = time_of(at) if at else datetime.now(UTC).replace(microsecond=0)
    made = plan(given.policy, given.fleet, now, given.predictions, approval_wait)
    findings = review(given.fleet)
    if output in {Output.JSON, Output.YAML}:
        emit(document(made, findings), output)
        return
    screen = console()
    for part in report(made, findings, given.left_out, steps=output is Output.WIDE):
        screen.print(part)


def _write(file: Path, text: str) -> None:
    from windlass.domain.errors import Actor, PermanentError, Reason

    try:
        file.write_text(text)
    except OSError as error:
        raise PermanentError(
            Reason.VALIDATION_FAILED,
            f"--svg {file}: cannot be written: {error.strerror}",
            hint="name a file in a folder that is there and that you may write to",
            actor=Actor.USER,
        ) from None


def _unknown(template: str, option: str, place: str, templates: tuple[str, ...]) -> PermanentError:
    import difflib

    from windlass.domain.errors import Actor, PermanentError, Reason

    close = difflib.get_close_matches(template, templates, n=1)
    some = ", ".join(templates[:10]) + (f" and {len(templates) - 10} more" if len(templates) > 10 else "")
    return PermanentError(
        Reason.VALIDATION_FAILED,
        f"{place}: {option} {template} is not in spec.supportedTemplates",
        hint=f"did you mean {close[0]}?" if close else f"it holds {some or 'no templates'}",
        actor=Actor.USER,
    )
