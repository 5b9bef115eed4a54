"""Ready-made values for tests of the host side."""

from dataclasses import replace
from typing import Any

from reconciler.actual.containers import create_body
from reconciler.model.host import Gpu, GpuMode, HostFacts, HostSpec, MigSlice, NumaNode
from reconciler.model.workload import Allocation, ContainerSpec, InstanceId, Kind, Workload, digest_of, spec_on_host

GIB = 1024**3
GPUS = tuple(f"GPU-{letter * 8}-0000" for letter in "abcd")
SLICES = tuple(f"MIG-{letter * 8}-0000" for letter in "ef")
HOST = HostSpec("h", "unix:///run/docker.sock", env=(("NCCL_SOCKET_IFNAME", "ib0"),))


def facts(*, mig: bool = True, indexes: bool = True) -> HostFacts:
    """Four cards on one node; the last one has MIG enabled and two slices."""
    cards = tuple(
        Gpu(
            uuid,
            "NVIDIA A100-SXM4-80GB",
            80 * GIB,
            index=number if indexes else None,
            pci=f"00000000:{0x0A + number:02X}:00.0",
        )
        for number, uuid in enumerate(GPUS)
    )
    if mig:
        slices = tuple(MigSlice(uuid, "1g.10gb", start, GPUS[3]) for start, uuid in enumerate(SLICES))
        cards = (*cards[:3], replace(cards[3], mig_enabled=True, mig_slices=slices))
    return HostFacts("h", (NumaNode(0, tuple(range(16)), 256 * GIB),), cards)


def app(name: str = "web", **container: Any) -> Workload:
    """An app of one small container."""
    return Workload(Kind.APP, name, ContainerSpec(**{"image": "img:1", **container}))


def instance_of(workload: Workload, index: str = "0") -> InstanceId:
    """One of its instances."""
    return InstanceId(workload.kind, workload.name, index, workload.run)


def body_of(
    workload: Workload,
    allocation: Allocation = Allocation(memory=512 * 1024**2),  # noqa: B008 - frozen
    *,
    host: HostSpec = HOST,
    index: str = "0",
    generation: int = 1,
    cluster: str = "lab",
    **more: Any,
) -> dict[str, Any]:
    """The create body that the executor would send."""
    spec = spec_on_host(workload.container, host.env)
    return create_body(
        workload,
        instance_of(workload, index),
        allocation,
        host,
        cluster=cluster,
        generation=generation,
        digest=digest_of(spec),
        spec=spec,
        **more,
    )


PASSTHROUGH = replace(HOST, gpu_mode=GpuMode.PASSTHROUGH)
