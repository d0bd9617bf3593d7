"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from windlass.cli.output import Document, Output

Namespace = Annotated[str, typer.Option("--namespace", "-n", help="Namespace; the kubeconfig's if absent.")]
AllNamespaces = Annotated[bool, typer.Option("--all-namespaces", "-A", help="In every namespace.")]
Format = Annotated[Output, typer.Option("--output", "-o", help="table, wide, json or yaml.")]
DocumentFormat = Annotated[Document, typer.Option("--output", "-o", help="yaml or json.")]
DataDir = Annotated[Path | None, typer.Option(help="Data directory of the stack.")]
Name = Annotated[str, typer.Argument(help="Name of the Application.")]
