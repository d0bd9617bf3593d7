"""Example lines of every command, for its help and for docs/cli.md; a test parses each of them."""

from __future__ import annotations

from typing import Final

EXAMPLES: Final[dict[str, tuple[tuple[str, str], ...]]] = {
    "up": (
        ("windlass up", "in front; Ctrl-C stops everything"),
        ("windlass up --detach", "return when all is ready"),
        ("windlass up --temporal-address temporal.example.com:7233", "a cluster here, the Temporal is yours"),
    ),
    "down": (("windlass down", "the data stays"),),
    "status": (("windlass status", "parts, addresses, health"), ("windlass status -o json", "for programs")),
    "logs": (("windlass logs temporal -f", "follow one part"), ("windlass logs supervisor -n 50", "its last lines")),
    "doctor": (("windlass doctor", "before the first start, and when something is wrong"),),
    "demo": (("windlass demo", "the stack stays up afterwards"), ("windlass demo --once", "stop it at the end")),
    "apply": (
        ("windlass apply -f examples/applications/", "every file of a folder"),
        ("windlass apply -f app.yaml --wait", "return when it is ready, or say why not"),
        ("cat app.yaml | windlass apply -f - -n shop", "from standard input"),
    ),
    "get": (
        ("windlass get -A", "all packages"),
        ("windlass get web -n shop -o yaml", "one, with spec and status"),
        ("windlass get -A --watch", "live"),
    ),
    "describe": (("windlass describe web -n shop", "what it is, what it waits for, what to do"),),
    "watch": (("windlass watch -A", "all packages"), ("windlass watch web -n shop", "one package")),
    "tree": (
        ("windlass tree web -n shop", "down to the pods"),
        ("windlass tree web -n shop --watch", "during a rollout"),
    ),
    "events": (
        ("windlass events web -n shop", "of the package and of all its objects"),
        ("windlass events web -n shop --since 10m", "the newest"),
        ("windlass events web -n shop --watch", "as they come"),
    ),
    "history": (
        ("windlass history web -n shop", "all that is still known"),
        ("windlass history web -n shop --since 2d -o yaml", "of two days, for programs"),
    ),
    "values": (
        ("windlass values web -n shop", "secrets hidden"),
        ("windlass values web -n shop --show-secrets -o json", "in clear"),
    ),
    "render": (
        ("windlass render web -n shop", "what would be applied now"),
        ("windlass render web -n shop --version 1.2.0", "what an upgrade would apply"),
        ("windlass render web -n shop --set replicas=5 --set cache.host=other", "what a change would apply"),
    ),
    "diff": (
        ("windlass diff web -n shop", "wanted against what runs"),
        ("windlass diff web -n shop --against release", "wanted against what was released last"),
        ("windlass diff web -n shop -o json", "for programs; exit code 1 when something differs"),
    ),
    "delete": (
        ("windlass delete web -n shop", "uninstall, and wait until it is gone"),
        ("windlass delete web -n shop --abandon", "leave what runs, run no hooks"),
    ),
    "package list": (
        ("windlass package list corp", "of a PackageRepository in the cluster"),
        ("windlass package list https://charts.example.com/stable", "of any Helm repository"),
    ),
    "package versions": (("windlass package versions oci://registry.example.com/packages webapp", "oldest first"),),
    "package show": (("windlass package show corp webapp --version ^1.4", "what it is and which settings it takes"),),
    "package pull": (("windlass package pull corp webapp --version 1.4.2 -o packages", "into a folder"),),
    "package push": (
        ("windlass package push packages/webapp/1.0.0 oci://registry.example.com/packages", "Helm can pull it too"),
    ),
    "package lint": (("windlass package lint packages/webapp/1.0.0", "a folder"),),
    "package pack": (("windlass package pack packages/webapp/1.0.0 -o dist", "an archive, the same bytes every time"),),
    "retry": (('windlass retry web -n shop --reason "registry is back"', "do not wait for the back-off"),),
    "skip": (('windlass skip web -n shop --reason "the hook is known to be broken"', "go on past the failed step"),),
    "cancel": (('windlass cancel web -n shop --reason "wrong image"', "stop the running step and hold there"),),
    "rollback": (
        ('windlass rollback web -n shop --reason "errors since 10:00"', "the last good version and settings"),
        ('windlass rollback web -n shop --to 3 --reason "as on Monday"', "a good revision of your choice"),
    ),
    "pause": (
        ('windlass pause web -n shop --reason "audit until noon"', "nothing further is begun"),
        ('windlass pause web -n shop --before run --reason "look first"', "a breakpoint before the release"),
    ),
    "resume": (('windlass resume web -n shop --reason "audit is over"', "go on"),),
    "dump": (
        ("windlass dump web -n shop", "what the lifecycle carries"),
        ("windlass dump -A --queues -o json", "of all packages, with what is left to do"),
    ),
    "plan chain": (
        ("windlass plan chain chain.yaml --from web-1-0 --to web-2-0", "the steps between"),
        ("windlass plan chain chain.yaml --from web-1-0 --to web-2-0 --svg chain.svg", "and a picture"),
    ),
    "plan fleet": (
        ("windlass plan fleet fleet/", "every manifest of a folder"),
        ("windlass plan fleet fleet.yaml --at 2026-06-01T20:00:00+02:00 -o wide", "every step, from a time on"),
        ("cat fleet/*.yaml | windlass plan fleet - -o json", "from standard input, for programs"),
    ),
    "import kcm": (
        ("windlass import kcm clusters/ --output-file fleet.yaml", "K0rdent's manifests of a folder"),
        (
            "windlass import kcm clusters/ | kubectl apply --dry-run=server -f -",
            "whether the API server takes them",
        ),
    ),
    "worker": (
        ("windlass worker --role all", "worker and watcher in one process"),
        ("windlass worker --log-format json", "under an init system"),
    ),
    "watcher": (("windlass watcher", "beside a worker; several may run, one is active"),),
    "operator new": (
        ("windlass operator new web-site", "an operator on windlass.framework, in the folder web-site"),
        ("windlass operator new web-site --group sites.example.com -o operators", "with an API group of yours"),
        (
            "windlass operator new web-site --kind controllerruntime",
            "a controller over NATS, windlass.controllerruntime",
        ),
    ),
    "codec serve": (
        (
            "windlass codec serve --token-file token --ui-origin http://127.0.0.1:8233",
            "for a Temporal UI of your own; the stack has one",
        ),
    ),
    "completion": (
        ('eval "$(windlass completion bash)"', "in ~/.bashrc"),
        ("windlass completion fish > ~/.config/fish/completions/windlass.fish", "for fish"),
    ),
    "version": (("windlass version", "what is installed"), ("windlass version --check", "and whether it fits")),
}
"""Command, with its subcommand if it has any: lines and what each is for."""


def epilog(command: str) -> str:
    """Return the part of the command's help that shows its examples; empty if it has none."""
    lines = EXAMPLES.get(command, ())
    if not lines:
        return ""
    # The mark keeps click from filling the lines.
    return "\b\nExamples:\n" + "\n".join(f"  # {what}\n  {line}" for line, what in lines)
