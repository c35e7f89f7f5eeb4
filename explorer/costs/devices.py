"""The catalogue of device kinds: what their makers state.

Peak rates are dense (datasheets of Hopper and Ada quote twice as much, with sparsity). Memory is in
decimal gigabytes as on the label: the few percent that a device really has beyond that is about what
a CUDA context and an allocator take.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from solvers.problem.cluster import CPU_KIND, Device

CPU_CORE = "cpu-core"
GB = 1e9
TERA = 1e12
GB_PER_S = 1e9


@dataclass(frozen=True, slots=True)
class DeviceKind:
    """A kind of device.

    peak_flops_per_s: dense products by dtype: "fp16", "bf16", "tf32", "fp32" (the last is also the
    rate of elementwise arithmetic). multiprocessors and tile (rows, columns of a product that one
    multiprocessor computes at a time) quantise products; there are tiles of half a side, a quarter, ...,
    but none narrower than narrowest. launch_s is the least time between the
    starts of two operators. host_bytes_per_s: between the device and its host's memory, each way.
    """

    name: str
    memory_bytes: float
    memory_bytes_per_s: float
    peak_flops_per_s: Mapping[str, float]
    multiprocessors: int
    tile: tuple[int, int]
    narrowest: int
    launch_s: float
    host_bytes_per_s: float


GPU_TILE = (128, 128)
"""A common tile of cuBLAS: NVIDIA, "Matrix Multiplication Background User's Guide", section 3
https://docs.nvidia.com/deeplearning/performance/dl-performance-matrix-multiplication/"""

GPU_NARROWEST = 32
"""cuBLAS has tiles of 32 x 128 and 128 x 32 for products of few rows or columns: cublasLtMatmulTile_t,
https://docs.nvidia.com/cuda/cublas/#cublasltmatmultile-t"""

GPU_LAUNCH_S = 3.8e-6
"""Seconds from one kernel to the next when launches are the limit, without CUDA graphs: A. Gray,
"Getting Started with CUDA Graphs" (V100), https://developer.nvidia.com/blog/cuda-graphs/"""

# https://images.nvidia.com/content/technologies/volta/pdf/volta-v100-datasheet-update-us-1165301-r5.pdf
# (SXM2: 125 TFLOP/s tensor, 15.7 single precision, 900 GB/s). Volta has no bf16 and no TF32: products
# in those run at the single-precision rate.
_V100 = {"fp16": 125 * TERA, "bf16": 15.7 * TERA, "tf32": 15.7 * TERA, "fp32": 15.7 * TERA}

# https://www.nvidia.com/content/dam/en-zz/Solutions/Data-Center/a100/pdf/nvidia-a100-datasheet-us-nvidia-1758950-r4-web.pdf
_A100 = {"fp16": 312 * TERA, "bf16": 312 * TERA, "tf32": 156 * TERA, "fp32": 19.5 * TERA}

# https://resources.nvidia.com/en-us-tensor-core/nvidia-tensor-core-gpu-datasheet (SXM5; half of the
# sparse 1,979 and 989)
_H100 = {"fp16": 989.5 * TERA, "bf16": 989.5 * TERA, "tf32": 494.5 * TERA, "fp32": 67 * TERA}

# https://www.nvidia.com/en-us/data-center/l4/ (half of the sparse 242 and 120)
_L4 = {"fp16": 121 * TERA, "bf16": 121 * TERA, "tf32": 60 * TERA, "fp32": 30.3 * TERA}

# https://www.nvidia.com/en-us/geforce/laptops/compare/ (3,072 cores at up to 2.37 GHz, 128 bits of GDDR6 at 16 Gbit/s)
# and the Ada white paper's ratios: products in half precision that add in single are twice the single-precision rate,
# TF32 once.
_LAPTOP_FP32 = 3072 * 2 * 2.37e9
_LAPTOP_4060 = {
    "fp16": 2 * _LAPTOP_FP32,
    "bf16": 2 * _LAPTOP_FP32,
    "tf32": _LAPTOP_FP32,
    "fp32": _LAPTOP_FP32,
}

# https://resources.nvidia.com/en-us-blackwell-architecture (data sheets of HGX B200 and GB200 NVL72, for one GPU;
# half of the sparse 4,500 and 5,000, 2,200 and 2,500; 75 and 80 in single precision)
_B200 = {"fp16": 2250 * TERA, "bf16": 2250 * TERA, "tf32": 1100 * TERA, "fp32": 75 * TERA}
_GB200 = {"fp16": 2500 * TERA, "bf16": 2500 * TERA, "tf32": 1250 * TERA, "fp32": 80 * TERA}

# https://resources.nvidia.com/en-us-l40s/l40s-datasheet-28413 (half of the sparse 733 and 366)
_L40S = {"fp16": 362 * TERA, "bf16": 362 * TERA, "tf32": 183 * TERA, "fp32": 91.6 * TERA}

# https://d1.awsstatic.com/product-marketing/ec2/NVIDIA_AWS_A10G_DataSheet_FINAL_02_17_2022.pdf
_A10G = {"fp16": 70 * TERA, "bf16": 70 * TERA, "tf32": 35 * TERA, "fp32": 35 * TERA}

# https://images.nvidia.com/aem-dam/Solutions/geforce/ada/nvidia-ada-gpu-architecture.pdf, appendix A (dense, with sums
# in single precision: 165.2 and 82.6)
_RTX4090 = {"fp16": 165.2 * TERA, "bf16": 165.2 * TERA, "tf32": 82.6 * TERA, "fp32": 82.6 * TERA}

