"""A controller: routes in NATS become Services, ConfigMaps, names in a DNS behind an HTTP API, and a status in NATS.

windlass up --with nats        (and the variables that it prints)
python examples/operators/nats-routes/main.py
nats kv put routes shop "$(cat examples/operators/nats-routes/route.json)"

ROUTES_DNS_URL names the API of the DNS; without it no names are registered.
"""

from __future__ import annotations

import os

from controller import KIND, Routes
from dns import DnsRecords

from windlass.controllerruntime import ControllerRuntime, selector
from windlass.operators import WallClock, bucket, connect, connect_nats, event_log, informer, run, run_controller

NAME = "nats-routes"


async def main() -> None:
    """Run until stopped."""
    async with connect(NAME) as kube, connect_nats(NAME) as nats:
        primary = await bucket(nats, "routes", history=5)
        status = await bucket(nats, "route-status")
        ours = selector(KIND)
        services = informer(kube, "v1", "Service", label_selector=ours)
        config_maps = informer(kube, "v1", "ConfigMap", label_selector=ours)
        url = os.environ.get("ROUTES_DNS_URL", "")
        records = DnsRecords(url) if url else None
        runtime = ControllerRuntime(
            NAME,
            KIND,
            primary,
            resync=float(os.environ.get("ROUTES_RESYNC", "300")),
            kube=kube,
            secondary_informers=[services, config_maps],
            secondaries=[status],
            external=[records] if records else [],
            events=event_log(kube, NAME),
            clock=WallClock(),
        )
        routes = Routes(runtime, kube, primary=primary, status=status, records=records)
        routes.watched = (services, config_maps)
        await run_controller(routes, threadiness=4)


if __name__ == "__main__":
    run(main, metrics=os.environ.get("METRICS_ADDRESS", "127.0.0.1:0"))