# https://www.amd.com/en/products/accelerators/instinct/mi300/mi300x.html (dense: 1307.4, 653.7, 163.4)
_MI300X = {"fp16": 1307.4 * TERA, "bf16": 1307.4 * TERA, "tf32": 653.7 * TERA, "fp32": 163.4 * TERA}

# Intel Xeon Platinum 8380, one socket, ark.intel.com product 212287: 40 cores at 2.3 GHz, each with two
# AVX-512 multiply-add units (16 lanes x 2 operations x 2 units); 8 channels of DDR4-3200. It has no
# half-precision products: they run at the single-precision rate.
_XEON_FP32 = 40 * 2.3e9 * 16 * 2 * 2
_XEON = {"fp16": _XEON_FP32, "bf16": _XEON_FP32, "tf32": _XEON_FP32, "fp32": _XEON_FP32}


PCIE_3, PCIE_4, PCIE_5 = 15.75, 31.5, 63.0
"""GB/s each way of 16 lanes: 8, 16 and 32 GT/s a lane, 128 bits in 130 (PCI-SIG, PCI Express Base Specification).
Which of them a device has is in its data sheet, named below."""

C2C = 225.0
"""GB/s each way of one of the two GPUs of a GB200: NVLink-C2C joins both to one Grace with 900 GB/s, both ways together
(NVIDIA, GB200 NVL72, https://www.nvidia.com/en-us/data-center/gb200-nvl72/)."""


def _gpu(
    name: str, memory: float, bandwidth: float, peak: Mapping[str, float], multiprocessors: int, host: float
) -> DeviceKind:
    rate = bandwidth * GB_PER_S
    return DeviceKind(
        name, memory * GB, rate, peak, multiprocessors, GPU_TILE, GPU_NARROWEST, GPU_LAUNCH_S, host * GB_PER_S
    )


_KINDS = (
    _gpu("V100-16GB", 16, 900, _V100, 80, PCIE_3),
    _gpu("V100-32GB", 32, 900, _V100, 80, PCIE_3),
    _gpu("A100-40GB", 40, 1555, _A100, 108, PCIE_4),
    _gpu("A100-80GB", 80, 2039, _A100, 108, PCIE_4),
    _gpu("H100-80GB", 80, 3350, _H100, 132, PCIE_5),
    # https://www.nvidia.com/en-us/data-center/h200/: Hopper's rates, 4.8 TB/s
    _gpu("H200-141GB", 141, 4800, _H100, 132, PCIE_5),
    _gpu("B200-180GB", 180, 7700, _B200, 148, PCIE_5),
    _gpu("GB200-186GB", 186, 8000, _GB200, 148, C2C),
    _gpu("L4-24GB", 24, 300, _L4, 58, PCIE_4),
    _gpu("L40S-48GB", 48, 864, _L40S, 142, PCIE_4),
    _gpu("A10G-24GB", 24, 600, _A10G, 80, PCIE_4),
    _gpu("RTX4090-24GB", 24, 1008, _RTX4090, 128, PCIE_4),
    _gpu("MI300X-192GB", 192, 5300, _MI300X, 304, PCIE_5),
    _gpu("RTX4060M-8GB", 8, 256, _LAPTOP_4060, 24, PCIE_4 / 2),
    DeviceKind(
        CPU_KIND,
        memory_bytes=256 * GB,
        memory_bytes_per_s=204.8 * GB_PER_S,
        peak_flops_per_s=_XEON,
        multiprocessors=40,
        # Rows and columns of the AVX-512 micro-kernel of oneDNN and BLIS, rounded to powers of two.
        tile=(16, 32),
        narrowest=16,
        # The order of one operator call in PyTorch's eager mode.
        launch_s=2e-6,
        host_bytes_per_s=204.8 * GB_PER_S / 2,  # a copy reads and writes
    ),
    # One core of it with its share of memory and bandwidth: a process that is pinned to a core runs one operator at a
    # time, as an accelerator does.
    DeviceKind(
        CPU_CORE,
        memory_bytes=256 * GB / 40,
        memory_bytes_per_s=204.8 * GB_PER_S / 40,
        peak_flops_per_s={dtype: peak / 40 for dtype, peak in _XEON.items()},
        multiprocessors=1,
        tile=(16, 32),
        narrowest=16,
        launch_s=2e-6,
        host_bytes_per_s=204.8 * GB_PER_S / 40 / 2,
    ),
)

DEVICES: dict[str, DeviceKind] = {kind.name: kind for kind in _KINDS}
"""Every kind by name."""


def device_name(kind: str, number: int) -> str:
    """What people read: "GPU 3", "CPU 0", "CPU core 3"."""
    stem = {CPU_KIND: "CPU", CPU_CORE: "CPU core"}.get(kind, "GPU")
    return f"{stem} {number}"


def device_of(kind: str, name: str, node: int = 0) -> Device:
    """A device of the catalogue, or of a kind that a workload states the times of and nothing else."""
    if kind not in DEVICES:
        return Device(name, kind, node=node)
    spec = DEVICES[kind]
    flops = max(spec.peak_flops_per_s.values())
    return Device(name, kind, spec.memory_bytes, flops, spec.memory_bytes_per_s, node=node)
